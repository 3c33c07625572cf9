"""The rows of a version, one by one: what a chain folds to, and how its keys are numbered."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain as chained

from statemaint.codec import records
from statemaint.fold.source import Source
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store


@dataclass(frozen=True, slots=True)
class State:
    """The state at a version.

    Attributes:
        rows: keys and values as they stand in the store, in the order of the bytes of the keys.
        families: the name of each column family by its number; empty where the store has none.
        delimiter: what stands between merged operands.
    """

    rows: Iterator[tuple[bytes, bytes]]
    families: Mapping[int, str]
    delimiter: bytes = b""


@contextmanager
def opened_state(source: Source, store: Store, chain: Chain) -> Iterator[State]:
    """Opens the state that a chain folds to; its rows can be read until the block ends.

    What it costs: memory for the whole state of an HDFS-backed store, for what is in the changelogs
    of one of RocksDB, and there also a copy of the database in the temporary directory.

    Args:
        source: the store's files.
        store: which one.
        chain: what to fold.

    Raises:
        CodecError: naming the file, when one does not follow the format.
        MissingSstError: when an SST file of its zip is not there.
        StaleChecksumError: when a checksum file is not of the file beside it.
        StorageError: when one cannot be read.
    """
    if store.rocks is not None:
        with _rocks_state(source, store, chain) as state:
            yield state
        return
    rows: dict[bytes, bytes] = dict(source.rows(chain.base.entry.path)) if chain.base else {}
    for delta in chain.deltas:
        records.apply(rows, source.records(delta.entry.path))
    yield State(iter(sorted(rows.items())), {})


@contextmanager
def _rocks_state(source: Source, store: Store, chain: Chain) -> Iterator[State]:
    from statemaint.fold.rocks.engine import workplace  # noqa: PLC0415 -- RocksDB is large
    from statemaint.fold.rocks.sums import LIMITS  # noqa: PLC0415
    from statemaint.fold.rocks.write import folded  # noqa: PLC0415

    # The oldest snapshot knows as well as any which column families the first version had.
    first = min(store.versions.snapshots, default=None)
    like = None if chain.base or first is None else store.versions.snapshots[first]
    with workplace() as place, folded(source, chain, place, like, limits=LIMITS) as fold:
        numbers = {number: name for name, number in fold.families.families.items()}
        delimiter = fold.like.delimiter if fold.like else None
        yield State(chained.from_iterable(fold.database.rows()), numbers, delimiter or b"")
