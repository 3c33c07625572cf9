"""Changelogs of RocksDB stores."""

import io
import struct
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.codec.compression import base as compression
from statemaint.codec.compression.lz4 import Lz4Block
from statemaint.codec.rocksdb import changelog
from statemaint.codec.rocksdb.changelog import (
    DELETE,
    DELETE_RANGE,
    MERGE,
    PUT,
    Change,
    Header,
)
from statemaint.errors import CodecError
from tests.support import rocks_files

END = struct.pack(">i", -1)
ID_1, ID_2 = "98676881-f967-4847-a1f1-d8c6d27591f6", "07d60413-9d4f-45bf-b8bc-36ef11c59454"
LINEAGE = ((1, ID_1), (2, ID_2))
HEADERS = {
    1: Header(1),
    2: Header(2),
    3: Header(3, LINEAGE),
    4: Header(4, ((7, "a"), (9, "b-2"))),
}
REAL = {
    "1": rocks_files.CHANGELOG_1,
    "2": rocks_files.CHANGELOG_2,
    "3": rocks_files.CHANGELOG_3,
    "4": rocks_files.CHANGELOG_4,
    "1 with row checksums": rocks_files.SEALED_1,
    "2 with row checksums": rocks_files.SEALED_2,
}
EVERY_REAL = pytest.mark.parametrize("stored", REAL.values(), ids=REAL)
EVERY_FORMAT = pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)

BYTES = st.binary(max_size=40)
PLAIN: st.SearchStrategy[Change] = st.one_of(
    st.tuples(st.just(1), BYTES, st.binary(max_size=200)),
    st.tuples(st.just(16), BYTES, st.none()),
)
TAGGED = PLAIN | st.tuples(st.sampled_from([17, 32]), BYTES, BYTES)
IDS = st.dictionaries(
    st.integers(1, 2**63 - 1), st.text("09afZ-", min_size=1).map("0{:.35}".format), max_size=5
)
LINEAGES = IDS.map(lambda ids: tuple(sorted(ids.items())))
CONTENTS = st.one_of(
    st.tuples(st.just(Header(1)), st.lists(PLAIN)),
    st.tuples(st.just(Header(2)), st.lists(TAGGED)),
    st.tuples(LINEAGES.map(lambda lineage: Header(3, lineage)), st.lists(PLAIN)),
    st.tuples(LINEAGES.map(lambda lineage: Header(4, lineage)), st.lists(TAGGED)),
)


def unpacked(stored: bytes) -> bytes:
    return b"".join(compression.decode(Lz4Block(), io.BytesIO(stored)))


def chunks(payload: bytes, step: int) -> Iterator[bytes]:
    return (payload[at : at + step] for at in range(0, len(payload), step))


def decode(
    payload: bytes, step: int = 7, *, row_checksums: bool = False
) -> tuple[Header, list[Change]]:
    header, changes = changelog.decode(chunks(payload, step), row_checksums=row_checksums)
    return header, list(changes)


def encode(header: Header, *changes: Change, row_checksums: bool = False) -> bytes:
    return b"".join(changelog.encode(header, changes, row_checksums=row_checksums))


# -- Spark's own files


def test_a_file_without_families_and_ids_has_no_header() -> None:
    header, changes = decode(unpacked(rocks_files.CHANGELOG_1))
    assert (header, header.column_families) == (Header(1), False)
    assert Counter(kind for kind, _, _ in changes) == {PUT: 3, DELETE: 6}
    assert changes[0] == (
        1,
        bytes.fromhex("00 0000000000000000 0200000018000000 005c6e5448470600 6b30000000000000"),
        bytes.fromhex("00 0100000000000000 0000000000000000"),
    )


