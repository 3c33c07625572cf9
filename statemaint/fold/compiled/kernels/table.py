"""The keys that newer files have decided: an open hash table in one flat buffer.

    entry   = identity(16 bytes) ordinal(<u32)        20 bytes; ordinal 0 is an empty slot
    slot    = upper 32 bits of the identity's low word, scaled to the capacity; then linear probing

The identity is the keyed hash of the key's bytes (SipHash-2-4 with 128 bits, with a secret that
lives as long as one fold), so an entry has the same size however long the key is. The ordinal
numbers the records of all deltas, newest file first.
"""

from numba import uint32, uint64

from statemaint.fold.compiled.kernels.compiled import compiled
from statemaint.fold.compiled.kernels.machine import address, load32, load64, store32, store64

ENTRY = 20


@compiled
def slot_of(low, capacity):
    return int(((low >> uint64(32)) * uint64(capacity)) >> uint64(32))


@compiled
def find(table, capacity, low, high):
    """Returns the place of an identity's entry, or the empty place that it would take."""
    slot = slot_of(low, capacity)
    while True:
        at = slot * ENTRY
        if load32(table, at + 16) == uint32(0):
            return at
        if load64(table, at) == low and load64(table, at + 8) == high:
            return at
        slot += 1
        if slot == capacity:
            slot = 0


@compiled
def touch(table, capacity, lows, count):
    """Brings the slots of a batch into the cache by loads that do not wait for each other."""
    seen = uint32(0)
    for number in range(count):
        at = slot_of(lows[number], capacity) * ENTRY
        seen ^= load32(table, at) ^ load32(table, at + 16)
    return seen


@compiled
def look_up(table, capacity, lows, highs, count, seen, slots, left):
    """Writes the ordinal of each identity of a batch, or 0, to `seen`; `slots`, `left`: workspace.

    Whether a key is in the table is practically random: the CPU would mispredict half of the
    branches on it. So every round checks one slot of each open key, and notes without a branch
    which keys have to continue.
    """
    for number in range(count):
        slots[number] = slot_of(lows[number], capacity)
        left[number] = number
    while count:
        further = 0
        for place in range(count):
            number = left[place]
            at = slots[number] * ENTRY
            ordinal = load32(table, at + 16)
            same = (load64(table, at) == lows[number]) & (load64(table, at + 8) == highs[number])
            seen[number] = ordinal
            slot = slots[number] + 1
            slots[number] = slot if slot < capacity else 0
            left[further] = number
            further += int((ordinal != uint32(0)) & (not same))
        count = further


@compiled
def move_all(old_entries, old_capacity, new_entries, new_capacity):
    """Copies every entry to a larger table."""
    old, new = address(old_entries), address(new_entries)
    for slot in range(old_capacity):
        at = slot * ENTRY
        ordinal = load32(old, at + 16)
        if ordinal != uint32(0):
            low, high = load64(old, at), load64(old, at + 8)
            to = find(new, new_capacity, low, high)
            store64(new, to, low)
            store64(new, to + 8, high)
            store32(new, to + 16, ordinal)
