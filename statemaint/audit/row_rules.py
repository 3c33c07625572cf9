"""The rules for the rows of a version: their partitions, and the stores of a join.

    partition   the Murmur3 hash of the shuffle key, modulo the number of partitions
    formats 1-3 of a join, each side: keyToNumValues has n > 0 for exactly the keys of
                keyWithIndexToValue, and those have the indexes 0 to n - 1
    format 4    keyWithTsToValues and tsWithKey have the same keys at the same times

Old bugs of Spark itself have broken these in real checkpoints. They are reported, never repaired.
Mirrors `SymmetricHashJoinStateManager`.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import groupby
from typing import Any

from statemaint.audit.results import NO_RESULTS, Results, UnitResult
from statemaint.codec.metadata import logs
from statemaint.codec.rows.state_row import Wrapping, key_reader, value_reader
from statemaint.codec.rows.unsafe_read import Row
from statemaint.errors import CheckpointError, CodecError, ConfigError, NotFoundError, Superseded
from statemaint.fold import Source
from statemaint.fold.state import State, opened_state
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId, UnitId, batch_of
from statemaint.state.shuffle_key import ShuffleKey, shuffle_key, shuffles_by_all_keys
from statemaint.state.versions import Stored, schemas_of
from statemaint.storage import Storage
from statemaint.wording import counted
from statemaint.workers import Job, in_turn, nothing

_NUMBER = 2  # bytes of a column family's number, in front of a key
_COUNTS, _ENTRIES = "keyToNumValues", "keyWithIndexToValue"
_BY_KEY, _BY_TIME = "keyWithTsToValues", "tsWithKey"


@dataclass(slots=True)
class _Side:
    """One side of a join in one partition, while its rows are read."""

    counts: dict[bytes, int] = field(default_factory=dict)  # the entries that each key should have
    entries: dict[bytes, tuple[int, int]] = field(default_factory=dict)  # and has; highest index
    by_key: set[tuple[bytes, Any]] = field(default_factory=set)  # keys and times of either store
    by_time: set[tuple[bytes, Any]] = field(default_factory=set)

    def faults(self) -> Iterator[str]:
        if alone := self.counts.keys() - self.entries.keys():
            yield f"{len(alone)} keys are counted but have no rows"
        if orphans := self.entries.keys() - self.counts.keys():
            yield f"{len(orphans)} keys have rows but are not counted"
        both = self.counts.keys() & self.entries.keys()
        holes = sum((self.counts[key], self.counts[key] - 1) != self.entries[key] for key in both)
        if holes:
            yield f"{holes} keys have indexes other than 0 to their count"
        if differ := len(self.by_key ^ self.by_time):
            yield f"{differ} keys and times are in only one of {_BY_KEY} and {_BY_TIME}"


def check_rows(storage: Storage, checkpoint: Checkpoint, *, threads: int = 1) -> Iterator[Finding]:
    """Yields the findings of the rows of the newest committed version; reads all of them."""
    units = check_units(storage, checkpoint, threads=threads)
    return row_findings(storage, checkpoint, units)


def check_units(
    storage: Storage,
    checkpoint: Checkpoint,
    known: Results = NO_RESULTS,
    *,
    threads: int = 1,
    stop: Callable[[], object] = nothing,
) -> list[UnitResult]:
    """Returns the result for the rows of each partition, ascending; reuses the known ones."""
    if checkpoint.target is None or any(finding.damage for finding in checkpoint.findings):
        return []
    needed = checkpoint.needed(checkpoint.target)
    units = (tuple(group) for _, group in groupby(needed, key=lambda store: store.id.unit))
    check = partial(_unit, storage, checkpoint)
    jobs = [Job(partial(check, stores, known), noun="partition") for stores in units]
    return in_turn(jobs, threads=threads, stop=stop)


def row_findings(
    storage: Storage, checkpoint: Checkpoint, units: Iterable[UnitResult]
) -> Iterator[Finding]:
    """Yields the findings of some partitions: first those of stores, then those of joins."""
    strict = cache(partial(_is_strict, storage, checkpoint))
    joint: list[Finding] = []
    for unit in units:
        for finding in unit.own:
            if finding.code is not FindingCode.WRONG_PARTITION or strict():
                yield finding
        joint += unit.joint
    yield from joint


def newest_right(
    storage: Storage, checkpoint: Checkpoint, batches: Iterable[int], *, threads: int = 1
) -> int | None:
    """Returns the newest of some batches whose rows are all right; reads one after another."""
    for batch in sorted(batches, reverse=True):
        until = tuple(earlier for earlier in checkpoint.batches if earlier <= batch)
        at = replace(checkpoint, batches=until, findings=())
        if not any(check_rows(storage, at, threads=threads)):
            return batch
    return None


def _is_strict(storage: Storage, checkpoint: Checkpoint) -> bool:
    try:
        offsets = storage.read(f"offsets/{checkpoint.committed}")
    except NotFoundError:
        return False
    return shuffles_by_all_keys(logs.parse_conf(offsets))


def _unit(
    storage: Storage, checkpoint: Checkpoint, stores: tuple[Store, ...], known: Results
) -> Iterator[UnitResult]:
    if result := known.unit(stores):
        yield result
        return
    sides: dict[str, _Side] = defaultdict(_Side)
    own: list[Finding] = []
    whole = read = True
    for store in stores:
        try:
            for finding in _check(storage, checkpoint, store, sides):
                own.append(finding)  # noqa: PERF402 -- it is kept even if an error follows
        except (NotFoundError, Superseded):
            whole = read = False
        except (CheckpointError, ConfigError):
            whole = False
    # Rows that were not read do not count as missing.
    joint = tuple(_joins(checkpoint, stores[0].id.unit, sides)) if whole else ()
    yield UnitResult(stores, tuple(own), joint, read)


def _check(
    storage: Storage, checkpoint: Checkpoint, store: Store, sides: dict[str, _Side]
) -> Iterator[Finding]:
    version = checkpoint.target or 0
    chain = store.versions.chain(version)
    if not isinstance(chain, Chain) or not chain.paths:
        return
    schemas = schemas_of(storage, checkpoint, store, version)
    with opened_state(Source.of(storage, store, checkpoint), store, chain) as state:
        rows = _RowCheck(checkpoint, store, schemas, state, sides)
        for number, (key, value) in enumerate(state.rows, 1):
            try:
                rows.check(key, value)
            except CodecError as error:
                detail = f"{store.id.directory}: row {number} of version {version}: {error.detail}"
                yield Finding(FindingCode.CORRUPT_FILE, detail, store.id, version)
                raise
    if rows.astray:
        places = ", ".join(map(str, sorted(rows.astray)[:5]))
        detail = (
            f"{store.id.directory}: version {version} has "
            f"{counted(rows.astray.total(), 'row')} of other partitions "
            f"(such as {places}) by the hash of their keys; files may have been swapped between "
            "partitions. The query can no longer find these rows; restore them from a copy"
        )
        batches = (batch_of(version),)
        code = FindingCode.WRONG_PARTITION
        yield Finding(code, detail, store.id, version, path=store.id.directory, batches=batches)


class _RowCheck:
    def __init__(
        self,
        checkpoint: Checkpoint,
        store: Store,
        schemas: Mapping[str | None, Stored],
        state: State,
        sides: dict[str, _Side],
    ) -> None:
        self._store, self._sides, self._families = store, sides, state.families
        self.astray: Counter[int] = Counter()  # the rows of each other partition
        now = checkpoint.partitions[store.id.operator]
        self._partitions = checkpoint.counts.get(checkpoint.committed or 0, now)
        self._numbers = _NUMBER if state.families else 0
        wrapping = Wrapping(self._numbers, checkpoint.row_checksums, state.delimiter)
        operators = {operator.id: operator for operator in checkpoint.operators}
        operator = operators.get(store.id.operator)
        self._rules: dict[str | None, _Rules] = {}
        for name, stored in schemas.items():
            called = name or store.id.store
            if key := shuffle_key(operator, called, stored.layout, self._numbers):
                self._rules[name] = _Rules(called, key, stored, wrapping)

    def check(self, key: bytes, value: bytes) -> None:
        name = None
        if self._numbers:
            name = self._families.get(int.from_bytes(key[:_NUMBER], "little", signed=True), "")
        rules = self._rules.get(name)
        if rules is None:
            return
        place = rules.key.partition(key, self._partitions)
        if place != self._store.id.partition:
            self.astray[place] += 1
        rules.note(self._sides[rules.side], key, value)


class _Rules:
    """The rules for the rows of a store, or of a column family."""

    def __init__(self, name: str, key: ShuffleKey, stored: Stored, wrapping: Wrapping) -> None:
        self.key = key
        self.side, _, self._kind = name.partition("-")
        self._columns = key_reader(stored.layout, wrapping)
        self._values = value_reader(stored.layout, wrapping)

    def note(self, side: _Side, raw: bytes, value: bytes) -> None:
        if self._kind == _COUNTS:
            side.counts[self.key.bytes_of(raw)] = _long(self._values(raw, value)[0])
        elif self._kind == _ENTRIES:
            at = self.key.bytes_of(raw)
            number, most = side.entries.get(at, (0, -1))
            side.entries[at] = number + 1, max(most, _long(self._columns(raw)))
        elif self._kind in (_BY_KEY, _BY_TIME):
            rows = side.by_key if self._kind == _BY_KEY else side.by_time
            rows.add((self.key.bytes_of(raw), self._columns(raw)[-1]))


def _long(row: Row) -> int:
    if not row or not isinstance(row[-1], int):
        raise CodecError("a count or an index is not a number", offset=0)
    return row[-1]


def _joins(checkpoint: Checkpoint, unit: UnitId, sides: Mapping[str, _Side]) -> Iterator[Finding]:
    version = checkpoint.target or 0
    for name, side in sorted(sides.items()):
        for fault in side.faults():
            store = StoreId(unit.operator, unit.partition)
            detail = (
                f"{store.directory}, {name} side of the join at version {version}: {fault}. Old "
                "bugs of Spark cause this, and so do files of another version; nothing is repaired "
                "here, see the runbook"
            )
            code, path = FindingCode.JOIN_MISMATCH, store.directory
            yield Finding(code, detail, store, version, path=path)
