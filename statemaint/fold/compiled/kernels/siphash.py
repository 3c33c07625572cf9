"""SipHash-2-4 with 128 bits of output, compiled; `codec.integrity.digest` has its reference.

Rows of one size are hashed eight at a time, each in its own lane of the vectors: the rounds of one
hash depend on each other, those of eight hashes do not.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from statemaint.fold.compiled.kernels.compiled import compiled

LANES = 8
_ROUNDS, _FINAL_ROUNDS = 2, 4
_START = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
_INT, _LANE = ir.IntType(64), ir.IntType(32)


@compiled
def siphash_rows(data, starts, sizes, count, key, lows, highs):
    """Hashes pieces of a buffer, which must have some slack after the last one."""
    at = 0
    while at < count:
        alike = at + LANES <= count
        for lane in range(1, LANES if alike else 0):
            alike = alike and sizes[at + lane] == sizes[at]
        if alike:
            _eight(data, starts, at, sizes[at], key[0], key[1], lows, highs)
            at += LANES
        else:
            _single(data, starts, at, sizes[at], key[0], key[1], lows, highs)
            at += 1


def _hasher(lanes):
    """Returns the code that hashes some pieces of one size, from the `first` of `starts` on."""

    @intrinsic
    def hash_pieces(_typing, data, starts, _first, _count, _key0, _key1, lows, highs):
        def generate(context, builder, signature, arguments):
            def elements(number):
                kind, array = signature.args[number], arguments[number]
                return context.make_array(kind)(context, builder, array).data

            first, count, *keys = arguments[2:6]
            payload, listed = elements(0), elements(1)
            numbers = [builder.add(first, _INT(lane)) for lane in range(lanes)]
            places = [builder.load(builder.gep(listed, [number])) for number in numbers]
            hashes = _Lanes(builder, [builder.gep(payload, [place]) for place in places], keys)
            hashes.absorb_all(count)
            for number, hashed in zip((6, 7), hashes.ends(), strict=True):
                place = builder.gep(elements(number), [first])
                place = builder.bitcast(place, hashed.type.as_pointer())
                builder.store(hashed, place).align = 8
            return context.get_dummy_value()

        numbers = (types.int64, types.int64, types.uint64, types.uint64)
        return types.void(data, starts, *numbers, lows, highs), generate

    return hash_pieces


_single, _eight = _hasher(1), _hasher(LANES)


class _Lanes:
    """Some hashes while their code is generated, each in a lane of LLVM's vectors."""

    def __init__(self, builder, bases, keys):
        self._builder, self._bases = builder, bases
        self._nothing = ir.Constant(ir.VectorType(_INT, len(bases)), ir.Undefined)
        spread = [self._spread(key) for key in keys]
        starts = [
            builder.xor(self._all(start ^ (0xEE if number == 1 else 0)), spread[number % 2])
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
        masked = builder.and_(rest, self._spread(mask))
        self._absorb(builder.or_(masked, self._spread(size)))

    def ends(self):
        for lane, change in ((2, 0xEE), (1, 0xDD)):
            state = self._load()
            state[lane] = self._builder.xor(state[lane], self._all(change))
            self._store(self._rounds(state, _FINAL_ROUNDS))
            v0, v1, v2, v3 = self._load()
            yield self._builder.xor(self._builder.xor(v0, v1), self._builder.xor(v2, v3))

    def _all(self, number):
        return ir.Constant(self._nothing.type, [number] * len(self._bases))

    def _spread(self, number):
        """Returns a vector with a number in every lane."""
        single = self._builder.insert_element(self._nothing, number, _LANE(0))
        everywhere = ir.Constant(ir.VectorType(_LANE, len(self._bases)), [0] * len(self._bases))
        return self._builder.shuffle_vector(single, self._nothing, everywhere)

    def _words(self, offset):
        """Returns the eight bytes at an offset of each piece."""
        found = self._nothing
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
        upper = self._builder.shl(vector, self._all(bits))
        return self._builder.or_(upper, self._builder.lshr(vector, self._all(64 - bits)))

    def _load(self):
        return [self._builder.load(place) for place in self._state]

    def _store(self, state):
        for place, vector in zip(self._state, state, strict=True):
            self._builder.store(vector, place)
