"""The decoders of untrusted bytes, each with real files to start from and what must hold.

A check is handed any bytes. It passes unless the decoder lets out another error than the documented
one, gives more than its input can hold, or gives what cannot be used.
"""

import io
import json
import struct
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random

from statemaint.codec.compression import base as compression
from statemaint.codec.compression.base import Compression
from statemaint.codec.compression.lz4 import Lz4Block
from statemaint.codec.compression.lzf import Lzf
from statemaint.codec.compression.snappy import Snappy
from statemaint.codec.compression.zstd import Zstd
from statemaint.codec.hdfs import records
from statemaint.codec.integrity import checksum_file, row_checksum
from statemaint.codec.metadata import logs, schema
from statemaint.codec.rocksdb import changelog, log_records, snapshot_zip
from statemaint.codec.rocksdb.changelog import Change, Header
from statemaint.errors import CodecError
from statemaint.model.proof import Attestation
from statemaint.model.rocks import Upload, Uploads
from statemaint.records.attestations import StoreNotes, parse_attestations, render_attestations
from tests.fuzz.mutate import (
    log_record,
    mutated,
    mutated_json,
    seal_log,
    seal_lz4_blocks,
    seal_rows,
)
from tests.support import rocks_files
from tests.support.checkpoints import COMMIT, changes, offsets_bytes, state_at

_SMALL = 4096
_BLOCK = 32 * 1024


@dataclass(frozen=True)
class Target:
    """One decoder.

    Attributes:
        check: raises when anything undocumented happens with some bytes.
        seeds: valid inputs.
        repair: makes the checksums of changed input fit, so that what lies behind them is reached.
        change: makes a similar input.
    """

    check: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]
    repair: Callable[[bytes], bytes] = bytes
    change: Callable[[bytes, Random], bytes] = mutated

    def variant(self, content: bytes, random: Random) -> bytes:
        """Returns an input like this one, most often with checksums that fit."""
        changed = self.change(content, random)
        return self.repair(changed) if random.random() < 0.7 else changed


# -- compressions


def _compression_target(
    codec: Compression,
    most_per_byte: int,
    repair: Callable[[bytes], bytes] = bytes,
    plain: Callable[[bytes], bytes] = bytes,
) -> Target:
    def check(data: bytes) -> None:
        with suppress(CodecError):
            _check_stream(codec, data, most_per_byte)
        for row_checksums in (False, True):
            with suppress(CodecError):
                chunks = compression.decode(codec, io.BytesIO(data))
                _check_records(chunks, row_checksums=row_checksums)

    return Target(check, lambda: _streams(codec, plain), repair)


def _check_stream(codec: Compression, data: bytes, most_per_byte: int) -> None:
    start = bytearray()
    try:
        for block in codec.blocks(io.BytesIO(data)):
            stored = len(data) if block.stored is None else len(block.stored)
            assert 0 < len(block.payload) <= stored * most_per_byte
            start += block.payload[: _SMALL - len(start)]
    except CodecError as error:
        _must_be_inside(error, data)
        raise
    again = io.BytesIO(b"".join(compression.encode(codec, [bytes(start)])))
    assert b"".join(compression.decode(codec, again)) == start


def _must_be_inside(error: CodecError, data: bytes) -> None:
    assert 0 <= error.offset <= len(data)


def _streams(codec: Compression, plain: Callable[[bytes], bytes]) -> Iterator[bytes]:
    for payload in (*_payloads(row_checksums=False), *_payloads(row_checksums=True)):
        stored = b"".join(compression.encode(codec, [payload]))
        yield from (stored, plain(stored), plain(stored) + stored)


def _without_checksum(frame: bytes) -> bytes:
    """Returns a Zstandard frame as Spark writes it."""
    return frame[:4] + bytes([frame[4] & ~0x04]) + frame[5:-4]


def _payloads(*, row_checksums: bool) -> Iterator[bytes]:
    state = [(key, bytes(range(200)) + value) for key, value in state_at(8).items()]
    for rows in ([], changes(3), list(state_at(6).items()), state):
        yield b"".join(records.encode(rows, row_checksums=row_checksums))


# -- records


def _check_records(chunks: Iterable[bytes], *, row_checksums: bool) -> None:
    for key, value in records.decode(chunks, row_checksums=row_checksums):
        assert isinstance(key, bytes)
        assert value is None or not row_checksums or len(value) >= 4


