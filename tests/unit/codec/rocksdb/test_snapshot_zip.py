"""The zips of RocksDB stores."""

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.codec.rocksdb import snapshot_zip
from statemaint.codec.rocksdb.snapshot_zip import ImmutableFile, ZipMetadata, ZipShape
from statemaint.errors import CodecError
from tests.support.rocks_files import ZIP, ZIP_METADATA

# As Spark 3.5 writes it.
PLAIN = (
    b'v1\n{"sstFiles":[{"localFileName":"000008.sst","dfsSstFileName":'
    b'"000008-82f52d94-7c5c-45e0-a72c-f24a4fab8a5d.sst","sizeBytes":1272}],"numKeys":3}'
)
SST = ImmutableFile("000008.sst", "000008-82f52d94-7c5c-45e0-a72c-f24a4fab8a5d.sst", 1272)
LOG = ImmutableFile("000009.log", "000009-82f52d94-7c5c-45e0-a72c-f24a4fab8a5d.log", 7)

NUMBERED = st.integers(0, 10**20 - 1).map(str)


def large(kind: str) -> st.SearchStrategy[tuple[ImmutableFile, ...]]:
    names = st.text("08aZ_-", max_size=9).map(lambda name: f"0{name}.{kind}")
    file = st.builds(ImmutableFile, names, names, st.integers(0, 2**63 - 1))
    return st.lists(file, max_size=4, unique_by=lambda file: file.local).map(tuple)


NUMBERS = st.integers(-(2**63) + 1, 2**63 - 1)
METADATA = st.builds(
    ZipMetadata,
    large("sst"),
    large("log"),
    NUMBERS,
    NUMBERS,
    st.dictionaries(st.text(max_size=9), NUMBERS, max_size=4),
    st.dictionaries(st.text(max_size=9), st.booleans(), max_size=4),
    NUMBERS,
    format=st.sampled_from(["v1", "v2"]),
) | st.builds(ZipMetadata, large("sst"), large("log"), NUMBERS, shape=st.just(ZipShape.PLAIN))
MEMBERS = st.dictionaries(
    st.sampled_from(["CURRENT", "IDENTITY"])
    | NUMBERED.map("MANIFEST-{}".format)
    | NUMBERED.map("OPTIONS-{}".format)
    | NUMBERED.map("{}.log".format),
    st.binary(max_size=300),
    max_size=5,
)


