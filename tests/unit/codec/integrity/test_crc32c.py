"""Bytes that pass unchanged, and their checksum."""

from io import BytesIO

import google_crc32c

from statemaint.codec.integrity.crc32c import ChecksummedChunks, ChecksummedStream

CONTENT = bytes(range(256)) * 300  # more than a piece of `drain`


class CountedReads(BytesIO):
    """Counts the reads of a stream."""

    reads = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads += 1
        return super().read(size)


def test_chunks_pass_unchanged_and_the_checksum_is_that_of_all() -> None:
    chunks = ChecksummedChunks([CONTENT[:3], b"", CONTENT[3:]])
    assert list(chunks) == [CONTENT[:3], b"", CONTENT[3:]]
    assert chunks.crc32c == google_crc32c.value(CONTENT)


def test_the_checksum_covers_the_chunks_that_have_passed() -> None:
    chunks = ChecksummedChunks([b"one", b"two"])
    assert chunks.crc32c == 0
    assert next(iter(chunks)) == b"one"
    assert chunks.crc32c == google_crc32c.value(b"one")


def test_a_stream_passes_unchanged_and_drain_completes_its_checksum() -> None:
    stream = ChecksummedStream(BytesIO(CONTENT))
    assert stream.read(5) == CONTENT[:5]
    assert (stream.crc32c, stream.size) == (google_crc32c.value(CONTENT[:5]), 5)
    stream.drain()
    assert (stream.crc32c, stream.size) == (google_crc32c.value(CONTENT), len(CONTENT))


def test_the_end_of_a_stream_is_read_once() -> None:
    below = CountedReads(b"all")
    stream = ChecksummedStream(below)
    assert [stream.read(), stream.read(), stream.read(1)] == [b"all", b"", b""]
    assert below.reads == 2


def test_a_read_of_nothing_is_not_the_end() -> None:
    stream = ChecksummedStream(BytesIO(b"all"))
    assert stream.read(0) == b""
    assert stream.read() == b"all"
