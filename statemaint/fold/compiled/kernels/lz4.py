"""The LZ4 block stream: whole stretches of a file at a time, decoded and checked.

The loop takes a block only when everything about it is right: its header, its LZ4 data, its place
within the buffers, and its checksum. It stops before any other block without a verdict. The format
is described in `codec.compression.lz4`, whose reader gives the reasons.
"""

import numpy as np
import numpy.typing as npt
from numba import int32, int64, uint32, uint64

from statemaint.fold.compiled.kernels.compiled import compiled
from statemaint.fold.compiled.kernels.machine import (
    address,
    copy,
    load8,
    load16,
    load32,
    load64,
    store8,
    store16,
    store32,
    store64,
    trailing_zeros,
)

Places = npt.NDArray[np.int64]

# The fields of `state`: the positions in source and window, the number of placed blocks, why the
# loop stopped, and the size of the block that the window is too short for.
FROM, TO, BLOCKS, STATUS, NEED = range(5)
STATE = 5

# Why the loop stopped: the source ends, possibly within a block; the window is too short for a
# block; the window has the requested bytes (or no more places are left); or a block is unknown.
CUT, NARROW, DONE, ODD = range(4)

# Copies move this many bytes at a time: both buffers need this much room after their content.
STRIDE = 32

# The largest block that `pack` makes, and the bytes of the table that it needs for it.
MOST, TABLE = 1 << 16, 2 << 13

_MAGIC = uint64(int.from_bytes(b"LZ4Block", "little"))
_HEADER = 21
_RAW, _LZ4 = 0x10, 0x20
_MOST_PER_BYTE = 255
_CHECKSUM_MASK = uint32(0x0FFFFFFF)

_LEAST_MATCH, _GOES_ON = 4, 15
_TABLE_BITS, _PATIENCE = 13, 6
_MIX = uint64(0x9E3779B97F4A7C15)
_TOO_MUCH = int64(1) << 40
# LZ4's rules for the end of a block.
_MARGIN, _LAST_LITERALS, _LAST_STORED = 12, 5, 8

_P1, _P2, _P3 = uint32(2654435761), uint32(2246822519), uint32(3266489917)
_P4, _P5 = uint32(668265263), uint32(374761393)
_SEED = uint32(0x9747B28C)


@compiled
def unpack(source, end, window, room, wish, state, places):
    """Takes blocks from `source`, up to `end`, until the window holds `wish` bytes.

    The window may be filled up to `room`. Each row of `places` gets a block's begin and end in the
    window, then in the source.
    """
    stored, payload = address(source), address(window)
    at, to, blocks = state[FROM], state[TO], int64(0)
    status, need = DONE, int64(0)
    while to < wish and blocks < places.shape[0]:
        if at + _HEADER > end:
            status = CUT
            break
        token = int64(load8(stored, at + 8))
        method, limit = token & 0xF0, int64(1) << (10 + (token & 0x0F))
        packed = int64(int32(load32(stored, at + 9)))
        original = int64(int32(load32(stored, at + 13)))
        checksum = load32(stored, at + 17)
        status = ODD
        if load64(stored, at) != _MAGIC or method not in (_RAW, _LZ4):
            break
        if original < 0 or packed < 0 or packed > limit:
            break
        if original > limit or original > packed * _MOST_PER_BYTE:
            break
        if (original == 0) != (packed == 0) or (method == _RAW and packed != original):
            break
        if original == 0:
            if checksum != uint32(0):
                break
            at, status = at + _HEADER, DONE
            continue
        if at + _HEADER + packed > end:
            status = CUT
            break
        if to + original > room:
            status, need = NARROW, original
            break
        body = at + _HEADER
        if method == _RAW:
            copy(payload, to, stored, body, original)
        elif not _expand(stored, body, body + packed, payload, to, to + original):
            break
        if xxh32(payload, to, original) & _CHECKSUM_MASK != checksum:
            break
        places[blocks, 0], places[blocks, 1] = to, to + original
        places[blocks, 2], places[blocks, 3] = at, body + packed
        blocks, to, at, status = blocks + 1, to + original, body + packed, DONE
    state[FROM], state[TO], state[BLOCKS] = at, to, blocks
    state[STATUS], state[NEED] = status, need