def test_a_file_with_families_knows_every_kind_of_change() -> None:
    header, changes = decode(unpacked(rocks_files.CHANGELOG_2))
    assert (header, header.column_families) == (Header(2), True)
    assert changes == [
        (PUT, b"\x02\0\0key1", b"\0val3"),
        (MERGE, b"\x02\0\0keym", b"\0m3"),
        (PUT, b"\x02\0\0keyl", b"\0one\0two\0three"),
        (MERGE, b"\x02\0\0keyl", b"\0four\0five"),
        (PUT, b"\x02\0\0r3", b"\0gone"),
        (DELETE_RANGE, b"\x02\0\0r0", b"\x02\0\0r2"),
    ]


def test_a_file_with_ids_has_a_lineage() -> None:
    header, changes = decode(unpacked(rocks_files.CHANGELOG_3))
    assert (header, header.column_families) == (Header(3, LINEAGE), False)
    assert [kind for kind, _, _ in changes] == [PUT, PUT, PUT]


def test_a_file_may_have_families_and_a_lineage() -> None:
    header, changes = decode(unpacked(rocks_files.CHANGELOG_4))
    assert header.column_families
    assert header.lineage == (
        (1, "81a0e8b8-ea80-4d69-89c9-9886f64e42c9"),
        (2, "eb15effb-98e4-48b7-995c-3a88d28e2191"),
    )
    assert [kind for kind, _, _ in changes] == [PUT, MERGE, PUT, MERGE, PUT, DELETE]
    assert changes[-1] == (DELETE, b"\x02\0\0key1", None)


@EVERY_REAL
def test_encodes_sparks_changes_to_sparks_bytes(stored: bytes) -> None:
    payload = unpacked(stored)
    assert encode(*(found := decode(payload))[:1], *found[1]) == payload


# -- both ways


@given(CONTENTS, st.integers(1, 400))
def test_decodes_what_it_encodes_in_chunks_of_any_size(
    content: tuple[Header, list[Change]], step: int
) -> None:
    header, changes = content
    payload = encode(header, *changes)
    assert decode(payload, step) == content
    assert changelog.read_header(chunks(payload, step)) == header


def test_the_bytes_are_sparks() -> None:
    changes: list[Change] = [(1, b"k", b"value"), (16, b"gone", None)]
    assert (
        encode(Header(1), *changes) == b"\0\0\0\1k\0\0\0\5value\0\0\0\4gone\xff\xff\xff\xff" + END
    )
    changes += [(17, b"k", b"more"), (32, b"a", b"b")]
    assert encode(Header(2), *changes) == (
        b"\0\2v2\1\0\0\0\1k\0\0\0\5value\x10\0\0\0\4gone\xff\xff\xff\xff"
        b"\x11\0\0\0\1k\0\0\0\4more\x20\0\0\0\1a\0\0\0\1b\0"
    )
    assert encode(Header(3, ((4, "x"),))) == (
        b'\0\2v3\0\x28[{"version":4,"checkpointUniqueId":"x"}]' + END
    )
    assert encode(Header(4)) == b"\0\2v4\0\2[]\0"


@EVERY_FORMAT
def test_a_long_payload_comes_in_pieces(header: Header) -> None:
    changes: list[Change] = [(1, bytes([number]), bytes(10_000)) for number in range(20)]
    pieces = list(changelog.encode(header, changes))
    assert len(pieces) == 3
    assert decode(b"".join(pieces), step=4096) == (header, changes)


@EVERY_FORMAT
def test_a_change_larger_than_any_buffer_is_read(header: Header) -> None:
    changes: list[Change] = [(1, b"k", b"v"), (1, bytes(200_000), bytes(300_000)), (16, b"k", None)]
    assert decode(encode(header, *changes), step=1000) == (header, changes)


@EVERY_FORMAT
def test_a_key_may_begin_in_one_buffer_and_end_in_the_next(header: Header) -> None:
    changes: list[Change] = [(1, b"a" * 70_000, b"value"), (1, b"key", b"")]
    payload = encode(header, *changes)
    cut = payload.index(b"key") + 1
    assert list(changelog.decode([payload[:cut], payload[cut:]])[1]) == changes


