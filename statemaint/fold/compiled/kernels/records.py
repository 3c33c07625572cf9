"""The loops over records: deciding which are the newest, and picking those that stay.

A window is a buffer with records from `AT` to `end`; the loops take only whole records and leave
`AT` after the last one they took. `work` is a row of int64, indexed by the names below.
"""

import numpy as np
import numpy.typing as npt
from numba import uint8, uint32, uint64

from statemaint.fold.compiled.kernels.compiled import compiled
from statemaint.fold.compiled.kernels.machine import (
    address,
    copy,
    load8,
    load32,
    load64,
    load_length,
    store32,
    store64,
)
from statemaint.fold.compiled.kernels.siphash import siphash_rows
from statemaint.fold.compiled.kernels.table import find, look_up, touch

Runs = npt.NDArray[np.int64]

# The fields of `work`: position, outcome and table of a loop; then the records and what to do.
AT, STATUS, KEYS, LIMIT, CAPACITY, SEEN = range(6)
FIRST, NEXT, LOWER, BOUNDARY, CHECKED, SNAPSHOT, OUTPUTS = range(6, 13)
WORK = 13

# The values of STATUS.
MORE, END, FULL, BAD, PAUSED = range(5)

# The outputs that a record may belong to.
TARGET, FLOOR = 1, 2

BATCH = 256
_TOMBSTONE = -1


@compiled
def _three():
    return np.empty(BATCH, np.int64), np.empty(BATCH, np.int64), np.empty(BATCH, np.int64)


@compiled
def _hashes():
    return np.empty(BATCH, np.uint64), np.empty(BATCH, np.uint64)


@compiled
def _parse(window, end, work, starts, keys, values, most):
    """Finds the next whole records; a removal's value length is -1."""
    at, count = work[AT], 0
    work[STATUS] = MORE
    while count < most and at + 4 <= end:
        key = load_length(window, at)
        if key == -1:
            work[STATUS] = END
            at += 4
            break
        if key < 0:
            work[STATUS] = BAD
            break
        if at + 8 + key > end:
            break
        value = load_length(window, at + 4 + key)
        if value < 0:
            if work[SNAPSHOT]:
                work[STATUS] = BAD
                break
            value = _TOMBSTONE
        elif at + 8 + key + value > end:
            break
        if work[CHECKED] and not _checked(address(window), at, key, value):
            work[STATUS] = BAD
            break
        starts[count], keys[count], values[count] = at, key, value
        count += 1
        at += 8 + key + max(value, 0)
    work[AT] = at
    return count


@compiled
def _checked(window, at, key, value):
    """Returns whether a record's own checksum, in the place of its format, is right."""
    if value < 0:
        return key >= 4 and crc32c(window, at + 8, key - 4, uint32(0)) == load32(window, at + 4)
    if value < 4:
        return False
    of_key, row = crc32c(window, at + 4, key, uint32(0)), at + 12 + key
    return crc32c(window, row, value - 4, of_key) == load32(window, row - 4)


@compiled
def _identify(window, work, starts, keys, values, count, secret, places, sizes, lows, highs):
    """Hashes the keys of a batch: the length and the bytes of each, as a record begins."""
    for number in range(count):
        places[number], sizes[number] = starts[number], keys[number] + 4
        if work[CHECKED] and values[number] < 0:
            # The checksum is before the bare key: the bare key's length takes its place.
            at, bare = starts[number] + 4, keys[number] - 4
            for byte in range(4):
                window[at + byte] = uint8(bare >> (24 - 8 * byte))
            places[number], sizes[number] = at, bare + 4
    siphash_rows(window, places, sizes, count, secret, lows, highs)


@compiled
def decide(window, end, work, table, fates, secret):
    """Enters a delta's keys, oldest record first, and sets the outputs of each record.

    `fates` has a byte for each record of the delta. A later record of the same key takes over the
    outputs of the earlier one. Stops with FULL before the table would hold more than LIMIT keys.
    """
    starts, keys, values = _three()
    (places, sizes, _), (lows, highs) = _three(), _hashes()
    first, boundary, capacity = uint32(work[FIRST]), uint32(work[BOUNDARY]), work[CAPACITY]
    entries = address(table)
    new = work[OUTPUTS] if work[LOWER] else TARGET
    while True:
        if work[KEYS] + BATCH > work[LIMIT]:
            work[STATUS] = FULL
            return
        count = _parse(window, end, work, starts, keys, values, BATCH)
        _identify(window, work, starts, keys, values, count, secret, places, sizes, lows, highs)
        work[SEEN] ^= int(touch(table, capacity, lows, count))
        for number in range(count):
            at = find(entries, capacity, lows[number], highs[number])
            ordinal, seen = uint32(work[NEXT]), load32(entries, at + 16)
            fate = 0
            if seen == uint32(0):
                store64(entries, at, lows[number])
                store64(entries, at + 8, highs[number])
                store32(entries, at + 16, ordinal)
                work[KEYS] += 1
                fate = new
            elif seen >= first:
                earlier = int(seen) - work[FIRST]
                fate = int(fates[earlier])
                fates[earlier] = 0
                store32(entries, at + 16, ordinal)
            elif work[LOWER] and seen < boundary:
                store32(entries, at + 16, ordinal)
                fate = FLOOR
            fates[work[NEXT] - work[FIRST]] = fate
            work[NEXT] += 1
        if count < BATCH:
            return


