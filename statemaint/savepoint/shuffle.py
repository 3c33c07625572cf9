"""Stores written row by row: in another number of partitions, or stored differently.

Each row goes where Spark's hash of its key sends it. It must lie in the partition of its hash
before, too. If it does not, the hash is not the one that the query shuffles by, or the state is
damaged: nothing is saved then. Nor is it if a row that is stored differently would not,
changed back, be the row that was read.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from itertools import islice, repeat
from operator import add
from typing import TYPE_CHECKING, Any

from statemaint.codec.compression.base import encode
from statemaint.codec.hdfs import records
from statemaint.codec.integrity.digest import StateDigest
from statemaint.codec.rows.murmur3 import pmod
from statemaint.codec.rows.state_row import RowLayout
from statemaint.errors import CodecError, DamagedError, UnsupportedError, in_file
from statemaint.execute.publish import Published, publish, publish_zip
from statemaint.fold import Folding, Pieces, Source, must_equal
from statemaint.fold.state import State, opened_state
from statemaint.fold.table import Spill
from statemaint.fold.temporary import workplace
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.model.findings import FindingCode
from statemaint.plan.actions import WriteSnapshot
from statemaint.records.savepoints import Shape
from statemaint.savepoint.convert import Row, converter
from statemaint.state.shuffle_key import ShuffleKey
from statemaint.state.versions import Layouts
from statemaint.storage import Storage

if TYPE_CHECKING:
    from statemaint.fold.compiled.rows import Sums

_BATCH, _FAMILY = 512, 2  # rows at a time: one may have 60,000 bytes


@dataclass(frozen=True, slots=True)
class Change:
    """How rows are stored, before and after.

    Attributes:
        old: the whole shape of the source.
        new: that of the savepoint.
        layouts: the layout of each column family in RocksDB, by `None` in a store without any;
            empty if rows have the same bytes in both.
    """

    old: Shape
    new: Shape
    layouts: Layouts


@dataclass(frozen=True, slots=True)
class Shuffle:
    """The stores of one name of an operator that are written row by row.

    Attributes:
        sources: the stores of all partitions, each with its chain; or only one.
        targets: the file of each partition to be; or only that of the one.
        keys: the shuffle key of each column family, by `None` in a store without any; empty if rows
            stay in their partition.
        change: how they are stored; `None` if they are written as they are.
    """

    sources: tuple[tuple[Store, Chain], ...]
    targets: tuple[WriteSnapshot, ...]
    keys: Mapping[str | None, ShuffleKey]
    change: Change | None = None

    @property
    def operator(self) -> int:
        return self.sources[0][0].id.operator

    @property
    def size(self) -> int:
        """Returns the stored bytes of all chains."""
        return sum(chain.size for _, chain in self.sources)

    @property
    def directories(self) -> frozenset[str]:
        return frozenset(write.store.directory for write in self.targets)


@contextmanager
def spilled(
    shuffle: Shuffle, sources: Sequence[Source]
) -> Iterator[tuple[Spill, list[StateDigest]]]:
    """Puts the rows of all stores apart by their new partitions; yields them with their digests.

    Raises:
        DamagedError: when a row is not in the partition of its hash.
        UnsupportedError: when a shuffle key is not known, or partitions number their column
            families differently.
        CheckpointError: when a file is damaged.
    """
    from statemaint.fold.compiled.rows import Sums  # noqa: PLC0415 -- numba is large

    read, families = [], []
    with Spill(len(shuffle.targets), sources[0].key) as spill:
        for source, (store, chain) in zip(sources, shuffle.sources, strict=True):
            with opened_state(source, store, chain) as state:
                families.append(state.families)
                check_numbering(store.id.directory, families)
                sums = Sums(source.key)
                for targets, rows in routed(shuffle, store, state):
                    sums.add(rows)
                    for target, row in zip(targets, rows, strict=True):
                        spill.add(target, row)
                read.append(sums.digest())
        digests = spill.end()
        must_equal(shuffle.sources[0][0].id.directory, reduce(add, digests), reduce(add, read))
        yield spill, digests


def check_numbering(where: str, families: Sequence[Mapping[Any, str]]) -> None:
    """Checks that partitions number their column families alike; one without rows has none."""
    numbered = [one for one in families if one]
    if any(one != numbered[0] for one in numbered):
        what = "column families that are numbered differently in each partition"
        raise UnsupportedError(where, what, "the same partitions")


def routed(
    shuffle: Shuffle, store: Store, state: State
) -> Iterator[tuple[Iterable[int], list[Row]]]:
    """Yields the rows of a store as they are to be stored, with the number of each one's target."""
    place, changed = _placer(shuffle, store), _changer(shuffle.change, state)
    known = shuffle.keys or (shuffle.change.layouts if shuffle.change else {})
    with in_file(store.id.directory):
        while rows := [*islice(state.rows, _BATCH)]:
            for family, some in _by_family(rows, store, state, known):
                yield place(family, some), changed(family, some)


