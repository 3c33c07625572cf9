"""CRC-32C (Castagnoli) over pieces of a buffer, eight bytes a step."""

import numpy as np
from numba import uint32, uint64

from statemaint.fold.compiled.kernels.compiled import compiled
from statemaint.fold.compiled.kernels.machine import load8, load32, load64

_POLYNOMIAL = 0x82F63B78


def _tables():
    """Returns, for k from 0 to 7, the effect of a byte on the checksum k bytes later."""
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
        tables[0, byte] = value
    for k in range(1, 8):
        before = tables[k - 1]
        tables[k] = tables[0][before & 0xFF] ^ (before >> np.uint32(8))
    return tables


_TABLES = _tables()


@compiled
def crc32c(data, start, count, value):
    """Returns the checksum of some bytes, continuing from the checksum of those before."""
    crc = uint64(~value & uint32(0xFFFFFFFF))
    at, whole = start, start + (count & ~7)
    while at < whole:
        word = load64(data, at) ^ crc
        crc = uint64(
            _TABLES[7, word & uint64(0xFF)]
            ^ _TABLES[6, (word >> uint64(8)) & uint64(0xFF)]
            ^ _TABLES[5, (word >> uint64(16)) & uint64(0xFF)]
            ^ _TABLES[4, (word >> uint64(24)) & uint64(0xFF)]
            ^ _TABLES[3, (word >> uint64(32)) & uint64(0xFF)]
            ^ _TABLES[2, (word >> uint64(40)) & uint64(0xFF)]
            ^ _TABLES[1, (word >> uint64(48)) & uint64(0xFF)]
            ^ _TABLES[0, word >> uint64(56)]
        )
        at += 8
    while at < start + count:
        crc = (crc >> uint64(8)) ^ uint64(
            _TABLES[0, (crc ^ uint64(load8(data, at))) & uint64(0xFF)]
        )
        at += 1
    return uint32(~uint32(crc))


@compiled
def row_fits(data, key, key_size, row, row_size):
    """Returns whether the checksum before a row is that of its key and the row itself."""
    expected = load32(data, row - 4)
    return crc32c(data, row, row_size, crc32c(data, key, key_size, uint32(0))) == expected