@EVERY_FORMAT
def test_an_empty_batch_is_read(header: Header) -> None:
    assert decode(encode(header), step=1) == (header, [])


@EVERY_FORMAT
def test_the_header_takes_no_more_than_it_needs(header: Header) -> None:
    payload = encode(header, (1, bytes(1000), bytes(1000)))
    pieces = chunks(payload, 1)
    assert changelog.read_header(pieces) == header
    taken = len(payload) - len(list(pieces))
    assert taken == (4 if header.format < 3 else payload.index(b"]") + 1)


def test_the_first_key_of_a_long_payload_is_no_header() -> None:
    change: Change = (1, bytes(0x00027631), b"v")  # looks like "v1", which Spark takes for format 1
    assert decode(encode(Header(1), change), step=50_000) == (Header(1), [change])


@EVERY_FORMAT
@pytest.mark.parametrize("step", [1, 1000])
def test_what_is_empty_is_no_deletion(header: Header, step: int) -> None:
    changes: list[Change] = [(1, b"", b""), (1, b"k", b""), (16, b"d", None), (1, b"last", b"")]
    assert decode(encode(header, *changes), step)[1] == changes


def test_any_negative_value_length_deletes_without_families() -> None:
    assert decode(b"\0\0\0\1k" + struct.pack(">i", -9) + END) == (Header(1), [(16, b"k", None)])


def test_families_in_use_are_those_that_changes_put_or_merge_into() -> None:
    changes: list[Change] = [
        (PUT, b"\2\0key", b"value"),
        (MERGE, b"\xfe\xffkey", b"more"),
        (DELETE, b"\3\0key", None),
        (DELETE_RANGE, b"\4\0a", b"\4\0b"),
    ]
    assert changelog.families_used(Header(2), changes) == {2, -2}
    assert changelog.families_used(Header(1), changes) == frozenset()


# -- damage


@pytest.mark.parametrize(
    ("number", "text"),
    [(3, "it has none of the column families, 3.zip has some"), (4, "it has some .* has none")],
)
def test_only_one_of_a_changelog_and_a_zip_with_families_is_damage(number: int, text: str) -> None:
    header = HEADERS[number]
    header.must_be_like("3.zip", column_families=header.column_families)
    with pytest.raises(CodecError, match=text) as caught:
        header.must_be_like("3.zip", column_families=not header.column_families)
    assert caught.value.offset == 0


