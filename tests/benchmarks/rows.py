"""Rows that Spark itself could have written, made by the million.

    UnsafeRow = nulls(8) word(8) for each field, then the strings, each padded to 8 bytes
    word      = the value (<q, <d), or a string's offset << 32 | length

A matrix holds a row to a line; a row that is shorter than its line ends before it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Ids = NDArray[np.uint64]
Sizes = NDArray[np.int64]

_WORD = 8
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_NEWEST = 1_790_000_000_000_000  # microseconds
_DAY = 86_400_000_000
_EVENT = 64
_EVENTS = (768, 1280)


@dataclass(frozen=True, slots=True)
class Kind:
    """What the rows of a store look like.

    Attributes:
        key: names and types of the key's fields.
        value: names and types of the value's fields.
        keys: the key rows of some ids.
        values: new value rows for some ids, and how many bytes each has.
    """

    key: tuple[tuple[str, str], ...]
    value: tuple[tuple[str, str], ...]
    keys: Callable[[Ids], Bytes]
    values: Callable[[Ids, Generator], tuple[Bytes, Sizes]]


def _mixed(ids: Ids, salt: int = 0) -> Ids:
    """Returns numbers that look random (SplitMix64), always the same for an id."""
    mixed = ids + np.uint64(0x9E3779B97F4A7C15 * (salt + 1) % 2**64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _words(numbers: NDArray[np.generic]) -> Bytes:
    return np.ascontiguousarray(numbers).view(np.uint8).reshape(len(numbers), _WORD)


def _text(ids: Ids, digits: int) -> Bytes:
    """Returns a string of 16 or 32 hexadecimal digits for each id."""
    halves = [_words(_mixed(ids, salt)) for salt in range(digits // 16)]
    raw = np.concatenate(halves, axis=1)
    return _HEX[np.stack([raw >> 4, raw & 15], axis=2).reshape(len(ids), digits)]


def _row(count: int, *fields: Bytes | tuple[int, Bytes]) -> Bytes:
    """Returns rows of numbers (their words) and strings (how many bytes, and those bytes)."""
    words, tails = [], []
    at = _WORD * (1 + len(fields))
    for field in fields:
        if isinstance(field, tuple):
            size, tail = field
            words.append(_words(np.full(count, at << 32 | size, np.int64)))
            tails.append(tail)
            at += tail.shape[1]
        else:
            words.append(field)
    nulls = np.zeros((count, _WORD), np.uint8)
    return np.concatenate([nulls, *words, *tails], axis=1)


def _times(count: int, rng: Generator) -> Bytes:
    return _words(_NEWEST + rng.integers(0, _DAY, count))


def _whole(rows: Bytes) -> tuple[Bytes, Sizes]:
    return rows, np.full(len(rows), rows.shape[1], np.int64)


def _user(ids: Ids) -> Bytes:
    return _row(len(ids), (16, _text(ids, 16)))


def _counts(ids: Ids, rng: Generator) -> tuple[Bytes, Sizes]:
    counts = _words(rng.integers(1, 1000, len(ids)))
    return _whole(_row(len(ids), counts, _times(len(ids), rng)))


def _indexed(ids: Ids) -> Bytes:
    index = _words((ids % np.uint64(4)).astype(np.int64))
    return _row(len(ids), (32, _text(ids // np.uint64(4), 32)), index)


def _order(ids: Ids, rng: Generator) -> tuple[Bytes, Sizes]:
    count = len(ids)
    whole = [_words(rng.integers(0, top, count)) for top in (50, 9, 2)]
    amount = _words(np.round(rng.random(count) * 500, 2))
    order, user = (32, _text(ids // np.uint64(4), 32)), (16, _text(ids, 16))
    numbers = (amount, _times(count, rng), whole[0], whole[1], _words(rng.integers(0, 99, count)))
    return _whole(_row(count, order, user, *numbers, whole[2]))


def _events(ids: Ids, rng: Generator) -> tuple[Bytes, Sizes]:
    """Returns one long string each: lines of JSON, a few thousand different ones."""
    lines = [f'{{"ms":{ms:>10},"page":"/shop/item/{ms * 7919 % 99991:05}","clicks":{ms % 7}}}'
             for ms in rng.integers(0, 10**9, 4096)]  # fmt: skip
    pool = np.array([line.ljust(_EVENT)[:_EVENT].encode() for line in lines], f"S{_EVENT}")
    events = rng.integers(0, len(pool), (len(ids), _EVENTS[1]))
    text = pool[events].view(np.uint8).reshape(len(ids), -1)
    sizes = rng.integers(*_EVENTS, len(ids), endpoint=True) * _EVENT
    words = _words(np.int64(2 * _WORD << 32) | sizes)
    nulls = np.zeros((len(ids), _WORD), np.uint8)
    return np.concatenate([nulls, words, text], axis=1), sizes + 2 * _WORD


def _encoded(rows: Bytes) -> Bytes:
    """Returns rows as RocksDB stores have them: behind the version of their encoding."""
    return np.concatenate([np.zeros((len(rows), 1), np.uint8), rows], axis=1)


def _encoded_counts(ids: Ids, rng: Generator) -> tuple[Bytes, Sizes]:
    rows, sizes = _counts(ids, rng)
    return _encoded(rows), sizes + 1


_ORDER = (
    ("order", "string"), ("user", "string"), ("amount", "double"), ("at", "timestamp"),
    ("items", "long"), ("shop", "long"), ("discount", "long"), ("matched", "boolean"),
)  # fmt: skip
KINDS = {
    # 32 bytes and 24: a record of 64 with its two lengths.
    "counter": Kind(
        (("user", "string"),), (("count", "long"), ("max", "timestamp")), _user, _counts
    ),
    # 33 and 25: the same in a RocksDB store.
    "encoded": Kind(
        (("user", "string"),),
        (("count", "long"), ("max", "timestamp")),
        lambda ids: _encoded(_user(ids)),
        _encoded_counts,
    ),
    # 56 and 120: a join's keyWithIndexToValue.
    "join": Kind((("field0", "string"), ("index", "long")), _ORDER, _indexed, _order),
    # 32 and 48 to 80 KiB.
    "session": Kind((("user", "string"),), (("events", "string"),), _user, _events),
}


def records(kind: Kind, ids: Ids, removed: NDArray[np.bool_], rng: Generator) -> Bytes:
    """Returns the records of a delta: a put for each id, or a removal."""
    keys, (values, sizes) = kind.keys(ids), kind.values(ids, rng)
    stated = np.where(removed, -1, sizes)
    table = np.concatenate(
        [_lengths(np.full(len(ids), keys.shape[1])), keys, _lengths(stated), values], axis=1
    )
    used = _WORD + keys.shape[1] + np.maximum(stated, 0)
    if (used == table.shape[1]).all():
        return table.reshape(-1)
    taken: Bytes = table[np.arange(table.shape[1]) < used[:, None]]
    return taken


def _lengths(sizes: Sizes) -> Bytes:
    return sizes.astype(">i4").view(np.uint8).reshape(len(sizes), 4)
