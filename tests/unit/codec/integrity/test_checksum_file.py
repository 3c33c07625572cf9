"""Hadoop's and Spark's checksum files."""

import io
import json
import zlib

import pytest

from statemaint.codec.integrity import checksum_file
from statemaint.errors import CodecError

CONTENT = bytes(range(256)) * 3


def test_hadoops_file_has_a_crc_for_each_512_bytes() -> None:
    sums = [zlib.crc32(CONTENT[:512]), zlib.crc32(CONTENT[512:])]
    expected = b"crc\0\0\0\2\0" + b"".join(one.to_bytes(4) for one in sums)
    assert checksum_file.hadoop(CONTENT) == expected


def test_hadoops_file_matches_its_own_content_only() -> None:
    stored = checksum_file.hadoop(CONTENT)
    assert checksum_file.hadoop_matches(stored, io.BytesIO(CONTENT))
    assert not checksum_file.hadoop_matches(stored, io.BytesIO(CONTENT[:-1] + b"x"))
    assert not checksum_file.hadoop_matches(stored, io.BytesIO(CONTENT + b"x" * 512))


@pytest.mark.parametrize(
    "stored", [b"", b"crc\0", b"crx\0\0\0\2\0", b"crc\0\0\0\0\0", b"crc\0\0\0\2\0x"]
)
def test_a_malformed_hadoop_file_is_an_error(stored: bytes) -> None:
    with pytest.raises(CodecError):
        checksum_file.hadoop_matches(stored, io.BytesIO(CONTENT))


def test_sparks_file_holds_a_signed_crc32c() -> None:
    # CRC-32C of "123456789" is 0xE3069283, the check value of the algorithm.
    side = {"algorithm": "CRC32C", "value": 0xE3069283 - (1 << 32), "mainFileSize": 9}
    found = checksum_file.parse_spark(json.dumps(side).encode())
    assert found.matches(b"123456789")
    assert not found.matches(b"123456780")


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"[]",
        b"{}",
        b'{"algorithm":"MD5","value":1,"mainFileSize":1}',
        b'{"algorithm":"CRC32C","value":"1","mainFileSize":1}',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_a_malformed_spark_file_is_an_error(stored: bytes) -> None:
    with pytest.raises(CodecError):
        checksum_file.parse_spark(stored)
