"""The hashes of many keys at a time, by the compiled loop where it knows their columns."""

from collections.abc import Callable, Sequence

import numpy as np

from statemaint.codec.rows.types import AtomicType, DataType, DecimalType
from statemaint.fold.compiled.kernels import murmur3
from statemaint.fold.compiled.kernels.murmur3 import AFTER, BEFORE, LAYOUT, PASSES, SIZE_AT
from statemaint.fold.compiled.window import SLACK
from statemaint.state.shuffle_key import ShuffleKey

_BY_LAYOUT = {
    "<?": murmur3.BYTE, "<b": murmur3.BYTE, "<h": murmur3.SHORT, "<i": murmur3.INT,
    "<q": murmur3.LONG, "<f": murmur3.FLOAT, "<d": murmur3.DOUBLE,
}  # fmt: skip
_BY_NAME = {"void": murmur3.VOID, "string": murmur3.BYTES, "binary": murmur3.BYTES}


def hasher(key: ShuffleKey) -> Callable[[Sequence[bytes]], Sequence[int]]:
    """Returns the function that gives the hash of each of some keys."""
    kinds = [_kind(field.type) for field in key.kind.fields[: key.columns]]
    known = [kind for kind in kinds if kind is not None]
    if len(known) < len(kinds):
        return lambda keys: [key.hash_of(row_key) for row_key in keys]
    layout = np.zeros(LAYOUT, np.int64)
    layout[BEFORE], layout[AFTER], layout[PASSES] = key.before, key.after, key.passes
    layout[SIZE_AT] = -1 if key.size_at is None else key.size_at
    path = np.array(key.path, np.int64).reshape(len(key.path), 2)
    wanted, columns = np.array(known, np.int64), len(key.kind.fields)

    def hashes(keys: Sequence[bytes]) -> Sequence[int]:
        ends = np.cumsum([len(row_key) for row_key in keys], dtype=np.int64)
        starts = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
        data = np.frombuffer(bytearray().join((*keys, bytes(SLACK))), np.uint8)
        found = np.empty(len(keys), np.int64)
        odd = murmur3.hash_keys(data, starts, ends, layout, path, columns, wanted, found)
        if odd >= 0:  # the reference says what is wrong with it
            return [key.hash_of(row_key) for row_key in keys]
        return found.tolist()

    return hashes


def _kind(kind: DataType) -> int | None:
    match kind:
        case AtomicType(name):
            return _BY_LAYOUT[kind.layout.format] if kind.layout else _BY_NAME.get(name)
        case DecimalType():
            return murmur3.LONG if kind.long else murmur3.BYTES
        case _:
            return None