@compiled
def pick_decided(window, end, work, fates, runs, counts, sums, key):
    """Takes a delta's next records and keeps those that `fates` gives to an output."""
    starts, keys, values = _three()
    lows, highs = _hashes()
    most = runs.shape[1] - BATCH
    while counts[0] < most and counts[1] < most:
        count = _parse(window, end, work, starts, keys, values, BATCH)
        if work[NEXT] + count > fates.shape[0]:
            work[STATUS] = BAD  # the file was replaced since it was decided
            return
        kept = 0
        for number in range(count):
            starts[kept], keys[kept] = starts[number], keys[number] + values[number] + 8
            value, values[kept] = values[number], fates[work[NEXT] + number]
            kept += int((value >= 0) & (values[kept] != 0))
        work[NEXT] += count
        _keep(window, starts, keys, values, kept, runs, counts, sums, key, lows, highs)
        if count < BATCH:
            return
    work[STATUS] = PAUSED


@compiled
def pick_undecided(window, end, work, table, secret, runs, counts, sums, key):
    """Takes a base's next records and keeps those whose keys no delta has decided."""
    starts, keys, values = _three()
    (places, sizes, slots), (lows, highs) = _three(), _hashes()
    left, seen = np.empty(BATCH, np.int64), np.empty(BATCH, np.uint32)
    boundary, capacity = uint32(work[BOUNDARY]), work[CAPACITY]
    most = runs.shape[1] - BATCH
    while counts[0] < most and counts[1] < most:
        count = _parse(window, end, work, starts, keys, values, BATCH)
        _identify(window, work, starts, keys, values, count, secret, places, sizes, lows, highs)
        look_up(table, capacity, lows, highs, count, seen, slots, left)
        kept = 0
        for number in range(count):
            starts[kept], keys[kept] = starts[number], keys[number] + values[number] + 8
            new, open_below = seen[number] == uint32(0), seen[number] < boundary
            values[kept] = work[OUTPUTS] if new else FLOOR * int(open_below)
            kept += int(values[kept] != 0)
        _keep(window, starts, keys, values, kept, runs, counts, sums, key, lows, highs)
        if count < BATCH:
            return
    work[STATUS] = PAUSED


@compiled
def pick_all(window, end, work, sums, key):
    """Takes a file's next records and digests those that have a value."""
    starts, keys, values = _three()
    lows, highs = _hashes()
    while True:
        count = _parse(window, end, work, starts, keys, values, BATCH)
        kept = 0
        for number in range(count):
            starts[kept], keys[kept] = starts[number], keys[number] + values[number] + 8
            kept += int(values[number] >= 0)
        siphash_rows(window, starts, keys, kept, key, lows, highs)
        for number in range(kept):
            add_row(address(sums), 0, lows[number], highs[number], keys[number] - 8)
        if count < BATCH:
            return


@compiled
def lay_out(joined, sizes, window):
    """Puts keys and values that are joined into a window, each after its length."""
    start, at = 0, 0
    for number in range(sizes.shape[0]):
        size = sizes[number]
        swapped = (size & 0xFF) << 24 | (size & 0xFF00) << 8 | (size >> 8) & 0xFF00 | size >> 24
        store32(window, at, uint32(swapped))
        copy(window, at + 4, joined, start, size)
        start, at = start + size, at + 4 + size


@compiled
def _keep(window, starts, sizes, fates, count, runs, counts, sums, key, lows, highs):
    """Digests some records and adds them to the runs of their outputs."""
    siphash_rows(window, starts, sizes, count, key, lows, highs)
    totals = address(sums)
    for number in range(count):
        start, size = starts[number], sizes[number]
        for output in range(2):
            if fates[number] & (1 << output):
                add_row(totals, output, lows[number], highs[number], size - 8)
                last = counts[output] - 1
                apart = int(last < 0 or runs[output, last, 1] != start)
                last += apart
                runs[output, last, 0] = start if apart else runs[output, last, 0]
                runs[output, last, 1] = start + size
                counts[output] += apart


@compiled
def add_row(sums, output, low, high, size):
    """Adds a row to an output's sums: four words at an address."""
    at = 32 * output
    total = load64(sums, at) + low
    store64(sums, at, total)
    store64(sums, at + 8, load64(sums, at + 8) + high + uint64(total < low))
    store64(sums, at + 16, load64(sums, at + 16) + uint64(1))
    store64(sums, at + 24, load64(sums, at + 24) + uint64(size))


@compiled
def covered(runs, count, begins, ends, found):
    """Sets for each block whether one run covers it whole; the blocks are in order."""
    run = 0
    for block in range(begins.shape[0]):
        while run < count and runs[run, 1] < ends[block]:
            run += 1
        found[block] = run < count and runs[run, 0] <= begins[block]


@compiled
def gather(window, runs, count, first, begin, end, out, at):
    """Copies the parts of a range in runs; returns the output's end and the next run."""
    run = first
    while run < count and runs[run, 0] < end:
        start, stop = max(runs[run, 0], begin), min(runs[run, 1], end)
        if stop > start:
            copy(out, at, window, start, stop - start)
            at += stop - start
        if runs[run, 1] > end:
            break
        run += 1
    return at, run


@compiled
def retain(runs, count, settled, shift):
    """Drops the settled parts and moves the rest down; returns the number of remaining runs."""
    left = 0
    for run in range(count):
        if runs[run, 1] > settled:
            runs[left, 0] = max(runs[run, 0], settled) - shift
            runs[left, 1] = runs[run, 1] - shift
            left += 1
    return left


# -- CRC-32C (Castagnoli), eight bytes a step

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
        crc = uint64(0)
        for byte in range(8):
            crc ^= uint64(_TABLES[7 - byte, (word >> uint64(8 * byte)) & uint64(0xFF)])
        at += 8
    while at < start + count:
        crc = (crc >> uint64(8)) ^ uint64(
            _TABLES[0, (crc ^ uint64(load8(data, at))) & uint64(0xFF)]
        )
        at += 1
    return uint32(~uint32(crc))