@compiled
def _expand(source, at, stop, window, to, end):
    """Decodes one block; returns whether it is valid and fills the window exactly up to `end`."""
    begin = to
    while at < stop:
        token = int64(load8(source, at))
        literals, at = _extended(source, at + 1, stop, token >> 4)
        if literals > stop - at or literals > end - to:
            return False
        _spill(window, to, source, at, literals)
        at += literals
        to += literals
        if to > end - _MARGIN or at > stop - _LAST_STORED:
            return at == stop and to == end
        offset = int64(load16(source, at))
        count, at = _extended(source, at + 2, stop, token & 15)
        count += _LEAST_MATCH
        if offset == 0 or offset > to - begin or count > end - _LAST_LITERALS - to:
            return False
        _repeat(window, to, offset, count)
        to += count
    return False


@compiled
def _extended(source, at, stop, count):
    """Returns a count that may continue in the bytes after it, and its end.

    A count that does not end within the block becomes one that exceeds any block.
    """
    if count == _GOES_ON:
        more = int64(255)
        while more == 255:
            if at >= stop:
                return _TOO_MUCH, at
            more = int64(load8(source, at))
            count += more
            at += 1
    return count, at


@compiled
def _spill(window, to, source, at, count):
    """Copies some bytes, and up to a stride more."""
    done = int64(0)
    while True:
        one, two = load64(source, at + done), load64(source, at + done + 8)
        three, four = load64(source, at + done + 16), load64(source, at + done + 24)
        store64(window, to + done, one)
        store64(window, to + done + 8, two)
        store64(window, to + done + 16, three)
        store64(window, to + done + 24, four)
        done += STRIDE
        if done >= count:
            return


@compiled
def _repeat(window, to, offset, count):
    """Copies from `offset` bytes before; the source may overlap the bytes just written."""
    if offset >= STRIDE:
        _spill(window, to, window, to - offset, count)
    elif offset >= 8:
        done = int64(0)
        while done < count:
            store64(window, to + done, load64(window, to - offset + done))
            done += 8
    else:
        for done in range(count):
            store8(window, to + done, load8(window, to - offset + done))


@compiled
def _turn(value, by):
    return (value << uint32(by)) | (value >> uint32(32 - by))


@compiled
def _round(lane, word):
    return _turn(uint32(lane + word * _P2), 13) * _P1


@compiled
def xxh32(data, start, count):
    """Returns xxHash32 of some bytes with the seed that lz4-java uses."""
    at, end = start, start + count
    if count >= 16:
        one, two = uint32(_SEED + _P1 + _P2), uint32(_SEED + _P2)
        three, four = _SEED, uint32(_SEED - _P1)
        while at + 16 <= end:
            one = uint32(_round(one, load32(data, at)))
            two = uint32(_round(two, load32(data, at + 4)))
            three = uint32(_round(three, load32(data, at + 8)))
            four = uint32(_round(four, load32(data, at + 12)))
            at += 16
        value = uint32(_turn(one, 1) + _turn(two, 7) + _turn(three, 12) + _turn(four, 18))
    else:
        value = uint32(_SEED + _P5)
    value = uint32(value + uint32(count))
    while at + 4 <= end:
        value = uint32(_turn(uint32(value + load32(data, at) * _P3), 17) * _P4)
        at += 4
    while at < end:
        value = uint32(_turn(uint32(value + uint32(load8(data, at)) * _P5), 11) * _P1)
        at += 1
    value = uint32((value ^ (value >> uint32(15))) * _P2)
    value = uint32((value ^ (value >> uint32(13))) * _P3)
    return value ^ (value >> uint32(16))