def zipped(members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return target.getvalue()


def metadata(**changes: Any) -> bytes:
    """Returns a zip with Spark's metadata, some of its fields changed; left out when `None`."""
    fields = json.loads(ZIP_METADATA[3:]) | changes
    kept = {name: value for name, value in fields.items() if value is not None}
    return zipped({"metadata": b"v1\n" + json.dumps(kept).encode()})


def sst(**changes: Any) -> list[dict[str, Any]]:
    file = {"localFileName": "000008.sst", "dfsSstFileName": "000008-a.sst", "sizeBytes": 1}
    return [{name: value for name, value in (file | changes).items() if value is not None}]


# -- reading


def test_reads_what_spark_4_wrote() -> None:
    assert snapshot_zip.parse_metadata(ZIP) == ZipMetadata(
        ssts=(
            ImmutableFile("000008.sst", "000008-dccdc576-1a03-46e0-9105-121ebf1a1cbb.sst", 1342),
            ImmutableFile("000009.sst", "000009-21476335-547e-47a8-babd-1e8793ab682f.sst", 1453),
        ),
        keys=7,
        families={"default": 1, "fam": 2},
        internal={"default": False, "fam": False},
        last_family=2,
    )
    found = snapshot_zip.members(ZIP)
    assert {name: len(content) for name, content in found.items()} == {
        "MANIFEST-000005": 356,
        "CURRENT": 16,
        "000004.log": 0,
        "OPTIONS-000007": 7615,
        "metadata": 397,
    }
    assert found["CURRENT"] == b"MANIFEST-000005\n"
    assert found["metadata"] == ZIP_METADATA


def test_reads_what_spark_3_wrote() -> None:
    found = snapshot_zip.parse_metadata(zipped({"metadata": PLAIN}))
    assert found == ZipMetadata((SST,), keys=3, shape=ZipShape.PLAIN)


def test_archived_logs_are_files_too() -> None:
    log = {"localFileName": LOG.local, "dfsLogFileName": LOG.stored, "sizeBytes": LOG.size}
    found = snapshot_zip.parse_metadata(metadata(sstFiles=[], logFiles=[log]))
    assert (found.ssts, found.logs) == ((), (LOG,))


def test_absent_families_are_none() -> None:
    content = metadata(columnFamilyMapping=None, columnFamilyTypeMap=None, maxColumnFamilyId=None)
    found = snapshot_zip.parse_metadata(content)
    assert (found.families, found.internal, found.last_family) == ({}, {}, 0)
    assert found.shape is ZipShape.FAMILIES


def test_unknown_fields_that_can_name_no_file_are_ignored() -> None:
    same = snapshot_zip.parse_metadata(metadata(note="x", more=7, empty=[], nothing={}, flag=True))
    assert same == snapshot_zip.parse_metadata(ZIP)


@pytest.mark.parametrize("value", [["000010.blob"], {"a": 1}])
def test_unknown_fields_that_may_name_files_are_refused(value: object) -> None:
    with pytest.raises(CodecError, match="unknown field 'blobFiles'"):
        snapshot_zip.parse_metadata(metadata(blobFiles=value))


# -- writing


def test_what_was_unpacked_can_be_packed_again() -> None:
    again = snapshot_zip.render(snapshot_zip.members(ZIP), snapshot_zip.parse_metadata(ZIP))
    assert snapshot_zip.members(again) == snapshot_zip.members(ZIP)
    assert snapshot_zip.parse_metadata(again) == snapshot_zip.parse_metadata(ZIP)
    assert again == snapshot_zip.render(
        snapshot_zip.members(again), snapshot_zip.parse_metadata(again)
    )


def test_members_are_packed_as_sparks_are() -> None:
    content = snapshot_zip.render({"OPTIONS-000007": bytes(9999), "CURRENT": b""}, ZipMetadata(()))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        found = archive.infolist()
    assert [entry.filename for entry in found] == ["CURRENT", "OPTIONS-000007", "metadata"]
    assert {entry.compress_type for entry in found} == {zipfile.ZIP_DEFLATED}
    assert {(entry.flag_bits, entry.create_system) for entry in found} == {(0, 0)}
    assert {entry.date_time for entry in found} == {(1980, 1, 1, 0, 0, 0)}
    assert len(content) < 999


def test_the_metadata_has_the_shape_asked_for() -> None:
    plain = snapshot_zip.render({}, ZipMetadata((SST,), keys=3, shape=ZipShape.PLAIN))
    assert snapshot_zip.members(plain) == {"metadata": PLAIN}
    four = snapshot_zip.render({}, ZipMetadata((), (LOG,), -1, families={"ä": 1}))
    assert snapshot_zip.members(four)["metadata"].decode() == (
        'v1\n{"sstFiles":[],"logFiles":[{"localFileName":"000009.log","dfsLogFileName":'
        '"000009-82f52d94-7c5c-45e0-a72c-f24a4fab8a5d.log","sizeBytes":7}],"numKeys":-1,'
        '"numInternalKeys":0,"columnFamilyMapping":{"ä":1},"columnFamilyTypeMap":{},'
        '"maxColumnFamilyId":0}'
    )


@given(MEMBERS, METADATA)
def test_reads_what_it_writes(members: dict[str, bytes], found: ZipMetadata) -> None:
    content = snapshot_zip.render(members, found)
    assert snapshot_zip.parse_metadata(content) == found
    unpacked = dict(snapshot_zip.members(content))
    del unpacked["metadata"]
    assert unpacked == members


@pytest.mark.parametrize("name", ["../CURRENT", "a/CURRENT", "", "000008.sst", "LOCK"])
def test_a_name_that_is_not_rocksdbs_is_not_written(name: str) -> None:
    with pytest.raises(CodecError, match="not one of RocksDB's files"):
        snapshot_zip.render({name: b""}, ZipMetadata(()))


# -- damage


def read_both(content: bytes, match: str, offset: int = 0) -> None:
    for read in (snapshot_zip.parse_metadata, snapshot_zip.members):
        with pytest.raises(CodecError, match=match) as caught:
            read(content)
        assert caught.value.offset == offset


@pytest.mark.parametrize("end", [0, 3, 21, 22, 500, 3000, 3800, 3908])
def test_a_cut_zip_is_damage(end: int) -> None:
    read_both(ZIP[:end], "not a sound zip")


@pytest.mark.parametrize(
    "name",
    [
        *("../CURRENT", "/CURRENT", "a/CURRENT", "CURRENT/", "a\\CURRENT", "C:CURRENT", ".."),
        *("CURRENT\n", "LOCK", "000008.sst", "MANIFEST-", "MANIFEST-x", "current", "metadata "),
        *("MANIFEST-٣", "OPTIONS-000007.dbtmp", "rocksdict-config.json"),
    ],
)
def test_a_hostile_name_is_refused(name: str) -> None:
    read_both(zipped({"metadata": PLAIN, name: b"x"}), "not one of RocksDB's files")


def test_a_name_may_come_once() -> None:
    content = zipped({"metadata": PLAIN, "METADATA": PLAIN}).replace(b"METADATA", b"metadata")
    read_both(content, "2 members, 1 of them distinct")


def test_too_many_members_are_refused() -> None:
    logs = {f"{number}.log": b"" for number in range(1001)}
    read_both(zipped(logs), "1001 members")
    del logs["0.log"]
    assert snapshot_zip.members(zipped(logs)) == logs


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_foreign_compression_is_refused(method: int) -> None:
    read_both(zipped({"metadata": PLAIN}, method), "packed in an unknown way")


def patched(offset: int, form: str, value: int) -> bytes:
    """Returns a zip with a number changed in the central directory's entry of its one member."""
    content = bytearray(zipped({"metadata": PLAIN}))
    struct.pack_into(form, content, content.index(b"PK\1\2") + offset, value)
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (patched(8, "<H", 1), "packed in an unknown way"),  # encrypted
        (patched(8, "<H", 0x20), "NotImplementedError"),  # a patch of another file
        (patched(6, "<H", 999), "NotImplementedError"),  # of a zip version to come
        (patched(16, "<I", 7), "Bad CRC-32"),
        (patched(24, "<I", 5_000_000), "cannot hold 5000000"),
        (patched(24, "<I", 90_000), "144 bytes instead of 90000"),
        (patched(42, "<I", 9_999_999), "not a sound zip"),
        (zipped({"metadata": bytes(5_000_000)}), "cannot hold 5000000"),
    ],
)
def test_lies_about_a_member_are_damage(content: bytes, text: str) -> None:
    read_both(content, text)


