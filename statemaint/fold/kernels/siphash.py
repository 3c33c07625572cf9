"""SipHash with 128 bits of output, compiled; `codec.siphash` is its clear twin."""

from numba import uint64

from statemaint.fold.kernels.compiled import compiled
from statemaint.fold.kernels.machine import load64


@compiled
def _round(v0, v1, v2, v3):
    v0, v2 = v0 + v1, v2 + v3
    v1 = ((v1 << uint64(13)) | (v1 >> uint64(51))) ^ v0
    v3 = ((v3 << uint64(16)) | (v3 >> uint64(48))) ^ v2
    v0 = (v0 << uint64(32)) | (v0 >> uint64(32))
    v2, v0 = v2 + v1, v0 + v3
    v1 = ((v1 << uint64(17)) | (v1 >> uint64(47))) ^ v2
    v3 = ((v3 << uint64(21)) | (v3 >> uint64(43))) ^ v0
    v2 = (v2 << uint64(32)) | (v2 >> uint64(32))
    return v0, v1, v2, v3


def _variant(rounds, final_rounds):
    @compiled
    def siphash(data, start, count, key0, key1):
        v0 = uint64(0x736F6D6570736575) ^ key0
        v1 = uint64(0x646F72616E646F6D) ^ key1 ^ uint64(0xEE)
        v2 = uint64(0x6C7967656E657261) ^ key0
        v3 = uint64(0x7465646279746573) ^ key1
        at, whole = start, start + (count & ~7)
        while at < whole:
            word = load64(data, at)
            v3 ^= word
            for _ in range(rounds):
                v0, v1, v2, v3 = _round(v0, v1, v2, v3)
            v0 ^= word
            at += 8
        word = uint64(count) << uint64(56)
        for byte in range(count & 7):
            word |= uint64(data[whole + byte]) << uint64(8 * byte)
        v3 ^= word
        for _ in range(rounds):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
        v2 ^= uint64(0xEE)
        for _ in range(final_rounds):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        low = v0 ^ v1 ^ v2 ^ v3
        v1 ^= uint64(0xDD)
        for _ in range(final_rounds):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        return low, v0 ^ v1 ^ v2 ^ v3

    return siphash


siphash24 = _variant(2, 4)
siphash13 = _variant(1, 3)