def _by_family(
    rows: list[Row], store: Store, state: State, known: Collection[str | None]
) -> Iterable[tuple[str | None, list[Row]]]:
    if not state.families:
        return [(None, rows)]
    found: dict[bytes, list[Row]] = defaultdict(list)
    for row in rows:
        found[row[0][:_FAMILY]].append(row)
    names = {
        family: state.families.get(int.from_bytes(family, "little", signed=True))
        for family in found
    }
    for family, name in names.items():
        if name is None or name not in known:
            what = f"rows of the column family {family.hex()}, which has no known shuffle key"
            raise UnsupportedError(store.id.directory, what, "families of the query's operators")
    return [(names[family], some) for family, some in found.items()]


def _placer(shuffle: Shuffle, store: Store) -> Callable[[str | None, list[Row]], Iterable[int]]:
    """Returns the function that gives the number of the target of each row of a family."""
    if not shuffle.keys:
        return lambda _, rows: repeat(0, len(rows))
    from statemaint.savepoint.hashes import hasher  # noqa: PLC0415

    old, new = len(shuffle.sources), len(shuffle.targets)
    hashers = {family: hasher(key) for family, key in shuffle.keys.items()}

    def place(family: str | None, rows: list[Row]) -> Iterable[int]:
        hashes = hashers[family]([key for key, _ in rows])
        for hashed in hashes:
            if pmod(hashed, old) != store.id.partition:
                raise _astray(store, pmod(hashed, old))
        return [pmod(hashed, new) for hashed in hashes]

    return place


def _changer(change: Change | None, state: State) -> Callable[[str | None, list[Row]], list[Row]]:
    """Returns the function that gives rows of a family as they are to be stored."""
    if change is None or not change.layouts:
        return lambda _, rows: rows
    of_row = {
        family: _checked(change.old, change.new, layout, state.delimiter)
        for family, layout in change.layouts.items()
    }
    return lambda family, rows: [*map(of_row[family], rows)]


def _checked(old: Shape, new: Shape, layout: RowLayout, delimiter: bytes) -> Callable[[Row], Row]:
    there, back = converter(old, new, layout, delimiter), converter(new, old, layout, delimiter)

    def changed(row: Row) -> Row:
        found = there(row)
        if back(found) != row:
            raise CodecError("a row that Spark would have written in another way", offset=0)
        return found

    return changed


def _astray(store: Store, partition: int) -> DamagedError:
    detail = (
        f"has a row that belongs to partition {partition} by the hash of its key; no savepoint of "
        "other partitions can be made of it. `verify --deep` says how many such rows there are"
    )
    return DamagedError(store.id.directory, detail, code=FindingCode.WRONG_PARTITION.value)


# -- files


def written(
    dest: Storage,
    write: WriteSnapshot,
    rows: Iterator[Row],
    source: Source,
    before: Callable[[], object],
) -> Published:
    """Writes a partition's rows, in the order of their keys, as its snapshot."""
    if not write.path.endswith(".zip"):
        folding = Folding(_snapshot(rows, source, write.version))
        (found,) = publish(dest, (write,), folding, like=None, before=before)
        return found
    from statemaint.fold.rocksdb import build_rows  # noqa: PLC0415 -- RocksDB is large
    from statemaint.fold.rocksdb.fetch import read_zip  # noqa: PLC0415

    like = read_zip(source, write.families) if write.families else None
    with workplace() as place:
        made = build_rows(rows, write.version, source, like, workdir=place, path=write.path)
        return publish_zip(dest, write, made, like=None, before=before)


def _snapshot(rows: Iterator[Row], source: Source, version: int) -> Pieces:
    from statemaint.fold.compiled.rows import Sums  # noqa: PLC0415

    sums = Sums(source.key)
    for piece in encode(source.compression, records.encode(_summed(rows, sums))):
        yield version, piece
    return {version: sums.digest()}


def _summed(rows: Iterator[Row], sums: "Sums") -> Iterator[Row]:
    while some := [*islice(rows, _BATCH)]:
        sums.add(some)
        yield from some
