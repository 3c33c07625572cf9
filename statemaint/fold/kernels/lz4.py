"""The LZ4 block stream: whole stretches of a file at a time, decoded and checked.

The loop takes a block only when it is sure of it: what the header says, what LZ4 says, that all of
it lies within its buffers, and its checksum. It stops before any other block, without an opinion.
The format is described in `codec.lz4_block`, whose reader gives the reasons.
"""

import numpy as np
import numpy.typing as npt
from numba import int32, int64, uint8, uint32, uint64

from statemaint.fold.kernels.compiled import compiled
from statemaint.fold.kernels.machine import copy, load16, load32, load64, store64

Places = npt.NDArray[np.int64]

# What `state` holds: how far source and window are, how many blocks were placed, why it stopped,
# and how large the block is that the window is too short for.
FROM, TO, BLOCKS, STATUS, NEED = range(5)
STATE = 5

# Why it stopped: the source ends or does so within a block, the window is too short for one, it
# holds as much as was wished for (or no more places are left), or a block is not one that it knows.
CUT, NARROW, DONE, ODD = range(4)

# Copies move this many bytes at a time: both buffers need as much room behind what they hold.
STRIDE = 32

_MAGIC = uint64(int.from_bytes(b"LZ4Block", "little"))
_HEADER = 21
_RAW, _LZ4 = 0x10, 0x20
_MOST_PER_BYTE = 255
_CHECKSUM_MASK = uint32(0x0FFFFFFF)

_LEAST_MATCH, _GOES_ON = 4, 15
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
    at, to, blocks = state[FROM], state[TO], int64(0)
    status, need = DONE, int64(0)
    while to < wish and blocks < places.shape[0]:
        if at + _HEADER > end:
            status = CUT
            break
        token = int64(source[at + 8])
        method, limit = token & 0xF0, int64(1) << (10 + (token & 0x0F))
        packed = int64(int32(load32(source, at + 9)))
        original = int64(int32(load32(source, at + 13)))
        checksum = load32(source, at + 17)
        status = ODD
        if load64(source, at) != _MAGIC or method not in (_RAW, _LZ4):
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
            copy(window, to, source, body, original)
        elif not _expand(source, body, body + packed, window, to, to + original):
            break
        if xxh32(window, to, original) & _CHECKSUM_MASK != checksum:
            break
        places[blocks, 0], places[blocks, 1] = to, to + original
        places[blocks, 2], places[blocks, 3] = at, body + packed
        blocks, to, at, status = blocks + 1, to + original, body + packed, DONE
    state[FROM], state[TO], state[BLOCKS] = at, to, blocks
    state[STATUS], state[NEED] = status, need


@compiled
def _expand(source, at, stop, window, to, end):
    """Decodes one block; tells whether it is one, and fills the window exactly up to `end`."""
    begin = to
    while at < stop:
        token = int64(source[at])
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
    """Returns a count that may go on in the bytes behind it, and where it ends.

    One that does not end within the block is one that no block can hold.
    """
    if count == _GOES_ON:
        more = int64(255)
        while more == 255:
            if at >= stop:
                return _TOO_MUCH, at
            more = int64(source[at])
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
    """Copies from `offset` bytes before, where what is copied may be what was just written."""
    if offset >= STRIDE:
        _spill(window, to, window, to - offset, count)
    elif offset >= 8:
        done = int64(0)
        while done < count:
            store64(window, to + done, load64(window, to - offset + done))
            done += 8
    else:
        for done in range(count):
            window[to + done] = window[to - offset + done]


@compiled
def _turn(value, by):
    return (value << uint32(by)) | (value >> uint32(32 - by))


@compiled
def _round(lane, word):
    return _turn(uint32(lane + word * _P2), 13) * _P1


@compiled
def xxh32(data, start, count):
    """Returns xxHash32 of some bytes under the seed that lz4-java uses."""
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
        value = uint32(_turn(uint32(value + uint32(uint8(data[at])) * _P5), 11) * _P1)
        at += 1
    value = uint32((value ^ (value >> uint32(15))) * _P2)
    value = uint32((value ^ (value >> uint32(13))) * _P3)
    return value ^ (value >> uint32(16))
