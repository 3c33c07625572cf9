"""A join of 200 partitions: one that Spark made with two, whose rows are shuffled again.

Each row lies in the partition to which its key hashes, as `verify --deep` checks, and as Spark does
each partition has a file of each version, most of them without rows.
"""

import io
import re
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from statemaint.codec.compression import base as compression
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.hdfs import records
from statemaint.codec.integrity.checksum_file import hadoop
from statemaint.codec.rows.murmur3 import partition_of
from tests.checkpoints.archive import contents
from tests.support.checkpoints import delta_bytes, put_files

PARTITIONS = 200
_ID = {"type": "struct", "fields": [{"name": "id", "type": "string", "nullable": True}]}
_DELTA = re.compile(r"state/0/\d+/(?P<store>[^/]+)/(?P<version>\d+)\.delta")
_STATE = re.compile(r"state/0/\d+/(?P<rest>.+)")
_COUNTS = (r'(spark\.sql\.shuffle\.partitions":\s*")\d+', r'("numPartitions":)\d+')


def write_wide_join(root: Path) -> None:
    found = contents("4.3.0")["join2"]
    put_files(root, dict((*_logs(found), *_schemas(found), *_deltas(found))))


def _with_checksum(path: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    folder, _, name = path.rpartition("/")
    yield path, content
    yield f"{folder}/.{name}.crc", hadoop(content)


def _logs(found: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Yields what is not of one partition, with the number of partitions."""
    for path, content in found.items():
        if not _STATE.fullmatch(path) or path.startswith("state/0/_metadata/"):
            text = content if path.endswith(".crc") else _widened(content)
            yield from _with_checksum(path, text) if "/_metadata/m" in path else [(path, text)]


def _widened(content: bytes) -> bytes:
    text = content.decode()
    for pattern in _COUNTS:
        text = re.sub(pattern, rf"\g<1>{PARTITIONS}", text)
    return text.encode()


def _schemas(found: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    yield from ((path, content) for path, content in found.items() if "/_metadata/" in path[9:])


def _deltas(found: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    rows: dict[tuple[str, str], dict[int, list[records.Record]]] = {}
    for path, content in found.items():
        if named := _DELTA.fullmatch(path):
            places = rows.setdefault((named["store"], named["version"]), defaultdict(list))
            chunks = compression.decode(COMPRESSIONS["lz4"], io.BytesIO(content))
            for record in records.decode(chunks):
                places[_partition(record[0])].append(record)
    empty = delta_bytes([])
    for (store, version), places in rows.items():
        for partition in range(PARTITIONS):
            content = delta_bytes(places[partition]) if partition in places else empty
            yield from _with_checksum(f"state/0/{partition}/{store}/{version}.delta", content)


def _partition(key: bytes) -> int:
    size, start = struct.unpack_from("<II", key, 8)
    return partition_of([key[start : start + size].decode()], _ID, PARTITIONS)
