"""Spark's `hash()` of the columns by which keys are shuffled, compiled.

`codec.rows.murmur3` has its reference, which also hashes what this cannot: arrays, maps and structs
that are columns themselves. Where the row is in a key is described as in `state.shuffle_key`.
"""

import numpy as np
from numba import int32, int64, uint32

from statemaint.fold.compiled.kernels.compiled import compiled
from statemaint.fold.compiled.kernels.machine import address, load8, load16, load32, load64

# Kinds of columns. A void is null in every row.
VOID, BYTE, SHORT, INT, LONG, FLOAT, DOUBLE, BYTES = range(8)

# The fields of `layout`; SIZE_AT is -1 without a size.
BEFORE, AFTER, SIZE_AT, PASSES = range(4)
LAYOUT = 4

_SEED, _WORD, _BITS = 42, 8, 64


@compiled
def hash_keys(data, starts, ends, layout, path, columns, kinds, hashes):
    """Hashes keys; returns the number of the first that is no such key, or -1.

    `path` has the number of columns and the column of each row that is passed through; `columns` is
    the number of those of the last row, of which `kinds` are hashed.
    """
    payload = address(data)
    for number in range(len(starts)):
        begin, end = starts[number], ends[number]
        base = begin + layout[BEFORE]
        if layout[SIZE_AT] >= 0:
            at = begin + layout[SIZE_AT]
            if at + 4 > end:
                return number
            size = int64(int32(load32(payload, at)))
            if size < 1 or base + size - 1 > end:
                return number
            if layout[PASSES]:
                base += size
            else:
                end = base + size - 1
        end -= layout[AFTER]
        for step in range(len(path)):
            base, end = _column(payload, base, end, path[step, 0], path[step, 1])
            if base < 0:
                return number
        fixed = base + (columns + _BITS - 1) // _BITS * _WORD
        if base < begin or fixed + _WORD * columns > end:
            return number
        seed = uint32(_SEED)
        for column in range(len(kinds)):
            if load8(payload, base + column // 8) >> (column % 8) & 1:
                continue
            if kinds[column] == BYTES:
                start, stop = _column(payload, base, end, columns, column)
                if start < 0:
                    return number
                seed = _bytes(payload, start, stop - start, seed)
            else:
                seed = _fixed(payload, fixed + _WORD * column, kinds[column], seed)
        hashes[number] = int32(seed)
    return -1


@compiled
def _column(payload, base, end, columns, column):
    """Returns where the struct or the bytes of a column of a row begin and end; -1 if nowhere."""
    at = base + (columns + _BITS - 1) // _BITS * _WORD + _WORD * column
    if at + _WORD > end or load8(payload, base + column // 8) >> (column % 8) & 1:
        return int64(-1), int64(-1)
    word = load64(payload, at)
    start = base + int64(word >> np.uint64(32))
    stop = start + int64(word & np.uint64(0xFFFFFFFF))
    if stop > end:
        return int64(-1), int64(-1)
    return start, stop


@compiled
def _fixed(payload, at, kind, seed):
    if kind == BYTE:
        return _int(uint32(np.int8(load8(payload, at))), seed)
    if kind == SHORT:
        return _int(uint32(np.int16(load16(payload, at))), seed)
    if kind == INT:
        return _int(load32(payload, at), seed)
    if kind == FLOAT:
        bits = load32(payload, at)
        if bits == uint32(0x80000000):
            bits = uint32(0)
        elif bits & uint32(0x7FFFFFFF) > uint32(0x7F800000):
            bits = uint32(0x7FC00000)
        return _int(bits, seed)
    if kind == VOID:
        return seed
    word = load64(payload, at)
    if kind == DOUBLE:
        if word == np.uint64(0x8000000000000000):
            word = np.uint64(0)
        elif word & np.uint64(0x7FFFFFFFFFFFFFFF) > np.uint64(0x7FF0000000000000):
            word = np.uint64(0x7FF8000000000000)
    seed = _mix(seed, uint32(word & np.uint64(0xFFFFFFFF)))
    return _finish(_mix(seed, uint32(word >> np.uint64(32))), uint32(8))


@compiled
def _bytes(payload, start, size, seed):
    whole = start + (size & ~3)
    at = start
    while at < whole:
        seed = _mix(seed, load32(payload, at))
        at += 4
    while at < start + size:
        seed = _mix(seed, uint32(np.int8(load8(payload, at))))
        at += 1
    return _finish(seed, uint32(size))


@compiled
def _int(word, seed):
    return _finish(_mix(seed, word), uint32(4))


@compiled
def _mix(seed, word):
    word = uint32(word * uint32(0xCC9E2D51))
    word = uint32((word << uint32(15)) | (word >> uint32(17)))
    seed = uint32(seed ^ uint32(word * uint32(0x1B873593)))
    seed = uint32((seed << uint32(13)) | (seed >> uint32(19)))
    return uint32(seed * uint32(5) + uint32(0xE6546B64))


@compiled
def _finish(seed, size):
    seed = uint32(seed ^ size)
    seed = uint32(uint32(seed ^ (seed >> uint32(16))) * uint32(0x85EBCA6B))
    seed = uint32(uint32(seed ^ (seed >> uint32(13))) * uint32(0xC2B2AE35))
    return uint32(seed ^ (seed >> uint32(16)))
