"""The stores that a query has, from all evidence in the checkpoint together.

A whole folder may be missing, so the listing is not enough: the offset log pins the number of
shuffle partitions, commits with unique ids name every store, the operators' metadata declare
theirs, a schema describes an operator's state, the ledger lists the stores that were once
maintained, and Spark numbers operators from 0.

An operator without metadata in a query that Spark 4 runs was removed from it, or is damaged.
Spark 4.0 and later write metadata for each stateful operator that a query has when it starts,
before a batch runs (`IncrementalExecution.StateSchemaAndOperatorMetadataRule`); they never look at
other state. An operator without metadata, and without a file of the newest committed version, has
therefore left a query that was begun before Spark 4, or its metadata and newest files are lost. It
has left only if all of this holds, and otherwise that remains open:

* the other operators have metadata, and are numbered below it, from 0 on;
* the batch of its newest change was not planned by Spark 4, and its files were not put there after
  the newest change of the others; if the offset log no longer has that batch, all of its files are
  older than the metadata of the others;
* its state is whole: every partition of it ends at, and loads, one version;
* the ledger has noted nothing newer of it.

A folder that was put back from a copy older than Spark 4, with the times of its files, looks the
same.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from statemaint.codec.metadata import logs
from statemaint.errors import CodecError, NotFoundError
from statemaint.listing import Entry
from statemaint.model.chain import Versions
from statemaint.model.checkpoint import Operator
from statemaint.model.files import Delta, Snapshot, StateFile, snapshot_version
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import DEFAULT_STORE, StoreId, batch_of, version_of
from statemaint.records.attestations import ATTESTATIONS, read_attestations
from statemaint.scan.layout import Layout
from statemaint.storage import Storage

STORES_OF_A_JOIN = frozenset(
    f"{side}-{kind}"
    for side in ("left", "right")
    for kind in ("keyToNumValues", "keyWithIndexToValue")
)
# An existing folder may be the only one left of this many numbers beyond those that are seen.
_FEW = 32
_SINCE_SPARK_4 = "spark.sql.streaming.stateStore.encodingFormat"
_METADATA = "metadata"  # of the first format; only newer operators have another one


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of a query's stores."""

    listed: frozenset[StoreId]
    operators: Mapping[int, Operator] = field(default_factory=dict)  # as their metadata declare
    pinned: int | None = None  # the newest committed batch's partitions, if its offsets pin them
    counts: Mapping[int, int] = field(default_factory=dict)  # of each batch, once repartitioned
    # The number of stores in each partition of an operator, by the newest commit's ids.
    named: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    keyed: frozenset[int] = frozenset()  # whose state has a key, as far as a schema shows
    # Those of partition 0 with a schema: Spark writes it before their operator's first batch.
    described: frozenset[StoreId] = frozenset()
    copied: frozenset[int] = frozenset()  # the folders with metadata of another operator
    noted: frozenset[StoreId] = frozenset()  # in the ledger
    removed: frozenset[int] = frozenset()

    def stores(self, operator: int) -> frozenset[StoreId]:
        # Seen now or by an earlier run.
        return frozenset(it for it in self.listed | self.noted if it.operator == operator)


def expected_stores(evidence: Evidence) -> tuple[StoreId, ...]:
    """Returns the stores that a committed batch reads, and those a repartition left, ascending.

    Without a sign of a repartition no batch ever had partitions beyond the pinned number.
    """
    operators = required_operators(evidence)
    listed = evidence.listed if evidence.counts else ()
    left_over = (store for store in listed if store.operator in operators)
    required = (store for operator in operators for store in _stores_of(evidence, operator))
    return tuple(sorted({*required, *left_over}))


def _stores_of(evidence: Evidence, operator: int) -> Iterator[StoreId]:
    names, partitions = store_names(evidence, operator), required_partitions(evidence, operator)
    return (StoreId(operator, partition, name) for name in names for partition in partitions)


