"""Hadoop's and Spark's checksum files, and the checksum of bytes that pass."""

import io
import json
import zlib

import google_crc32c
import pytest

from statemaint.codec.integrity import checksum_file
from statemaint.codec.integrity.checksum_file import ChecksummedChunks, ChecksummedStream
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


# -- bytes that pass

PASSED = bytes(range(256)) * 300  # more than a piece of `drain`


class CountedReads(io.BytesIO):
    """Counts the reads of a stream."""

    reads = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads += 1
        return super().read(size)


def test_chunks_pass_unchanged_and_the_checksum_is_that_of_all() -> None:
    chunks = ChecksummedChunks([PASSED[:3], b"", PASSED[3:]])
    assert list(chunks) == [PASSED[:3], b"", PASSED[3:]]
    assert chunks.crc32c == google_crc32c.value(PASSED)


def test_the_checksum_covers_the_chunks_that_have_passed() -> None:
    chunks = ChecksummedChunks([b"one", b"two"])
    assert chunks.crc32c == 0
    assert next(iter(chunks)) == b"one"
    assert chunks.crc32c == google_crc32c.value(b"one")


def test_a_stream_passes_unchanged_and_drain_completes_its_checksum() -> None:
    stream = ChecksummedStream(io.BytesIO(PASSED))
    assert stream.read(5) == PASSED[:5]
    assert (stream.crc32c, stream.size) == (google_crc32c.value(PASSED[:5]), 5)
    stream.drain()
    assert (stream.crc32c, stream.size) == (google_crc32c.value(PASSED), len(PASSED))


def test_the_end_of_a_stream_is_read_once() -> None:
    below = CountedReads(b"all")
    stream = ChecksummedStream(below)
    assert [stream.read(), stream.read(), stream.read(1)] == [b"all", b"", b""]
    assert below.reads == 2


def test_a_read_of_nothing_is_not_the_end() -> None:
    stream = ChecksummedStream(io.BytesIO(b"all"))
    assert stream.read(0) == b""
    assert stream.read() == b"all"