@pytest.mark.parametrize(
    ("payload", "offset", "text"),
    [
        (b"", 0, "ends early: 0 of 4"),
        (b"\0\2v", 3, "ends early: 3 of 4"),
        (b"\0\2v0", 0, "format v0 is not known"),
        (b"\0\2v5\0\2[]", 0, "format v5 is not known"),
        (b"\0\0\0\5ab", 6, "ends early: 6 of 13"),
        (b"\0\0\0\1k\0\0\0\2v", 10, "ends early: 10 of 11"),
        (b"\0\0\0\1k\0\0\0\1v", 10, "ends early: 0 of 4"),
        (b"\0\0\0\1k\0\0\0\1v\0\0", 12, "ends early: 2 of 4"),
        (b"\0\0\0\1k\0\0\0\1v" + struct.pack(">i", -2), 10, "key size cannot be -2"),
        (END + b"x", 4, "bytes follow the end"),
        (b"\x7f\xff\xff\xffk", 5, "ends early: 5 of 2147483655"),
        (b"\0\2v2", 4, "ends early: 0 of 1"),
        (b"\0\2v2\1\0\0\0", 8, "ends early: 4 of 5"),
        (b"\0\2v2\1\0\0\0\1k\0\0\0\1v", 15, "ends early: 0 of 5"),
        (b"\0\2v2\1\0\0\0\1k\0\0\0\2v", 15, "ends early: 11 of 12"),
        (b"\0\2v2\1\0\0\0\5k\0\0\0\2v", 15, "ends early: 11 of 14"),
        (b"\0\2v2\0\0", 5, "bytes follow the end"),
        (b"\0\2v2\0\0\0\0\0", 5, "bytes follow the end"),
        (b"\0\2v2\1\0\0\0\0\0\0\0\0\2\0\0\0\0", 13, "unknown kind 2"),
        (b"\0\2v2\1" + END + END, 4, "key size cannot be -1"),
        (b"\0\2v2\1\0\0\0\1k" + END, 10, "kind 1 cannot be -1"),
        (b"\0\2v2\x11\0\0\0\1k" + END, 10, "kind 17 cannot be -1"),
        (b"\0\2v2\x20\0\0\0\1k" + END, 10, "kind 32 cannot be -1"),
        (b"\0\2v2\x10\0\0\0\1k\0\0\0\0", 10, "kind 16 cannot be 0"),
        (b"\0\2v2\x10\0\0\0\1k" + struct.pack(">i", -2), 10, "kind 16 cannot be -2"),
        (b"\0\2v3", 4, "ends early: 0 of 2"),
        (b"\0\2v3\0\3[]", 8, "ends early: 2 of 3"),
        (b"\0\2v3\0\2[]", 8, "ends early: 0 of 1"),
    ],
)
def test_damage_is_named_with_its_place(payload: bytes, offset: int, text: str) -> None:
    with pytest.raises(CodecError, match=text) as caught:
        decode(payload)
    assert caught.value.offset == offset


@EVERY_FORMAT
def test_bytes_that_come_after_the_last_buffer_are_damage_too(header: Header) -> None:
    payload = encode(header, (1, bytes(50_000), bytes(50_000)))
    with pytest.raises(CodecError, match="bytes follow the end") as caught:
        list(changelog.decode([payload, b"", b"x"])[1])
    assert caught.value.offset == len(payload)


def item(version: str = "1", unique_id: str = '"x"') -> str:
    return f'{{"version":{version},"checkpointUniqueId":{unique_id}}}'


@pytest.mark.parametrize(
    ("lineage", "text"),
    [
        ("", "cannot be read"),
        ("{}", "is not a list"),
        ("5", "is not a list"),
        ("[5]", "cannot be read"),
        ("[{}]", "cannot be read"),
        ("[" * 9999, "cannot be read"),
        ("\ud800", "cannot be read"),
        (f"[{item('0')}]", "version 0 after 0"),
        (f"[{item('true')}]", "version True after 0"),
        (f"[{item('1.0')}]", "version 1.0 after 0"),
        (f"[{item(str(2**63))}]", "version 9223372036854775808 after 0"),
        (f"[{item('9' * 5000)}]", "cannot be read"),
        (f"[{item('9' * 30)}]", "version 9{20} after 0"),
        (f"[{item('2')},{item('2')}]", "version 2 after 2"),
        (f"[{item('2')},{item('1')}]", "version 1 after 2"),
        (f"[{item(unique_id='5')}]", "unique id '5' is not valid"),
        (f"[{item(unique_id='null')}]", "unique id 'None' is not valid"),
        (f"[{item(unique_id=chr(34) * 2)}]", "unique id '' is not valid"),
        (f"[{item(unique_id=chr(34) + '../x' + chr(34))}]", "unique id '../x' is not valid"),
        (f"[{item('1')},{item('2', chr(34) + 'a' + chr(92) + 'nb' + chr(34))}]", "is not valid"),
    ],
)
@pytest.mark.parametrize("version", [3, 4])
def test_a_lineage_that_cannot_be_is_damage(version: int, lineage: str, text: str) -> None:
    content = lineage.encode("utf-8", "surrogatepass")
    payload = f"\0\2v{version}".encode() + struct.pack(">H", len(content)) + content
    for read in (changelog.read_header, decode_whole):
        with pytest.raises(CodecError, match=text) as caught:
            read([payload])
        assert caught.value.offset == 4


