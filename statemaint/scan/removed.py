"""Operators without metadata in a query that Spark 4 runs: removed from it, or damaged.

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
from itertools import chain

from statemaint.codec.metadata import logs
from statemaint.errors import CodecError, NotFoundError
from statemaint.listing import Entry
from statemaint.model.chain import Versions
from statemaint.model.files import Delta, Snapshot, StateFile, snapshot_version
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId, batch_of, version_of
from statemaint.records.attestations import ATTESTATIONS, read_attestations
from statemaint.scan.layout import Layout
from statemaint.scan.required import Evidence, foreign_operators, required_partitions, store_names
from statemaint.storage import Storage

_SINCE_SPARK_4 = "spark.sql.streaming.stateStore.encodingFormat"
_METADATA = "metadata"  # of the first format; only newer operators have another one


@dataclass(frozen=True, slots=True)
class Undeclared:
    """The operators without metadata that do not reach the newest committed version.

    Attributes:
        removed: those that left the query, with their newest version.
        unsure: those that may also be damaged, with their newest version.
        noted: those that the ledger has noted.
    """

    removed: Mapping[int, int] = field(default_factory=dict)
    unsure: Mapping[int, int] = field(default_factory=dict)
    noted: frozenset[int] = frozenset()

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
    for number in foreign_operators(evidence):
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
    noted = frozenset(one.operator for one in attested)
    seen = {one.operator for one in layout.stores.keys() | layout.described()} | noted
    behind = {
        operator: newest
        for operator in sorted(seen - layout.operators.keys())
        if (newest := _newest(layout, operator)) < version_of(committed)
    }
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
    unsure = {operator: newest for operator, newest in behind.items() if operator not in removed}
    return Undeclared(removed, unsure, noted)


def _files(layout: Layout, operator: int) -> Iterator[StateFile]:
    stores = (files for store, files in layout.stores.items() if store.operator == operator)
    return chain.from_iterable(stores)


def _newest(layout: Layout, operator: int) -> int:
    files = (one for one in _files(layout, operator) if isinstance(one, Delta | Snapshot))
    return max((one.version for one in files), default=0)


def _by_spark_4(storage: Storage, batch: int) -> bool | None:
    """Returns whether Spark 4 or later planned a batch; `None` if its offsets cannot be read."""
    try:
        return _SINCE_SPARK_4 in logs.parse_conf(storage.read(f"offsets/{batch}"))
    except (NotFoundError, CodecError):
        return None


def _follows_the_declared(layout: Layout, evidence: Evidence, operator: int) -> bool:
    declared = evidence.operators.keys() - evidence.copied
    numbered = declared == layout.operators.keys() == set(range(len(declared)))
    first_format = all(one.name == _METADATA for one in layout.operators.values())
    return numbered and first_format and operator >= len(declared) > 0


def _changed_before_spark_4(storage: Storage, layout: Layout, operator: int, newest: int) -> bool:
    """Returns whether no batch that Spark 4 planned has changed an operator.

    Files that are younger than every change of the others were put there since.
    """
    written = _times(one.entry for one in _files(layout, operator))
    by_spark_4 = _by_spark_4(storage, batch_of(newest))
    if by_spark_4 is not None:
        others = _times(one.entry for number in layout.operators for one in _files(layout, number))
        return not by_spark_4 and not (written and others and max(written) > max(others))
    restarted = _times(layout.operators.values())
    return bool(written and restarted) and max(written) < min(restarted)


def _times(entries: Iterable[Entry]) -> list[float]:
    """Returns the times of some files; none if one of them is unknown."""
    times = [one.modified for one in entries]
    known = [one for one in times if one is not None]
    return known if len(known) == len(times) else []


def _is_whole(layout: Layout, evidence: Evidence, operator: int, newest: int) -> bool:
    stores = {store: files for store, files in layout.stores.items() if store.operator == operator}
    partitions = required_partitions(evidence, operator)
    names = store_names(evidence, operator)
    if stores.keys() != {StoreId(operator, one, name) for one in partitions for name in names}:
        return False
    versions = [Versions.of(files) for files in stores.values()]
    ends = (newest, newest - 1)  # the last batch may have failed before all of its tasks had ended
    return any(all(one.loadable(end, end) for one in versions) for end in ends)


def _noted(storage: Storage, attested: Mapping[StoreId, str], operator: int) -> Iterator[int]:
    for path in (path for store, path in attested.items() if store.operator == operator):
        notes = read_attestations(storage, path)
        yield from (one.version for one in notes.proofs)
        yield from (snapshot_version(one) or 0 for one in notes.written)
        yield from (one.version for one in notes.uploads.newest)
