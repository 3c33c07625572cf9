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
from itertools import islice, repeat
from typing import Any

from statemaint.codec.compression.base import encode
from statemaint.codec.hdfs import records
from statemaint.codec.integrity import row_checksum
from statemaint.codec.integrity.digest import StateDigest
from statemaint.codec.rows.rocks_row import key_codec, rows_in, value_of
from statemaint.codec.rows.state_row import NoPrefix, PrefixScan, RowLayout, Wrapping
from statemaint.errors import CodecError, DamagedError, UnsupportedError, in_file
from statemaint.execute.publish import Published, publish, publish_zip
from statemaint.fold import Folding, Pieces, Source
from statemaint.fold.state import State, opened_state
from statemaint.fold.table import Spill
from statemaint.fold.temporary import workplace
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Provider, Store
from statemaint.model.findings import FindingCode
from statemaint.plan.actions import WriteSnapshot
from statemaint.records.savepoints import Shape
from statemaint.state.shuffle_key import ShuffleKey
from statemaint.state.versions import Layouts
from statemaint.storage import Storage

Row = tuple[bytes, bytes]
_BATCH, _FAMILY, _CHECKSUM = 512, 2, 4  # rows at a time: one may have 60,000 bytes


@dataclass(frozen=True, slots=True)
class Change:
    """How rows are stored, before and after: whole shapes."""

    old: Shape
    new: Shape
    layouts: Layouts  # in RocksDB; empty if rows have the same bytes in both


@dataclass(frozen=True, slots=True)
class Shuffle:
    """The stores of one name of an operator that are written row by row: all partitions, or one."""

    sources: tuple[tuple[Store, Chain], ...]
    targets: tuple[WriteSnapshot, ...]  # the file of each partition of the savepoint
    # By column family, `None` in a store without any; empty if rows stay in their partition.
    keys: Mapping[str | None, ShuffleKey]
    change: Change | None = None

    @property
    def operator(self) -> int:
        return self.sources[0][0].id.operator

    @property
    def size(self) -> int:
        return sum(chain.size for _, chain in self.sources)

    @property
    def directories(self) -> frozenset[str]:
        return frozenset(write.store.directory for write in self.targets)


@contextmanager
def spilled(
    shuffle: Shuffle, sources: Sequence[Source]
) -> Iterator[tuple[Spill, list[StateDigest]]]:
    """Puts the rows of all stores apart by their new partitions; yields them with their digests."""
    families = []
    with Spill(len(shuffle.targets), sources[0].key) as spill:
        for source, (store, chain) in zip(sources, shuffle.sources, strict=True):
            with opened_state(source, store, chain) as state:
                families.append(state.families)
                check_numbering(store.id.directory, families)
                for targets, rows in routed(shuffle, store, state):
                    spill.add(targets, rows)
        yield spill, spill.end()


def check_numbering(where: str, families: Sequence[Mapping[Any, str]]) -> None:
    """Checks that partitions number their column families alike; one without rows has none."""
    numbered = [numbers for numbers in families if numbers]
    if any(numbers != numbered[0] for numbers in numbered):
        what = "column families that are numbered differently in each partition"
        raise UnsupportedError(where, what, "the same partitions")


def routed(
    shuffle: Shuffle, store: Store, state: State
) -> Iterator[tuple[Iterable[int], list[Row]]]:
    """Yields the rows of a store as they are to be stored, with the number of each row's target."""
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
    by_number: dict[bytes, list[Row]] = defaultdict(list)
    for row in rows:
        by_number[row[0][:_FAMILY]].append(row)
    by_name: list[tuple[str | None, list[Row]]] = []
    for number, some in by_number.items():
        name = state.families.get(int.from_bytes(number, "little", signed=True))
        if name is None or name not in known:
            what = f"rows of the column family {number.hex()}, which has no known shuffle key"
            raise UnsupportedError(store.id.directory, what, "families of the query's operators")
        by_name.append((name, some))
    return by_name


def _placer(shuffle: Shuffle, store: Store) -> Callable[[str | None, list[Row]], Iterable[int]]:
    """Returns the function that gives the number of the target of each row of a family."""
    if not shuffle.keys:
        return lambda _, rows: repeat(0, len(rows))
    import numpy as np  # noqa: PLC0415 -- large, as are the loops

    from statemaint.savepoint.hashes import hasher  # noqa: PLC0415

    old, new = len(shuffle.sources), len(shuffle.targets)
    hashers = {family: hasher(key) for family, key in shuffle.keys.items()}

    def place(family: str | None, rows: list[Row]) -> Iterable[int]:
        hashes = np.asarray(hashers[family]([key for key, _ in rows]))
        places = hashes % old  # as `pmod`
        wrong = places[places != store.id.partition]
        if len(wrong):
            detail = (
                f"has a row that belongs to partition {wrong[0]} by the hash of its key; no "
                "savepoint of other partitions can be made of it. `verify --deep` says how "
                "many such rows there are"
            )
            code = FindingCode.WRONG_PARTITION.value
            raise DamagedError(store.id.directory, detail, code=code)
        found: list[int] = (hashes % new).tolist()
        return found

    return place


