"""SipHash-2-4 with 128 bits of output, compiled; `codec.integrity.digest` has its reference.

Rows of one size are hashed eight at a time, each in its own lane of the vectors: the rounds of one
hash depend on each other, those of eight hashes do not.
"""

from llvmlite import ir
from numba import types, uint64
from numba.core import cgutils
from numba.extending import intrinsic

from statemaint.fold.compiled.kernels.compiled import compiled
from statemaint.fold.compiled.kernels.machine import address, load8, load64

LANES = 8
_ROUNDS, _FINAL_ROUNDS = 2, 4
_START = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
_INT, _LANE = ir.IntType(64), ir.IntType(32)
_VECTOR = ir.VectorType(_INT, LANES)
_NOTHING = ir.Constant(_VECTOR, ir.Undefined)


@compiled
def siphash_rows(data, starts, sizes, count, key, lows, highs):
    """Hashes pieces of a buffer, which must have some slack after the last one."""
    payload = address(data)
    at = 0
    while at < count:
        alike = at + LANES <= count
        for lane in range(1, LANES if alike else 0):
            alike = alike and sizes[at + lane] == sizes[at]
        if alike:
            _eight(data, starts, at, sizes[at], key[0], key[1], lows, highs)
            at += LANES
        else:
            lows[at], highs[at] = siphash(payload, starts[at], sizes[at], key[0], key[1])
            at += 1


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


@compiled
def siphash(data, start, count, key0, key1):
    """Hashes one piece of a buffer."""
    v0, v1 = uint64(_START[0]) ^ key0, uint64(_START[1]) ^ key1 ^ uint64(0xEE)
    v2, v3 = uint64(_START[2]) ^ key0, uint64(_START[3]) ^ key1
    at, whole = start, start + (count & ~7)
    while at < whole:
        word = load64(data, at)
        v3 ^= word
        for _ in range(_ROUNDS):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
        at += 8
    word = uint64(count) << uint64(56)
    for byte in range(count & 7):
        word |= uint64(load8(data, whole + byte)) << uint64(8 * byte)
    v3 ^= word
    for _ in range(_ROUNDS):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0 ^= word
    v2 ^= uint64(0xEE)
    for _ in range(_FINAL_ROUNDS):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    low = v0 ^ v1 ^ v2 ^ v3
    v1 ^= uint64(0xDD)
    for _ in range(_FINAL_ROUNDS):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return low, v0 ^ v1 ^ v2 ^ v3


# -- the same in LLVM vectors


@intrinsic
def _eight(_typing, data, starts, _first, _count, _key0, _key1, lows, highs):
    """Hashes eight pieces of one size, from the `first` of `starts` on."""

    def generate(context, builder, signature, arguments):
        data, starts, first, count, key0, key1, *results = arguments
        bases = _bases(context, builder, signature, data, starts, first)
        lanes = _Lanes(builder, bases, (_spread(builder, key0), _spread(builder, key1)))
        lanes.absorb_all(count)
        for hashed, array, array_type in zip(
            lanes.ends(), results, signature.args[6:], strict=True
        ):
            place = builder.gep(_data(context, builder, array_type, array), [first])
            builder.store(hashed, builder.bitcast(place, _VECTOR.as_pointer())).align = 8
        return context.get_dummy_value()

    numbers = (types.int64, types.int64, types.uint64, types.uint64)
    return types.void(data, starts, *numbers, lows, highs), generate


def _data(context, builder, array_type, array):
    return context.make_array(array_type)(context, builder, array).data


def _bases(context, builder, signature, data, starts, first):
    """Returns the address of each lane's piece."""
    payload = _data(context, builder, signature.args[0], data)
    listed = _data(context, builder, signature.args[1], starts)
    numbers = [builder.add(first, _INT(lane)) for lane in range(LANES)]
    return [builder.gep(payload, [builder.load(builder.gep(listed, [index]))]) for index in numbers]


def _spread(builder, number):
    """Returns a vector with a number in every lane."""
    single = builder.insert_element(_NOTHING, number, _LANE(0))
    everywhere = ir.Constant(ir.VectorType(_LANE, LANES), [0] * LANES)
    return builder.shuffle_vector(single, _NOTHING, everywhere)


def _all(number):
    return ir.Constant(_VECTOR, [number] * LANES)


class _Lanes:
    """Eight hashes while their code is generated."""

    def __init__(self, builder, bases, keys):
        self._builder, self._bases = builder, bases
        starts = [
            builder.xor(_all(start ^ (0xEE if number == 1 else 0)), keys[number % 2])
            for number, start in enumerate(_START)
        ]
        self._state = [cgutils.alloca_once_value(builder, start) for start in starts]

    def absorb_all(self, count):
        """Absorbs the pieces word by word, then their remaining bytes with their size."""
        builder = self._builder
        words = builder.lshr(count, _INT(3))
        with cgutils.for_range(builder, words) as loop:
            self._absorb(self._words(builder.shl(loop.index, _INT(3))))
        rest = self._words(builder.shl(words, _INT(3)))
        bits = builder.shl(builder.and_(count, _INT(7)), _INT(3))
        mask = builder.sub(builder.shl(_INT(1), bits), _INT(1))
        size = builder.shl(count, _INT(56))
        masked = builder.and_(rest, _spread(builder, mask))
        self._absorb(builder.or_(masked, _spread(builder, size)))

    def ends(self):
        """Returns the low and the high words of the hashes."""
        for lane, change in ((2, 0xEE), (1, 0xDD)):
            state = self._load()
            state[lane] = self._builder.xor(state[lane], _all(change))
            self._store(self._rounds(state, _FINAL_ROUNDS))
            v0, v1, v2, v3 = self._load()
            yield self._builder.xor(self._builder.xor(v0, v1), self._builder.xor(v2, v3))

    def _words(self, offset):
        """Returns the eight bytes at an offset of each piece."""
        found = _NOTHING
        for lane, base in enumerate(self._bases):
            place = self._builder.gep(base, [offset])
            word = self._builder.load(self._builder.bitcast(place, _INT.as_pointer()))
            word.align = 1
            found = self._builder.insert_element(found, word, _LANE(lane))
        return found

    def _absorb(self, words):
        state = self._load()
        state[3] = self._builder.xor(state[3], words)
        state = self._rounds(state, _ROUNDS)
        state[0] = self._builder.xor(state[0], words)
        self._store(state)

    def _rounds(self, state, count):
        add, xor, turn = self._builder.add, self._builder.xor, self._turn
        v0, v1, v2, v3 = state
        for _ in range(count):
            v0, v2 = add(v0, v1), add(v2, v3)
            v1, v3 = xor(turn(v1, 13), v0), xor(turn(v3, 16), v2)
            v0 = turn(v0, 32)
            v2, v0 = add(v2, v1), add(v0, v3)
            v1, v3 = xor(turn(v1, 17), v2), xor(turn(v3, 21), v0)
            v2 = turn(v2, 32)
        return [v0, v1, v2, v3]

    def _turn(self, vector, bits):
        upper = self._builder.shl(vector, _all(bits))
        return self._builder.or_(upper, self._builder.lshr(vector, _all(64 - bits)))

    def _load(self):
        return [self._builder.load(place) for place in self._state]

    def _store(self, state):
        for place, vector in zip(self._state, state, strict=True):
            self._builder.store(vector, place)
