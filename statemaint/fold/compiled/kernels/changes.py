"""The loops over changelogs: finding the newest change of each key, and the order of keys.

A window holds the payload of changelogs, one after the other. Changes are numbered in order, and
arrays hold for each the place of its key's length, and the sizes of key and value; the value of a
removal has size -1. Merges and ranges are left to the reference reader.
"""

import numpy as np
from numba import uint32, uint64

from statemaint.fold.compiled.kernels.compiled import compiled
from statemaint.fold.compiled.kernels.machine import (
    address,
    load8,
    load32,
    load_length,
    store32,
    store64,
)
from statemaint.fold.compiled.kernels.records import BATCH, add_row
from statemaint.fold.compiled.kernels.siphash import siphash_rows
from statemaint.fold.compiled.kernels.table import ENTRY, find, touch

# The fields of `work`: the start of the next change, why a loop ended, the numbers of changes and
# of keys, the number of keys that the table may hold and that it has places for, whether changes
# begin with their kind, and a value that keeps the compiler from dropping loads.
AT, STATUS, COUNT, KEYS, LIMIT, CAPACITY, TAGGED, SEEN = range(8)
WORK = 8

# The values of STATUS: the window ends, the changes end, the table is full, the loop does not know
# a change.
MORE, END, FULL, ODD = range(4)

_PUT, _DELETE, _LAST = 1, 16, 0
_GONE = -1


@compiled
def enter(window, end, work, starts, keys, values, table, secret):
    """Enters changes in the table, which then holds the number of each key's newest change."""
    sizes = np.empty(BATCH, np.int64)
    lows, highs = np.empty(BATCH, np.uint64), np.empty(BATCH, np.uint64)
    entries, capacity = address(table), work[CAPACITY]
    while True:
        if work[KEYS] + BATCH > work[LIMIT]:
            work[STATUS] = FULL
            return
        first = work[COUNT]
        count = _parse(window, end, work, starts, keys, values, first)
        for number in range(count):
            sizes[number] = keys[first + number] + 4
        siphash_rows(window, starts[first:], sizes, count, secret, lows, highs)
        work[SEEN] ^= int(touch(table, capacity, lows, count))
        for number in range(count):
            at = find(entries, capacity, lows[number], highs[number])
            if load32(entries, at + 16) == uint32(0):
                store64(entries, at, lows[number])
                store64(entries, at + 8, highs[number])
                work[KEYS] += 1
            store32(entries, at + 16, uint32(first + number + 1))
        work[COUNT] += count
        if count < BATCH:
            return


@compiled
def _parse(window, end, work, starts, keys, values, first):
    """Finds the next whole changes, at most a batch."""
    at, count, tagged = work[AT], 0, work[TAGGED]
    work[STATUS] = MORE
    while count < BATCH:
        kind = int(load8(window, at)) if tagged else _PUT  # there is some slack after the end
        if tagged and at < end and kind == _LAST:
            work[STATUS] = END
            at += 1
            break
        if at + 4 + tagged > end:
            break
        key = load_length(window, at + tagged)
        if not tagged and key == _GONE:
            work[STATUS] = END
            at += 4
            break
        if key < 0 or kind not in (_PUT, _DELETE):
            work[STATUS] = ODD
            break
        start = at + tagged
        if start + 8 + key > end:
            break
        value = load_length(window, start + 4 + key)
        if tagged and (value == _GONE) != (kind == _DELETE):
            work[STATUS] = ODD
            break
        if value < _GONE:
            work[STATUS] = ODD
            break
        if start + 8 + key + max(value, 0) > end:
            break
        starts[first + count], keys[first + count], values[first + count] = start, key, value
        count += 1
        at = start + 8 + key + max(value, 0)
    work[AT] = at
    return count


@compiled
def newest(table, capacity, found):
    """Lists the numbers of the changes that count; returns how many there are."""
    entries, count = address(table), 0
    for slot in range(capacity):
        number = load32(entries, slot * ENTRY + 16)
        if number != uint32(0):
            found[count] = number - uint32(1)
            count += 1
    return count


@compiled
def common(window, starts, keys, picked):
    """Returns the length of the common prefix of all picked keys."""
    data, first = address(window), starts[picked[0]] + 4
    alike = int(keys[picked[0]])
    for number in picked:
        at, most, same = starts[number] + 4, min(alike, int(keys[number])), 0
        while same < most and load8(data, at + same) == load8(data, first + same):
            same += 1
        alike = same
    return alike


@compiled
def words(window, starts, keys, picked, offset, found):
    """Reads eight bytes of each picked key as a number that sorts like them, padded with zeros."""
    data = address(window)
    for place in range(picked.shape[0]):
        number = picked[place]
        at, left = starts[number] + 4 + offset, int(keys[number]) - offset
        word = uint64(0)
        for byte in range(8):
            word = word << uint64(8)
            if byte < left:
                word |= uint64(load8(data, at + byte))
        found[place] = word


@compiled
def digest(window, starts, keys, values, picked, sums, key):
    """Adds up the hashes of the picked rows."""
    totals = address(sums)
    places, sizes = np.empty(BATCH, np.int64), np.empty(BATCH, np.int64)
    lows, highs = np.empty(BATCH, np.uint64), np.empty(BATCH, np.uint64)
    for begin in range(0, picked.shape[0], BATCH):
        count = min(BATCH, picked.shape[0] - begin)
        for place in range(count):
            number = picked[begin + place]
            places[place] = starts[number]
            sizes[place] = keys[number] + values[number] + 8
        siphash_rows(window, places, sizes, count, key, lows, highs)
        for place in range(count):
            add_row(totals, 0, lows[place], highs[place], sizes[place] - 8)
