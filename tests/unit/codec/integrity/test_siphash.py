"""SipHash-2-4-128: the published values, and the compiled twin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.codec.integrity.digest import siphash128
from statemaint.fold.compiled.kernels.siphash import LANES, siphash_rows

KEY = bytes(range(16))


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, "a3817f04ba25a8e66df67214c7550293"),
        (1, "da87c1d86b99af44347659119b22fc45"),
    ],
)
def test_siphash_gives_what_its_authors_published(size: int, expected: str) -> None:
    # The authors' vectors have this key, and a message of the bytes 0, 1, 2, ...
    assert siphash128(KEY, bytes(range(size))).to_bytes(16, "little").hex() == expected


def compiled(pieces: list[bytes], key: bytes) -> list[int]:
    sizes = np.array([len(piece) for piece in pieces], np.int64)
    starts = np.cumsum(sizes) - sizes
    data = np.frombuffer(b"".join(pieces) + bytes(range(64)), np.uint8).copy()
    lows, highs = np.zeros(len(pieces), np.uint64), np.zeros(len(pieces), np.uint64)
    words = np.frombuffer(key, np.uint64)
    siphash_rows(data, starts, sizes, len(pieces), words, lows, highs)
    return [int(low) | int(high) << 64 for low, high in zip(lows, highs, strict=True)]


@pytest.mark.parametrize("size", range(34))
def test_pieces_of_one_size_are_hashed_in_lanes(size: int) -> None:
    pieces = [bytes([number * 7 % 251] * size) for number in range(2 * LANES + 3)]
    assert compiled(pieces, KEY) == [siphash128(KEY, piece) for piece in pieces]


@given(st.lists(st.binary(max_size=20), max_size=30), st.binary(min_size=16, max_size=16))
def test_pieces_of_any_size(pieces: list[bytes], key: bytes) -> None:
    assert compiled(pieces, key) == [siphash128(key, piece) for piece in pieces]