@compiled
def pack(source, end, size, level, out, table):
    """Writes the bytes before `end` as blocks of `size` bytes; returns their end in `out`."""
    payload, stored, seen = address(source), address(out), address(table)
    to = int64(0)
    for begin in range(0, end, size):
        table[:] = 0
        original = min(size, end - begin)
        body = to + _HEADER
        stop = _shrink(payload, begin, begin + original, stored, body, body + original, seen)
        method = _LZ4
        if stop == _TOO_MUCH:
            copy(stored, body, payload, begin, original)
            stop, method = body + original, _RAW
        store64(stored, to, _MAGIC)
        store8(stored, to + 8, method | level)
        store32(stored, to + 9, uint32(stop - body))
        store32(stored, to + 13, uint32(original))
        store32(stored, to + 17, xxh32(payload, begin, original) & _CHECKSUM_MASK)
        to = stop
    return to


@compiled
def _slot(source, at):
    """Returns the slot of the table for the five bytes at a place."""
    five = load64(source, at) << uint64(24)
    return 2 * int64((five * _MIX) >> uint64(64 - _TABLE_BITS))


@compiled
def _shrink(source, begin, end, out, to, most, table):
    """Compresses one block; returns its end, or `_TOO_MUCH` if it would not get smaller.

    `table` records for some hashes of five bytes where they were last seen in this block.
    """
    at, anchor = begin + 1, begin
    last, matches_end = end - _MARGIN, end - _LAST_LITERALS
    misses = int64(1) << _PATIENCE
    slot = _slot(source, at)
    while at < last:
        earlier = begin + int64(load16(table, slot))
        store16(table, slot, at - begin)
        if load32(source, earlier) != load32(source, at):
            at += misses >> _PATIENCE
            misses += 1
            slot = _slot(source, at)
            continue
        misses = int64(1) << _PATIENCE
        while (
            at > anchor and earlier > begin and load8(source, at - 1) == load8(source, earlier - 1)
        ):
            at, earlier = at - 1, earlier - 1
        stop = _alike(source, earlier + 4, at + 4, matches_end)
        to = _sequence(source, anchor, at, at - earlier, stop - at, out, to, most)
        if to == _TOO_MUCH:
            return to
        at = anchor = stop
        store16(table, _slot(source, at - 2), at - 2 - begin)
        slot = _slot(source, at)
    return _literals(source, anchor, end, out, to, most)


@compiled
def _alike(source, one, other, end):
    """Returns the end of the bytes that are equal at two places."""
    while other + 8 <= end:
        apart = load64(source, one) ^ load64(source, other)
        if apart != uint64(0):
            return other + (trailing_zeros(apart) >> 3)
        one, other = one + 8, other + 8
    while other < end and load8(source, one) == load8(source, other):
        one, other = one + 1, other + 1
    return other


@compiled
def _sequence(source, anchor, at, offset, length, out, to, most):
    """Writes some literals and a match."""
    literals = at - anchor
    # Token, offset, the literals, and a byte for each 255 of either count.
    if to + 3 + literals + literals // 255 + length // 255 + 2 > most:
        return _TOO_MUCH
    token = to
    to = _more(out, to + 1, literals)
    _spill(out, to, source, anchor, literals)
    to += literals
    store16(out, to, offset)
    rest = length - _LEAST_MATCH
    to = _more(out, to + 2, rest)
    store8(out, token, (min(literals, _GOES_ON) << 4) | min(rest, _GOES_ON))
    return to


@compiled
def _literals(source, anchor, end, out, to, most):
    """Writes the last literals."""
    literals = end - anchor
    if to + 2 + literals + literals // 255 > most:
        return _TOO_MUCH
    store8(out, to, min(literals, _GOES_ON) << 4)
    to = _more(out, to + 1, literals)
    copy(out, to, source, anchor, literals)
    return to + literals


@compiled
def _more(out, to, count):
    """Writes the part of a count that exceeds its half of the token."""
    if count >= _GOES_ON:
        count -= _GOES_ON
        while count >= 255:
            store8(out, to, 255)
            to, count = to + 1, count - 255
        store8(out, to, count)
        to += 1
    return to