def required_operators(evidence: Evidence) -> frozenset[int]:
    # Spark numbers them from 0, so a number missing below another one is an operator, too.
    if evidence.named:
        return frozenset(evidence.named)
    stores = evidence.listed | evidence.noted | evidence.described
    seen = {store.operator for store in stores} | evidence.operators.keys()
    return frozenset(_filled(seen - evidence.copied - evidence.removed))


def required_partitions(evidence: Evidence, operator: int) -> Iterable[int]:
    """Returns the partitions that an operator has at any batch of the commit log.

    Operators without a key (a global aggregation, `limit`) run in one task, whatever their
    metadata declare. Mirrors `IncrementalExecution.nextStatefulOperationStateInfo`, which uses the
    number of shuffle partitions that the batch's offsets pin.
    """
    seen = {store.partition for store in evidence.stores(operator)}
    named = len(evidence.named.get(operator, ()))
    if operator not in evidence.keyed and seen <= {0} and named <= 1:
        return range(1)
    declared = evidence.operators.get(operator)
    pinned = max((evidence.pinned or 0, *evidence.counts.values()))
    count = pinned or (declared.partitions if declared else 0)
    return range(max(named, count)) if named or count else _filled(seen | {0})


def _filled(numbers: Iterable[int]) -> Iterable[int]:
    # Fills the gaps below numbers, unless most would be invented.
    present = frozenset(numbers)
    highest = max(present, default=-1)
    return range(highest + 1) if highest <= len(present) + _FEW else present


def store_names(evidence: Evidence, operator: int) -> frozenset[str]:
    declared = evidence.operators.get(operator)
    seen = {store.store for store in evidence.stores(operator)}
    described = {store.store for store in evidence.described if store.operator == operator}
    names = seen | set(declared.stores if declared else ())
    numbers = evidence.named.get(operator, ())
    if (names | described) & STORES_OF_A_JOIN or len(STORES_OF_A_JOIN) in numbers:
        names |= STORES_OF_A_JOIN
    return frozenset(names or {DEFAULT_STORE})


@dataclass(frozen=True, slots=True)
class Undeclared:
    """The operators without metadata that do not reach the newest committed version."""

    removed: Mapping[int, int] = field(default_factory=dict)  # by operator, its newest version
    unsure: Mapping[int, int] = field(default_factory=dict)  # those that may also be damaged
    noted: frozenset[int] = frozenset()  # in the ledger

    def findings(self) -> Iterator[Finding]:
        for operator, newest in self.removed.items():
            detail = (
                f"state/{operator} is of an operator that the query no longer has: Spark 4 has "
                f"written metadata for the others only, and its newest version, {newest}, is from "
                f"before. No restart reads the folder, and it is kept. Move {self._both(operator)} "
                "away; if an old copy was put there, put the newest files of the operator back "
                "instead"
            )
            yield Finding(FindingCode.UNUSED_STORE, detail, path=f"state/{operator}")
        for operator, newest in self.unsure.items():
            reaches = f"nothing newer than version {newest}" if newest else "no state"
            detail = (
                f"state/{operator} has no operator metadata, which Spark 4 writes at every start, "
                f"and {reaches}: if the operator was removed from the query, move "
                f"{self._both(operator)} away; otherwise put its files back from a copy. It is kept"
            )
            yield Finding(FindingCode.UNDECLARED_OPERATOR, detail, path=f"state/{operator}")

    def _both(self, operator: int) -> str:
        notes = f", and with it {ATTESTATIONS}/{operator}," if operator in self.noted else ""
        return f"state/{operator}{notes}"


def findings_of_unused(
    evidence: Evidence, stores: Iterable[StoreId], undeclared: Undeclared
) -> Iterator[Finding]:
    for store in stores:
        if store.operator not in undeclared.removed:
            detail = (
                f"{store.directory} belongs to no partition of an operator that the query has: no "
                "restart reads it, and it is kept"
            )
            yield Finding(FindingCode.UNUSED_STORE, detail, path=store.directory)
    yield from undeclared.findings()
    # Mirrors `OperatorStateMetadata`'s validation: Spark compares everything below `state/` with
    # the operators of the query. Only commits with unique ids name these.
    declared = evidence.operators.keys() - evidence.copied
    for number in sorted(declared - evidence.named.keys()) if evidence.named else ():
        path = f"state/{number}"
        detail = (
            f"{path} has metadata of an operator that the newest commit does not name: Spark 4.0 "
            "and later refuse to start a query that has other operators; move the folder away"
        )
        yield Finding(FindingCode.FOREIGN_OPERATOR, detail, path=path)


