"""Statistics of a checkpoint's state, and of the changes that its log makes.

For each store, or column family of one: rows and bytes, churn (`churn`), the largest keys, and how
many keys were not put since a version. All of it comes from one fold of the store's longest log:
from the oldest snapshot, or the empty state, from which deltas lead to the newest committed version
without a gap.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from enum import unique
from functools import reduce
from heapq import heappush, heappushpop
from operator import add

from statemaint.errors import ConfigError
from statemaint.fold import Source
from statemaint.fold.state import watched_state
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.ids import StoreId, batch_of
from statemaint.state.ahead import StoreReading, need_of, opened_ahead
from statemaint.state.churn import Churn, Log
from statemaint.state.rows import (
    Part,
    Readable,
    RowDecoder,
    known_layouts,
    of_the_query,
    scan_stores,
)
from statemaint.state.versions import chain_of, committed_version, stores_at
from statemaint.storage import Storage
from statemaint.wording import Displayed, Explained, counted
from statemaint.workers import Workers

# Fewer versions may simply end before the first keys are due for removal.
_LEAST_VERSIONS = 10
# With fewer rows, no batch waits for the largest partition.
_LEAST_ROWS = 1000
_SKEWED = 3.0


@unique
class NoticeCode(Explained):
    """The kinds of notices; none of them is damage."""

    NEVER_REMOVES = (
        "never_removes",
        "ten versions or more, with keys added in the newer half too, and none ever removed",
    )
    SKEWED = (
        "skewed",
        "the largest partition has three times the mean or more, and a thousand rows or more",
    )


@dataclass(frozen=True, slots=True)
class Notice:
    """An observation that is worth a look."""

    code: NoticeCode
    operator: int
    store: str | None
    family: str | None
    detail: str


@dataclass(frozen=True, slots=True)
class LargeKey:
    """A key that takes a lot of space: its readable columns, and its size as stored."""

    store: StoreId
    family: str | None
    key: dict[str, object]
    bytes: int


@dataclass(frozen=True, slots=True)
class Figures:
    """The numbers of a store, of one of its column families, or of several together.

    Attributes:
        versions: the number of versions of the log, the most of any store.
        churn: the changes by the log; `None` if a store no longer has a log.
        untouched: rows that no version above the requested one has put; `None` as for churn.
        changes_per_version: by the log of each store, which may have fewer versions; as for churn.
    """

    rows: int = 0
    bytes: int = 0
    versions: int = 0
    churn: Churn | None = field(default_factory=Churn)
    untouched: int | None = 0
    changes_per_version: float | None = 0.0

    def __add__(self, other: "Figures") -> "Figures":
        churns, untouched = (self.churn, other.churn), (self.untouched, other.untouched)
        changes = self.changes_per_version, other.changes_per_version
        return Figures(
            self.rows + other.rows,
            self.bytes + other.bytes,
            max(self.versions, other.versions),
            None if None in churns else reduce(add, filter(None, churns)),
            None if None in untouched else sum(filter(None, untouched)),
            None if None in changes else sum(filter(None, changes)),
        )

    @property
    def untouched_share(self) -> float | None:
        return self.untouched / self.rows if self.rows and self.untouched is not None else None


@dataclass(frozen=True, slots=True)
class StoreStats:
    """A store, or one of its column families; `largest` is in descending order of size."""

    store: StoreId
    family: str | None
    figures: Figures
    largest: tuple[LargeKey, ...]


@dataclass(frozen=True, slots=True)
class Skew:
    """How uneven the partitions of an operator are."""

    partition: int
    rows: int
    mean: float

    @property
    def ratio(self) -> float | None:
        return self.rows / self.mean if self.mean else None


@dataclass(frozen=True, slots=True)
class OperatorStats:
    """All requested stores of an operator; `largest` is in descending order of size."""

    operator: int
    figures: Figures
    skew: Skew
    largest: tuple[LargeKey, ...]


@dataclass(frozen=True, slots=True, repr=False)
class StateStats(Displayed):
    """The statistics of a checkpoint's state at its newest committed version.

    `since` is the version since which untouched keys were not put; `None` without any log.
    """

    version: int
    since: int | None
    operators: tuple[OperatorStats, ...]
    stores: tuple[StoreStats, ...]
    notices: tuple[Notice, ...]

    def _facts(self) -> Iterator[str]:
        yield f"batch {batch_of(self.version)}"
        yield counted(len(self.operators), "operator")
        yield counted(sum(operator.figures.rows for operator in self.operators), "row")
        yield counted(len(self.notices), "notice")

    def _rows(self) -> Iterator[dict[str, object]]:
        for operator in self.operators:
            figures = operator.figures
            yield {"operatorId": operator.operator, "rows": figures.rows, "bytes": figures.bytes}


def state_stats(  # noqa: PLR0913 -- each is a choice of its own
    storage: Storage | str,
    operator: int | None = None,
    *,
    partition: int | None = None,
    store: str | None = None,
    since: int | None = None,
    top: int = 5,
    workers: Workers | int | None = None,
) -> StateStats:
    """Measures state at the newest committed version; writes nothing.

    Memory does not grow with the state, except for its column families, the keys in `top` and the
    ranges that the log deletes: what does not fit is sorted in the temporary directory.

    Args:
        storage: where the checkpoint lives, or its address.
        operator: all of them by default, as with `partition` and `store`.
        partition: the partition.
        store: the store's name.
        since: the version since which untouched keys were not put; by default the oldest one whose
            delta or changelog every store with a log has.
        top: how many of the largest keys to return.
        workers: as in `read_state`.

    Raises:
        ConfigError: when the log does not reach back that far; and as `read_state` raises it.
        UnsupportedError: when rows are not encoded as UnsafeRow, or the log deletes more ranges
            than `churn.MOST_RANGES`.
        DamagedError, CheckpointError, StorageError: as `read_state` raises them.
    """
    reading, checkpoint = scan_stores(storage, operator, partition=partition, store=store)
    version = committed_version(checkpoint)
    stores = stores_at(checkpoint, version)
    chains = [(store, _longest(checkpoint, store, version)) for store in stores]
    at = _since(checkpoint, chains, since)
    layouts = known_layouts(reading, checkpoint, version)
    parts = (Part(store, chain, layouts(store)) for store, chain in chains)
    readings = (_reading(checkpoint, part, at, top) for part in parts)
    with closing(opened_ahead(reading, readings, workers=workers)) as measured:
        by_store = [stats for of_store in measured for stats in of_store]
    operators = tuple(_operators(by_store, top))
    notices = (*never_removes(by_store), *skewed(operators))
    return StateStats(version, at, operators, tuple(by_store), notices)


def _longest(checkpoint: Checkpoint, store: Store, version: int) -> Chain:
    loads = chain_of(checkpoint, store, version)
    return store.versions.from_log(version, proved=()) or loads


def _since(
    checkpoint: Checkpoint, chains: Iterable[tuple[Store, Chain]], since: int | None
) -> int | None:
    if since is None:
        starts = [chain.start for _, chain in chains if chain.deltas]
        return max(starts) + 1 if starts else None
    committed_version(checkpoint, since)
    for store, chain in chains:
        if since < chain.start:
            text = f"{store.id}: the log no longer has all changes after version {since}"
            raise ConfigError(f"{text}, it begins after version {chain.start}")
    return since


# -- one store


class _Tally:
    def __init__(self, top: int) -> None:
        self._top = top
        self.rows = self.bytes = self.untouched = 0
        # Of equally large keys, the first ranks higher.
        self._heap: list[tuple[int, int, bytes, bytes]] = []

    def add(self, key: bytes, value: bytes, *, untouched: bool) -> None:
        size = len(key) + len(value)
        self.rows += 1
        self.bytes += size
        self.untouched += untouched
        if len(self._heap) < self._top:
            heappush(self._heap, (size, -self.rows, key, value))
        elif self._heap and size > self._heap[0][0]:
            heappushpop(self._heap, (size, -self.rows, key, value))

    @property
    def largest(self) -> list[tuple[int, bytes, bytes]]:
        ranked = sorted(self._heap, reverse=True)
        return [(size, key, value) for size, _, key, value in ranked]


_TABLES = 3  # a store's rows, those that it began with, and the events of its keys


def _reading(
    checkpoint: Checkpoint, part: Part, since: int | None, top: int
) -> StoreReading[tuple[StoreStats, ...]]:
    def measured(storage: Storage) -> AbstractContextManager[tuple[StoreStats, ...]]:
        source = Source.of(storage, part.store, checkpoint)
        return nullcontext(tuple(_measured(source, part, since, top)))

    return StoreReading(measured, need_of(part.store, part.chain, tables=_TABLES))


def _measured(source: Source, part: Part, since: int | None, top: int) -> Iterator[StoreStats]:
    log = Log(part.store.id.directory, part.chain.start + 1, part.chain.version)
    tallies: dict[bytes, _Tally] = defaultdict(lambda: _Tally(top))
    with watched_state(source, part.store, part.chain, log) as state:
        width, puts = state.width, log.puts()
        for key, value in state.rows:
            put = next(version for name, version in puts if name == key)
            untouched = since is not None and put <= since
            tallies[key[:width]].add(key, value, untouched=untouched)
        deque(puts, maxlen=0)  # the keys that the log removed
    decoder, names, readable = RowDecoder(source, part, state), state.fronts, Readable()
    for number in sorted({*tallies, *log.families} or {b""}):
        figures = _figures(part.chain, since, tallies[number], log.families.get(number, Churn()))
        largest = [
            (readable.row(row), size)
            for size, key, value in tallies[number].largest
            if (row := decoder.row(key, value))
        ]
        keys = tuple(LargeKey(row.store, row.family, row.key, size) for row, size in largest)
        yield StoreStats(part.store.id, names.get(number), figures, keys)


def _figures(chain: Chain, since: int | None, tally: _Tally, churn: Churn) -> Figures:
    logged = bool(chain.deltas)
    dated = since is not None and (logged or since == chain.version)
    return Figures(
        tally.rows,
        tally.bytes,
        len(chain.deltas),
        churn if logged else None,
        tally.untouched if dated else None,
        churn.changes / len(chain.deltas) if logged else None,
    )


# -- all stores


def _operators(stores: Iterable[StoreStats], top: int) -> Iterator[OperatorStats]:
    by_operator: dict[int, list[StoreStats]] = defaultdict(list)
    for stats in stores:
        by_operator[stats.store.operator].append(stats)
    for operator, of_operator in sorted(by_operator.items()):
        figures = reduce(add, (stats.figures for stats in of_operator))
        largest = (key for stats in of_operator for key in stats.largest)
        first = sorted(largest, key=lambda key: -key.bytes)[:top]
        yield OperatorStats(operator, figures, _skew(of_operator), tuple(first))


def _skew(stores: Iterable[StoreStats]) -> Skew:
    rows: dict[int, int] = defaultdict(int)
    for stats in stores:
        rows[stats.store.partition] += stats.figures.rows
    largest = max(sorted(rows), key=rows.__getitem__)
    return Skew(largest, rows[largest], sum(rows.values()) / len(rows))


def never_removes(stores: Iterable[StoreStats]) -> Iterator[Notice]:
    """Yields a notice if no partition has ever removed a key of the query and new keys keep coming.

    There must be ten versions or more, with keys added in the newer half of them.
    """
    kinds: dict[tuple[int, str, str | None], list[Figures]] = defaultdict(list)
    for stats in stores:
        if of_the_query(stats.family):
            kinds[stats.store.operator, stats.store.store, stats.family].append(stats.figures)
    for (operator, store, family), figures in kinds.items():
        churn, versions = reduce(add, figures).churn, min(stats.versions for stats in figures)
        grows = churn is not None and not churn.removes and churn.recent
        if churn is None or not grows or versions < _LEAST_VERSIONS:
            continue
        where = " / ".join(filter(None, (f"op {operator}", store, family)))
        detail = (
            f"{where}: {counted(versions, 'version')} added {counted(churn.added, 'key')}, "
            f"{churn.recent} of them in the newer half of these, and removed none. State that only "
            "grows has no watermark, timeout or TTL, or a watermark that is stuck: a source "
            "without new rows holds it back"
        )
        yield Notice(NoticeCode.NEVER_REMOVES, operator, store, family, detail)


def skewed(operators: Iterable[OperatorStats]) -> Iterator[Notice]:
    for stats in operators:
        skew, ratio = stats.skew, stats.skew.ratio or 0.0
        if ratio >= _SKEWED and skew.rows >= _LEAST_ROWS:
            detail = (
                f"op {stats.operator}: partition {skew.partition} has {skew.rows} rows, "
                f"{ratio:.1f} times the mean: each batch waits for its task"
            )
            yield Notice(NoticeCode.SKEWED, stats.operator, None, None, detail)