def _changer(change: Change | None, state: State) -> Callable[[str | None, list[Row]], list[Row]]:
    """Returns the function that gives rows of a family as they are to be stored."""
    if change is None or not change.layouts:
        return lambda _, rows: rows
    of_row = {
        family: _checked(change, layout, state.delimiter)
        for family, layout in change.layouts.items()
    }
    return lambda family, rows: [*map(of_row[family], rows)]


def _checked(change: Change, layout: RowLayout, delimiter: bytes) -> Callable[[Row], Row]:
    there = converter(change.old, change.new, layout, delimiter)
    back = converter(change.new, change.old, layout, delimiter)

    def changed(row: Row) -> Row:
        converted = there(row)
        if back(converted) != row:
            raise CodecError("a row that Spark would have written in another way", offset=0)
        return converted

    return changed


def written(
    dest: Storage,
    write: WriteSnapshot,
    rows: Iterator[Row],
    source: Source,
    digest: StateDigest,
    before: Callable[[], object],
) -> Published:
    """Writes a partition's rows, in the order of their keys, as its snapshot.

    `digest` is what the rows must have, once the file is read back.
    """
    if not write.path.endswith(".zip"):
        folding = Folding(_snapshot(rows, source, write.version, digest))
        (published,) = publish(dest, (write,), folding, like=None, before=before)
        return published
    from statemaint.fold.rocksdb import build_rows  # noqa: PLC0415 -- RocksDB is large
    from statemaint.fold.rocksdb.fetch import read_zip  # noqa: PLC0415

    like = read_zip(source, write.families) if write.families else None
    with workplace() as place:
        made = build_rows(rows, write.version, source, like, digest, workdir=place, path=write.path)
        return publish_zip(dest, write, made, like=None, before=before)


def _snapshot(rows: Iterator[Row], source: Source, version: int, digest: StateDigest) -> Pieces:
    for piece in encode(source.compression, records.encode(rows)):
        yield version, piece
    return {version: digest}


def converter(
    old: Shape, new: Shape, layout: RowLayout, delimiter: bytes = b""
) -> Callable[[Row], Row]:
    """Returns the function that gives a row of one whole shape in another.

    `layout` is the one in RocksDB. From there to HDFS-backed stores and back, it must be one
    without column families, with keys in `NoPrefix` or `PrefixScan`. `delimiter` is between several
    rows in one value.
    """
    key_of = _key_of(old, new, layout)

    def convert(row: Row) -> Row:
        rows = _rows_in(row, old, layout, delimiter)
        key = key_of(row[0])
        return key, _value_of(key, rows, new, layout, delimiter)

    return convert


def _key_of(old: Shape, new: Shape, layout: RowLayout) -> Callable[[bytes], bytes]:
    if old.provider is new.provider:
        return lambda key: key
    match layout.encoder, new.provider:
        case NoPrefix() | PrefixScan(), Provider.ROCKSDB:
            return key_codec(layout.key, layout.encoder).encode
        case NoPrefix() | PrefixScan(), _:
            return key_codec(layout.key, layout.encoder).decode
        case _:
            raise ValueError(f"only RocksDB has keys in {layout.encoder}")


def _rows_in(row: Row, shape: Shape, layout: RowLayout, delimiter: bytes) -> Iterable[bytes]:
    key, value = row
    if shape.provider is Provider.HDFS_BACKED:
        return (value[_CHECKSUM:] if shape.row_checksums else value,)
    return rows_in(key, value, _wrapping(shape, delimiter), many=layout.many)


def _value_of(
    key: bytes, rows: Iterable[bytes], shape: Shape, layout: RowLayout, delimiter: bytes
) -> bytes:
    if shape.provider is Provider.HDFS_BACKED:
        (row,) = rows
        return row_checksum.seal((key, row))[1] or b"" if shape.row_checksums else row
    return value_of(key, rows, _wrapping(shape, delimiter), many=layout.many)


def _wrapping(shape: Shape, delimiter: bytes) -> Wrapping:
    return Wrapping(0, bool(shape.row_checksums), delimiter)