@pytest.mark.parametrize(
    ("offset", "form"), [(6, "<H"), (8, "<H"), (14, "<I"), (18, "<I"), (22, "<I")]
)
def test_a_header_that_only_java_reads_must_agree_with_the_list(offset: int, form: str) -> None:
    """Flags, method, checksum and both sizes; Python reads them from the end of the zip."""
    content = bytearray(zipped({"metadata": PLAIN}))
    struct.pack_into(form, content, offset, 12345)
    read_both(bytes(content), "header of metadata differs from the zip's list")


@pytest.mark.parametrize("field", [0, 4, 8, 12])
def test_the_sums_that_java_writes_after_a_member_must_agree_with_the_list(field: int) -> None:
    content = bytearray(ZIP)
    content[content.index(b"PK\7\x08") + field] ^= 1
    read_both(bytes(content), "differs from the zip's list")


def test_the_sums_may_follow_a_member_only_where_its_flags_say_so() -> None:
    content = bytearray(zipped({"metadata": PLAIN}))
    content[14:26] = bytes(12)
    read_both(bytes(content), "header of metadata differs")


def test_a_member_may_be_stored_empty() -> None:
    members = {"CURRENT": b"", "metadata": PLAIN}
    assert snapshot_zip.members(zipped(members, zipfile.ZIP_STORED)) == members


def test_only_the_metadata_have_a_limit_of_4_mib() -> None:
    members = {"MANIFEST-000005": bytes(4 * 1024 * 1024 + 1), "metadata": PLAIN}
    assert snapshot_zip.members(zipped(members)) == members


def test_a_member_may_have_more_in_its_own_header() -> None:
    """Java writes a member's sums after it, and may write an extra field before it."""
    name, body, extra = b"CURRENT", b"content", b"\xfe\xca\0\0"
    sums = struct.pack("<III", zlib.crc32(body), len(body), len(body))
    kind = struct.pack("<HHHHH", 20, 8, 0, 0, 0x21)
    local = b"PK\3\4" + kind + bytes(12) + struct.pack("<HH", len(name), len(extra)) + name + extra
    member = local + body + b"PK\7\x08" + sums
    listed = b"PK\1\2" + struct.pack("<H", 20) + kind + sums + struct.pack("<H", len(name))
    listed += bytes(16) + name
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(listed), len(member), 0)
    assert snapshot_zip.members(member + listed + end) == {"CURRENT": body}


def test_a_zip_that_expands_too_far_is_refused() -> None:
    members = {f"MANIFEST-{number}": bytes(33 * 1024 * 1024) for number in range(2)}
    read_both(zipped(members), "expands to more")


def test_a_zip_without_metadata_is_damage() -> None:
    with pytest.raises(CodecError, match="no metadata") as caught:
        snapshot_zip.parse_metadata(zipped({"CURRENT": b""}))
    assert caught.value.offset == 0