def _records_target(*, row_checksums: bool) -> Target:
    def check(data: bytes) -> None:
        for step in (3, len(data) + 1):
            chunks = (data[at : at + step] for at in range(0, len(data), step))
            try:
                _check_records(chunks, row_checksums=row_checksums)
            except CodecError as error:
                _must_be_inside(error, data)

    repair = seal_rows if row_checksums else bytes
    return Target(check, lambda: _payloads(row_checksums=row_checksums), repair)


# -- RocksDB


def _changelog(
    data: bytes, step: int, *, row_checksums: bool
) -> tuple[Header, list[Change]] | None:
    chunks = (data[at : at + step] for at in range(0, len(data), step))
    try:
        header, changes = changelog.decode(chunks, row_checksums=row_checksums)
        return header, list(changes)
    except CodecError as error:
        _must_be_inside(error, data)
        return None


def _check_changelog(data: bytes) -> None:
    found = _changelog(data, 3, row_checksums=False)
    assert found == _changelog(data, len(data) + 1, row_checksums=False)
    checked = _changelog(data, len(data) + 1, row_checksums=True)
    if found is None:
        assert checked is None
        return
    header, changes = found
    assert changelog.read_header([data]) == header
    again = b"".join(changelog.encode(header, changes))
    assert len(again) <= len(data) + 80 * len(header.lineage)
    assert _changelog(again, len(again), row_checksums=False) == found
    for kind, key, value in checked[1] if checked else ():
        if kind in (changelog.PUT, changelog.MERGE):
            row_checksum.check_rows(key, value or b"", offset=0)


def _changelogs() -> Iterator[bytes]:
    for stored in rocks_files.CHANGELOGS:
        yield b"".join(compression.decode(Lz4Block(), io.BytesIO(stored)))


def _check_zip(data: bytes) -> None:
    with suppress(CodecError):
        members = snapshot_zip.members(data)
        assert sum(map(len, members.values())) <= len(data) * 1032
        assert not any(mark in name for name in members for mark in "/\\:")
        metadata = snapshot_zip.parse_metadata(data)
        again = snapshot_zip.render(members, metadata)
        assert snapshot_zip.parse_metadata(again) == metadata
        for file in metadata.ssts + metadata.logs:
            assert not any(mark in name for name in (file.local, file.stored) for mark in "/\\:")


def _changed_zip(content: bytes, random: Random) -> bytes:
    """Returns a zip with other bytes, or a sound one whose metadata say something else."""
    if random.random() < 0.5:
        return mutated(content, random)
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("metadata", mutated_json(rocks_files.ZIP_METADATA, random))
    return target.getvalue()


# -- text and side files


def _text_target(parse: Callable[[bytes], Iterable[str]], *seeds: bytes) -> Target:
    def check(data: bytes) -> None:
        with suppress(CodecError):
            for text in parse(data):
                text.encode()  # it is printed, hashed and written somewhere else

    return Target(check, lambda: seeds, change=mutated_json)


# The second goes over three blocks, and ends in a block that has room for no more than zeros.
_LOGS = (
    b"".join(log_record(1, body) for body in (b"one", b"", b"three")),
    log_record(2, bytes(_BLOCK - 7)) + log_record(3, bytes(_BLOCK - 7)) + log_record(4, b"end"),
    log_record(1, bytes(_BLOCK - 10)) + bytes(3) + log_record(1, b"more"),
)


def _check_log(data: bytes) -> None:
    try:
        log_records.check(data)
    except CodecError as error:
        _must_be_inside(error, data)
    else:
        assert len(data) < 7 or data == seal_log(data), "accepted with a checksum that is wrong"


_CONTENT = bytes(range(256)) * 3
_SPARK_SIDE = {"algorithm": "CRC32C", "value": -2093388049, "mainFileSize": 119, "creator": {}}
_OPERATOR = (
    b'v2\n{"operatorInfo":{"operatorId":0,"operatorName":"stateStoreSave"},"stateStoreInfo":'
    b'[{"storeName":"default","numColsPrefixKey":0,"numPartitions":2}]}'
)
_STRUCT = b'{"type":"struct","fields":[{"name":"key","type":"string"}]}'


def _utf(text: bytes) -> bytes:
    return struct.pack(">H", len(text)) + text