def undeclared_operators(
    storage: Storage,
    layout: Layout,
    evidence: Evidence,
    attested: Mapping[StoreId, str],
    committed: int | None,
) -> Undeclared:
    if committed is None or evidence.named:
        return Undeclared()
    noted = frozenset(store.operator for store in attested)
    seen = {store.operator for store in layout.stores.keys() | layout.described()} | noted
    reached = {it: _newest(layout, it) for it in sorted(seen - layout.operators.keys())}
    behind = {it: newest for it, newest in reached.items() if newest < version_of(committed)}
    if not behind or not _by_spark_4(storage, committed):
        return Undeclared()
    removed = {
        operator: newest
        for operator, newest in behind.items()
        if _follows_the_declared(layout, evidence, operator)
        and _changed_before_spark_4(storage, layout, operator, newest)
        and _is_whole(layout, evidence, operator, newest)
        and newest >= max(_noted(storage, attested, operator), default=0)
    }
    return Undeclared(removed, {it: behind[it] for it in behind if it not in removed}, noted)


def _files(layout: Layout, operator: int) -> Iterator[StateFile]:
    stores = layout.stores.items()
    return (file for store, files in stores if store.operator == operator for file in files)


def _newest(layout: Layout, operator: int) -> int:
    files = (file for file in _files(layout, operator) if isinstance(file, Delta | Snapshot))
    return max((file.version for file in files), default=0)


def _by_spark_4(storage: Storage, batch: int) -> bool | None:
    # Or later; `None` if its offsets cannot be read.
    try:
        return _SINCE_SPARK_4 in logs.parse_conf(storage.read(f"offsets/{batch}"))
    except (NotFoundError, CodecError):
        return None


def _follows_the_declared(layout: Layout, evidence: Evidence, operator: int) -> bool:
    declared = evidence.operators.keys() - evidence.copied
    numbered = declared == layout.operators.keys() == set(range(len(declared)))
    first_format = all(entry.name == _METADATA for entry in layout.operators.values())
    return numbered and first_format and operator >= len(declared) > 0


def _changed_before_spark_4(storage: Storage, layout: Layout, operator: int, newest: int) -> bool:
    # Files that are younger than every change of the others were put there since.
    written = _times(file.entry for file in _files(layout, operator))
    by_spark_4 = _by_spark_4(storage, batch_of(newest))
    if by_spark_4 is not None:
        declared = (file for number in layout.operators for file in _files(layout, number))
        others = _times(file.entry for file in declared)
        return not by_spark_4 and not (written and others and max(written) > max(others))
    restarted = _times(layout.operators.values())
    return bool(written and restarted) and max(written) < min(restarted)


def _times(entries: Iterable[Entry]) -> list[float]:
    # None if one of them is unknown.
    times = [entry.modified for entry in entries]
    return [] if None in times else [time for time in times if time is not None]


def _is_whole(layout: Layout, evidence: Evidence, operator: int, newest: int) -> bool:
    stores = {store: files for store, files in layout.stores.items() if store.operator == operator}
    if stores.keys() != set(_stores_of(evidence, operator)):
        return False
    versions = [Versions.of(files) for files in stores.values()]
    ends = (newest, newest - 1)  # the last batch may have failed before all of its tasks had ended
    return any(all(state.loadable(end, end) for state in versions) for end in ends)


def _noted(storage: Storage, attested: Mapping[StoreId, str], operator: int) -> Iterator[int]:
    for path in (path for store, path in attested.items() if store.operator == operator):
        notes = read_attestations(storage, path)
        yield from (proof.version for proof in notes.proofs)
        yield from (snapshot_version(snapshot) or 0 for snapshot in notes.written)
        yield from (upload.version for upload in notes.uploads.newest)
