"""The interface of the compressions of state files: a stream is a sequence of blocks.

A state file is one compressed stream of records (`records`). Most compressions cut it into
independent blocks: such a block can be copied from one file to another as it is stored.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from statemaint.errors import CodecError

Buffer = bytes | bytearray | memoryview

_STEP = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a stream."""

    payload: Buffer  # uncompressed
    # Its bytes in the file with their header, which another stream of the same compression may
    # contain unchanged; `None` if blocks depend on each other.
    stored: bytes | None = None


class Encoder(Protocol):
    """One stream while it is written: `begin`, then blocks, then `end`."""

    def begin(self) -> bytes:
        return b""

    def block(self, payload: Buffer) -> bytes:
        """Returns the stored bytes of 1 to `block_size` bytes; empty while they are held back."""
        ...

    def end(self) -> bytes:
        return b""


class Compression(Protocol):
    """A compression that Spark can be set to (`stateStore.compression.codec`)."""

    @property
    def name(self) -> str: ...

    @property
    def block_size(self) -> int:
        """The number of payload bytes that Spark puts in a block."""
        ...

    def blocks(self, stream: BinaryIO) -> Iterator[Block]:
        """Yields a stream's blocks, each checked; memory is bounded by the bytes really read.

        The offset of a `CodecError` counts in the stored file.
        """
        ...

    def encoder(self) -> Encoder: ...


class ExactStream:
    """A stream with exact reads; a length field beyond its end allocates nothing."""

    __slots__ = ("_stream", "offset")

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self.offset = stream, 0  # the number of bytes taken from it

    def header(self, size: int) -> bytes:
        """Returns the header of a block; empty at the end of the stream."""
        start, content = self.offset, self.piece(size)
        if 0 < len(content) < size:
            raise CodecError(f"block header cut short: {len(content)} bytes", offset=start)
        return content

    def body(self, size: int) -> bytes:
        start, content = self.offset, self.piece(size)
        if len(content) < size:
            raise CodecError(f"block cut short: {len(content)} of {size} bytes", offset=start)
        return content

    def piece(self, most: int) -> bytes:
        """Returns `most` bytes, fewer only at the end of the stream."""
        first = self._stream.read(min(most, _STEP))
        if len(first) == most:
            self.offset += most
            return first
        parts, missing = [first], most - len(first)
        # A stream may return fewer bytes than requested, but allocates all of the requested bytes.
        while first and missing and (part := self._stream.read(min(missing, _STEP))):
            parts.append(part)
            missing -= len(part)
        self.offset += most - missing
        return b"".join(parts)


class Payload:
    """The payload of a stream, which arrives in pieces."""

    __slots__ = ("_chunks", "at", "buffer", "passed")

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks, self.buffer = iter(chunks), b""
        # The bytes of the buffer that are taken, and all bytes before the buffer.
        self.at = self.passed = 0

    @property
    def offset(self) -> int:
        return self.passed + self.at

    def fill(self, need: int, wish: int = 0) -> int:
        """Drops what is taken, and fills the buffer with `need` bytes, or `wish` if there are more.

        Returns its size, which is smaller only at the end of the payload.
        """
        parts = [self.buffer[self.at :]]
        have = len(parts[0])
        self.passed, self.at = self.passed + self.at, 0
        while have < max(need, wish) and (chunk := next(self._chunks, None)) is not None:
            parts.append(chunk)
            have += len(chunk)
        self.buffer = b"".join(parts)
        return have

    def has_more(self) -> bool:
        return self.at < len(self.buffer) or any(self._chunks)


def decode(compression: Compression, stream: BinaryIO) -> Iterator[bytes]:
    return (bytes(block.payload) for block in compression.blocks(stream))


def encode(compression: Compression, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the stream of a payload that arrives in pieces of any size."""
    encoder, size = compression.encoder(), compression.block_size
    yield encoder.begin()
    pending = bytearray()
    for chunk in chunks:
        pending += chunk
        full = len(pending) - len(pending) % size
        for start in range(0, full, size):
            yield encoder.block(bytes(pending[start : start + size]))
        del pending[:full]
    if pending:
        yield encoder.block(bytes(pending))
    yield encoder.end()