def test_only_the_metadata_are_unpacked_for_themselves() -> None:
    content = zipped({"metadata": PLAIN, "CURRENT": b"content"}, zipfile.ZIP_STORED)
    broken = content.replace(b"content", b"CONTENT")
    assert snapshot_zip.parse_metadata(broken).keys == 3
    with pytest.raises(CodecError, match="Bad CRC-32"):
        snapshot_zip.members(broken)


def test_a_zip_is_unmarked_where_no_mark_is_asked_for() -> None:
    assert not snapshot_zip.marked(snapshot_zip.render({}, ZipMetadata(())))
    assert snapshot_zip.marked(snapshot_zip.render({}, ZipMetadata(()), mark=True))


def test_of_a_long_name_80_characters_are_shown() -> None:
    with pytest.raises(CodecError, match=f"member '{'x' * 80}' is not one"):
        snapshot_zip.render({"x" * 90: b""}, ZipMetadata(()))
    with pytest.raises(CodecError, match=f"unknown field '{'x' * 80}'") as caught:
        snapshot_zip.parse_metadata(metadata(**{"x" * 90: [1]}))
    assert caught.value.offset == 0
    with pytest.raises(CodecError, match=r"unknown format b'vvvvvvvv' "):
        snapshot_zip.parse_metadata(zipped({"metadata": b"v" * 9}))


def test_a_file_may_be_empty() -> None:
    found = snapshot_zip.parse_metadata(metadata(sstFiles=sst(sizeBytes=0)))
    assert [file.size for file in found.ssts] == [0]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "unknown format"),
        (b"v3\n{}", "unknown format b'v3'"),
        (b"v1", "not JSON"),
        (b"v1\n{", "not JSON"),
        (b"v1\n\xff", "not JSON"),
        (b"v1\n" + b"[" * 99_999, "not JSON"),
        (b"v1\n[]", "not a JSON object"),
        (b"v1\n{}", "KeyError"),
    ],
)
def test_metadata_of_another_form_is_damage(content: bytes, text: str) -> None:
    with pytest.raises(CodecError, match=text) as caught:
        snapshot_zip.parse_metadata(zipped({"metadata": content}))
    assert caught.value.offset == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"sstFiles": None},
        {"sstFiles": 5},
        {"sstFiles": {"a": 1}},
        {"sstFiles": [5]},
        {"sstFiles": sst(localFileName=None)},
        {"sstFiles": sst(localFileName=5)},
        {"sstFiles": sst(localFileName="../8.sst")},
        {"sstFiles": sst(localFileName=".sst")},
        {"sstFiles": sst(localFileName="8.blob")},
        {"sstFiles": sst(dfsSstFileName=None)},
        {"sstFiles": sst(dfsSstFileName="a/8.sst")},
        {"sstFiles": sst(dfsSstFileName="..sst")},
        {"sstFiles": sst(dfsSstFileName="8.sst\n")},
        {"sstFiles": sst(dfsSstFileName="8" * 300 + ".sst")},
        {"sstFiles": sst(sizeBytes=None)},
        {"sstFiles": sst(sizeBytes=-1)},
        {"sstFiles": sst(sizeBytes=True)},
        {"sstFiles": sst(sizeBytes=1.5)},
        {"sstFiles": sst(sizeBytes=2**63)},
        {"sstFiles": sst() * 2},
        {"logFiles": 5},
        {"logFiles": sst()},
        {"numKeys": None},
        {"numKeys": "3"},
        {"numInternalKeys": []},
        {"columnFamilyMapping": [1]},
        {"columnFamilyMapping": {"a": "b"}},
        {"columnFamilyMapping": {"\ud800": 1}},
        {"columnFamilyTypeMap": {"a": 1}},
        {"maxColumnFamilyId": {}},
    ],
)
def test_metadata_that_cannot_be_is_damage(changes: dict[str, Any]) -> None:
    with pytest.raises(CodecError, match="zip metadata is not valid") as caught:
        snapshot_zip.parse_metadata(metadata(**changes))
    assert caught.value.offset == 0


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"sstFiles": sst(localFileName="8.blob")}, "ValueError('8.blob')"),
        ({"sstFiles": sst(sizeBytes=-1)}, "ValueError(-1)"),
        ({"sstFiles": sst() * 2}, "ValueError([{'localFileName': '000008.sst'"),
        ({"numKeys": "3"}, "ValueError('3')"),
        ({"columnFamilyTypeMap": {"a": 1}}, "ValueError(1)"),
    ],
)
def test_what_cannot_be_is_shown(changes: dict[str, Any], shown: str) -> None:
    with pytest.raises(CodecError) as caught:
        snapshot_zip.parse_metadata(metadata(**changes))
    assert shown in str(caught.value)
