"""The compiled reader and writer of LZ4 blocks against the clear ones, on hostile files.

A feed must give what the clear reader gives, block for block, and be unsure of all else. The
compiled loop in it may take fewer blocks, never other ones, and touches no byte outside its
buffers.
"""

import io
from collections.abc import Iterator
from contextlib import closing

import numpy as np

from statemaint.codec.compression import base as compression
from statemaint.codec.compression.base import Block
from statemaint.codec.compression.lz4 import HEADER_SIZE, Lz4Block
from statemaint.errors import CodecError
from statemaint.fold import Source
from statemaint.fold.compiled.input import UnsureError, open_input
from statemaint.fold.compiled.kernels import lz4 as kernels
from statemaint.fold.compiled.kernels.lz4 import DONE, FROM, NARROW, NEED, STATUS, TO, unpack
from statemaint.fold.compiled.window import SLACK, Bytes, PayloadWindow
from statemaint.storage import MemoryStorage
from tests.fuzz.mutate import seal_lz4_blocks
from tests.fuzz.targets import Target
from tests.support.checkpoints import changes, delta_bytes, state_at

Found = list[tuple[bytes, bytes]] | None
"""Payload and stored bytes of each block; nothing when the file cannot be read."""

_CANARY = 0xA5


def clear(stored: bytes) -> Found:
    """Returns what the clear reader makes of a file."""
    try:
        return [_pair(block) for block in Lz4Block().blocks(io.BytesIO(stored))]
    except CodecError:
        return None


def _pair(block: Block) -> tuple[bytes, bytes]:
    return bytes(block.payload), bytes(block.stored or b"")


def fed(stored: bytes, wish: int) -> Found:
    """Returns what a feed makes of it, which is asked for so many bytes at a time."""
    source = Source(MemoryStorage({"file": stored}), Lz4Block(), row_checksums=False, key=bytes(16))
    window, found, more = PayloadWindow(), list[tuple[bytes, bytes]](), True
    with closing(open_input(source, "file")) as pieces:
        while more:
            try:
                more = pieces.fill(window, wish)
            except UnsureError:
                return None
            for begin, end, block in window.blocks:
                found.append((window.buffer[begin:end].tobytes(), bytes(block or b"")))
            window.clear()
    return found


def guarded(stored: bytes) -> Found:
    """Returns what the loop makes of it, in buffers that show what was touched around them.

    It knows no offset of 0, for one, which no writer uses and the library accepts.
    """
    source = np.frombuffer(stored + bytes([_CANARY]) * SLACK, np.uint8).copy()
    state, places = np.zeros(kernels.STATE, np.int64), np.zeros((3, 4), np.int64)
    found, room = list[tuple[bytes, bytes]](), 64
    while True:
        window = np.full(room + 2 * SLACK, _CANARY, np.uint8)
        state[TO] = 0
        unpack(source, len(stored), window, room, room, state, places)
        assert (window[room + kernels.STRIDE :] == _CANARY).all()
        for begin, end, start, stop in places[: state[kernels.BLOCKS]]:
            found.append((window[begin:end].tobytes(), stored[start:stop]))
        if state[STATUS] == NARROW:
            room = int(state[NEED])
        elif state[STATUS] != DONE:
            return found if state[FROM] == len(stored) else None


def packed(payload: bytes, size: int) -> bytes:
    """Returns the blocks that the compiled writer makes, in a buffer that shows what it touched."""
    source = np.frombuffer(payload + bytes([_CANARY]) * SLACK, np.uint8).copy()
    most = len(payload) + -(-len(payload) // size) * HEADER_SIZE
    stored: Bytes = np.full(most + 2 * SLACK, _CANARY, np.uint8)
    table = np.full(kernels.TABLE, _CANARY, np.uint8)
    end = kernels.pack(source, len(payload), size, 5, stored, table)
    assert end <= most
    assert (stored[end + kernels.STRIDE :] == _CANARY).all()
    return stored[:end].tobytes()


def _check(data: bytes) -> None:
    expected = clear(data)
    assert fed(data, 1) == expected
    assert fed(data, 100_000) == expected
    assert guarded(data) in (expected, None)
    for size in (1024, 32 * 1024, kernels.MOST):
        payload = b"".join(block for block, _ in clear(packed(data, size)) or ())
        assert payload == data


def _seeds() -> Iterator[bytes]:
    for rows in ([], changes(3), list(state_at(6).items())):
        stored = delta_bytes(rows)
        yield from (stored, stored + stored)
    for payload in (b"a" * 3000, bytes(range(256)) * 4, bytes(100), b"0123456789abcdef-" * 300):
        yield b"".join(compression.encode(Lz4Block(1024), [payload]))


STRETCHES = {"lz4_stretches": Target(_check, _seeds, seal_lz4_blocks)}
