"""SipHash-2-4 with 128 bits of output, like its authors' reference code: simple and slow.

key      16 bytes, two little-endian words
message  any bytes, in little-endian words of eight; the last word ends with the length
"""

import struct

_WORD = 0xFFFFFFFFFFFFFFFF
_START = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
_ROUNDS, _FINAL_ROUNDS = 2, 4

_Lanes = tuple[int, int, int, int]


def siphash128(key: bytes, message: bytes) -> int:
    """Returns the hash as one number, its first eight bytes being the low ones."""
    key0, key1 = struct.unpack("<2Q", key)
    v0, v1, v2, v3 = (
        word ^ part for word, part in zip(_START, (key0, key1, key0, key1), strict=True)
    )
    lanes = (v0, v1 ^ 0xEE, v2, v3)
    for word in _words(message):
        v0, v1, v2, v3 = lanes
        v0, v1, v2, v3 = _rounds((v0, v1, v2, v3 ^ word), _ROUNDS)
        lanes = (v0 ^ word, v1, v2, v3)
    v0, v1, v2, v3 = lanes
    lanes = _rounds((v0, v1, v2 ^ 0xEE, v3), _FINAL_ROUNDS)
    low = lanes[0] ^ lanes[1] ^ lanes[2] ^ lanes[3]
    v0, v1, v2, v3 = lanes
    lanes = _rounds((v0, v1 ^ 0xDD, v2, v3), _FINAL_ROUNDS)
    return low | (lanes[0] ^ lanes[1] ^ lanes[2] ^ lanes[3]) << 64


def _words(message: bytes) -> tuple[int, ...]:
    tail = len(message) % 8
    padded = message + bytes(7 - tail) + bytes([len(message) & 0xFF])
    words: tuple[int, ...] = struct.unpack(f"<{len(padded) // 8}Q", padded)
    return words


def _rounds(lanes: _Lanes, count: int) -> _Lanes:
    v0, v1, v2, v3 = lanes
    for _ in range(count):
        v0 = (v0 + v1) & _WORD
        v2 = (v2 + v3) & _WORD
        v1 = (v1 << 13 & _WORD | v1 >> 51) ^ v0
        v3 = (v3 << 16 & _WORD | v3 >> 48) ^ v2
        v0 = v0 << 32 & _WORD | v0 >> 32
        v2 = (v2 + v1) & _WORD
        v0 = (v0 + v3) & _WORD
        v1 = (v1 << 17 & _WORD | v1 >> 47) ^ v2
        v3 = (v3 << 21 & _WORD | v3 >> 43) ^ v0
        v2 = v2 << 32 & _WORD | v2 >> 32
    return v0, v1, v2, v3