def decode_whole(pieces: list[bytes]) -> tuple[Header, list[Change]]:
    return decode(b"".join(pieces))


@pytest.mark.parametrize(
    ("header", "changes"),
    [
        (Header(0), []),
        (Header(5), []),
        (Header(1, LINEAGE), []),
        (Header(2, LINEAGE), []),
        (Header(3, tuple((version, ID_1) for version in range(1, 1000))), []),
        (Header(1), [(17, b"k", b"v")]),
        (Header(3), [(32, b"k", b"v")]),
        (Header(2), [(2, b"k", b"v")]),
        (Header(2), [(1, b"k", None)]),
        (Header(2), [(16, b"k", b"v")]),
    ],
)
def test_what_the_format_has_no_place_for_is_not_written(
    header: Header, changes: list[Change]
) -> None:
    with pytest.raises(ValueError, match=r"no (changelog|header)"):
        encode(header, *changes)


def test_a_header_has_a_text_of_65535_bytes_at_most() -> None:
    assert changelog._utf("a" * 65_535) == b"\xff\xff" + b"a" * 65_535
    with pytest.raises(ValueError, match="text of 65536 bytes"):
        changelog._utf("a" * 65_536)


# -- row checksums


def test_sparks_row_checksums_match_where_a_value_is_one_row() -> None:
    payload = unpacked(rocks_files.SEALED_1)
    header, changes = decode(payload, row_checksums=True)
    bare = [(kind, key, value and value[8:]) for kind, key, value in changes]
    assert [change for change in bare if change[0] == PUT] == decode(
        unpacked(rocks_files.CHANGELOG_1)
    )[1][:3]
    assert encode(header, *bare, row_checksums=True) == payload


def test_sparks_row_checksums_match_in_lists_and_ranges() -> None:
    _, stored = decode(unpacked(rocks_files.SEALED_2))
    _, changes = decode(unpacked(rocks_files.SEALED_2), row_checksums=True)
    assert changes[:-1] == stored[:-1]
    assert changes[-1] == (DELETE_RANGE, b"\x02\0\0r0", b"\x02\0\0r2")


@given(CONTENTS, st.integers(1, 400))
def test_row_checksums_stay_in_values_and_leave_keys_and_ranges(
    content: tuple[Header, list[Change]], step: int
) -> None:
    header, changes = content
    payload = encode(header, *changes, row_checksums=True)
    _, stored = decode(payload, step)
    found = decode(payload, step, row_checksums=True)
    assert found == (
        header,
        [
            kept if kind in (PUT, MERGE) else (kind, key, value)
            for (kind, key, value), kept in zip(changes, stored, strict=True)
        ],
    )


@pytest.mark.parametrize("name", ["SEALED_1", "SEALED_2"])
def test_a_changed_bit_is_never_believed(name: str) -> None:
    payload = unpacked(getattr(rocks_files, name))
    expected = decode(payload, row_checksums=True)
    for bit in range(len(payload) * 8):
        changed = bytearray(payload)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            found = decode(bytes(changed), len(changed), row_checksums=True)
        except CodecError:
            continue
        # Another negative length deletes too, and nothing guards what is done with a row.
        unguarded = {(PUT, MERGE), (MERGE, PUT)}
        assert found == expected or [
            (now, before)
            for (now, *_), (before, *_) in zip(found[1], expected[1], strict=True)
            if now != before
        ] in [[pair] for pair in unguarded]


def test_a_wrong_row_checksum_is_named_with_the_place_of_its_change() -> None:
    first: Change = (1, b"first", b"1")
    good = encode(Header(4), first, (1, b"key", b"value"), row_checksums=True)
    with pytest.raises(CodecError, match="row checksum is") as caught:
        decode(good.replace(b"value", b"valve"), 1000, row_checksums=True)
    assert caught.value.offset == good.index(b"\1\0\0\0\3key")
