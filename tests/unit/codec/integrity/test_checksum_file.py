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


@pytest.mark.parametrize("step", [1, 1 << 24])
def test_hadoops_file_may_be_of_another_step(step: int) -> None:
    content = b"content"
    sums = [zlib.crc32(content[at : at + step]) for at in range(0, len(content), step)]
    stored = b"crc\0" + step.to_bytes(4) + b"".join(one.to_bytes(4) for one in sums)
    assert checksum_file.hadoop_matches(stored, io.BytesIO(content))


def test_hadoops_file_of_an_empty_file_is_its_header() -> None:
    assert checksum_file.hadoop(b"") == b"crc\0\0\0\2\0"
    assert checksum_file.hadoop_matches(b"crc\0\0\0\2\0", io.BytesIO())


@pytest.mark.parametrize(
    ("stored", "offset"),
    [
        (b"", 0),
        (b"crc\0", 0),
        (b"crx\0\0\0\2\0", 0),
        (b"crc\0\0\0\0\0", 4),
        (b"crc\0\1\0\0\1", 4),
        (b"crc\0\0\0\2\0x", 4),
    ],
)
def test_a_malformed_hadoop_file_is_an_error(stored: bytes, offset: int) -> None:
    with pytest.raises(CodecError) as caught:
        checksum_file.hadoop_matches(stored, io.BytesIO(CONTENT))
    assert caught.value.offset == offset


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
    with pytest.raises(CodecError) as caught:
        checksum_file.parse_spark(stored)
    assert caught.value.offset == 0


def test_sparks_file_is_one_line_of_json_without_spaces() -> None:
    assert checksum_file.spark(0xE3069283, 9, modified=12.5) == (
        b'{"algorithm":"CRC32C","value":-486108541,"mainFileSize":9,"timestampMs":12500}'
    )