def _chunked(*texts: bytes) -> bytes:
    return struct.pack(">i", len(texts)) + b"".join(_utf(text) for text in texts)


_SCHEMAS = (
    _utf(b"v1") + _utf(_STRUCT) * 2,
    _utf(b"v2") + _chunked(_STRUCT) + _chunked(_STRUCT[:9], _STRUCT[9:]),
)
_ATTESTED = Attestation("state/0/0/5.snapshot", 5, 10, 1.5, "ab" * 16, 2, 30, 6, 0)
_UPLOADS = Uploads((Upload(5, "state/0/0/5.zip", 1.5), Upload(9, "state/0/0/9.zip")), 4)


def _check_attestations(data: bytes) -> None:
    # They are compared with files, sorted and written again; as text, since NaN equals nothing.
    found = parse_attestations(data)
    ordered = tuple(sorted(found.proofs, key=lambda one: one.version))
    content = render_attestations(replace(found, proofs=ordered))
    again = parse_attestations(content)
    assert str(again.proofs) == str(ordered)
    assert set(again.written) <= set(found.written)
    assert again.since == found.since
    assert str(again.uploads) == str(found.uploads)


def _commit(data: bytes) -> Iterable[str]:
    found = logs.parse_commit(data)
    logs.check_commit(data)
    ids = [one for partitions in found.values() for stores in partitions for one in stores]
    assert not any(mark in one for one in ids for mark in "/._")
    return ids


def _check_families(data: bytes) -> None:
    with suppress(CodecError):
        for family in schema.parse_families(data):
            family.name.encode()
            family.encoder.encode()


def _conf(data: bytes) -> Iterable[str]:
    conf = logs.parse_conf(data)
    return [*conf.keys(), *conf.values()]


def _operator(data: bytes) -> Iterable[str]:
    found = logs.parse_operator(data)
    assert all("/" not in store for store in found.stores)
    return [found.name, *found.stores]


def _state_metadata(data: bytes) -> Iterable[str]:
    found = logs.parse_state_metadata(data)
    names = [name for names in found.schemas.values() for name in names]
    assert not any("/" in name or name.startswith(".") for name in names)
    return [*names, *found.prefixes, *(found.lists or ())]


def _check_hadoop(data: bytes) -> None:
    with suppress(CodecError):
        assert checksum_file.hadoop_matches(data, io.BytesIO(_CONTENT)) in (True, False)


TARGETS = {
    "lz4": _compression_target(Lz4Block(block_size=1024), 255, seal_lz4_blocks),
    "lzf": _compression_target(Lzf(block_size=300), 88),
    "snappy": _compression_target(Snappy(block_size=300), 22),
    "zstd": _compression_target(Zstd(), 128 * 1024, plain=_without_checksum),
    "records": _records_target(row_checksums=False),
    "row_checksums": _records_target(row_checksums=True),
    "hadoop_checksum": Target(_check_hadoop, lambda: [checksum_file.hadoop(_CONTENT)]),
    "spark_checksum": _text_target(
        lambda data: [str(checksum_file.parse_spark(data))], json.dumps(_SPARK_SIDE).encode()
    ),
    "query_id": _text_target(logs.parse_query_id, b'{"id":"11111111-2222-3333-4444-555555555555"}'),
    "changelog": Target(_check_changelog, _changelogs),
    "rocks_log": Target(_check_log, lambda: _LOGS, seal_log),
    "rocks_zip": Target(_check_zip, lambda: [rocks_files.ZIP], change=_changed_zip),
    "commit": _text_target(_commit, COMMIT, rocks_files.COMMIT_2),
    "offsets": _text_target(_conf, offsets_bytes(row_checksums=True)),
    "operator": _text_target(_operator, _OPERATOR, rocks_files.OPERATOR_2),
    "state_metadata": _text_target(_state_metadata, _OPERATOR, rocks_files.OPERATOR_2),
    "schema": _text_target(lambda data: [str(schema.parse_schema(data))], *_SCHEMAS),
    "families": Target(_check_families, lambda: [rocks_files.SCHEMA_3]),
    "attestations": Target(
        _check_attestations,
        lambda: [render_attestations(StoreNotes((_ATTESTED,), uploads=_UPLOADS))],
        change=mutated_json,
    ),
}
"""Every target by its name."""
