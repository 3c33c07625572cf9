"""Reads everything that a restart could need, and reports the versions that do not rebuild."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial

from statemaint.audit.rebuild import Depth, finding_of, needed_deltas, rebuild, spoiled
from statemaint.audit.restart import passed_over, restart_logs
from statemaint.audit.results import NO_RESULTS, Results, StoreResult, UnitResult
from statemaint.audit.row_rules import check_units, row_findings
from statemaint.audit.suspects import check_suspects
from statemaint.codec.integrity import checksum_file
from statemaint.errors import (
    CheckpointError,
    CodecError,
    ConfigError,
    NotFoundError,
    StorageError,
    UnsupportedError,
    in_file,
)
from statemaint.fold import Engine, Source, engine_for
from statemaint.fold.needs import check_need, loading
from statemaint.listing import Entry
from statemaint.model.chain import lone_checksum_files
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.files import ChecksumFile, Delta, Snapshot, SstFile, TempFile
from statemaint.model.findings import Finding, FindingCode, damaged, finding_rows
from statemaint.model.ids import StoreId, batch_of
from statemaint.model.verdict import Looked, Verdict
from statemaint.plan.findings.health import diagnose
from statemaint.plan.findings.restart import diagnose_logs, resumes, verdict
from statemaint.plan.staleness import judge
from statemaint.planning import damage, look_at, settled
from statemaint.records.remembered import recalling
from statemaint.scan.layout import is_of_one_store, unread
from statemaint.scan.rollbacks import unfinished_rollbacks
from statemaint.storage import Storage, stoppable
from statemaint.wording import Displayed, counted, quoted
from statemaint.workers import Job, Workers, in_turn

# The findings of a listing of which `check_suspects` reads more.
_OF_SUSPECTS = (FindingCode.STALE_SNAPSHOT, FindingCode.LOG_REPLACED)
# Up to this size, fetching a whole file takes as long as fetching its beginning.
_READ_WHOLE = 256 * 1024


@dataclass(frozen=True, slots=True, repr=False)
class Verification(Displayed):
    """The result of a verification."""

    checkpoint: Checkpoint
    versions_checked: int  # retained versions whose files all passed, counted per store
    versions: int  # retained versions that were looked at, counted per store
    findings: tuple[Finding, ...]
    results: Results = field(repr=False, compare=False)  # for another one of the same checkpoint
    depth: Depth = Depth.HEADERS
    # The bad snapshots that Spark 4.2 and later pass over; `None` if none or all Sparks restart.
    passed_over: tuple[str, ...] | None = None

    def _facts(self) -> Iterator[str]:
        yield quoted(self.checkpoint.root)
        yield self.verdict
        yield f"{self.versions_checked:,} of {counted(self.versions, 'version')} passed"
        yield counted(len(self.findings), "finding")

    def _rows(self) -> Iterator[dict[str, object]]:
        return finding_rows(self.findings)

    @property
    def verdict(self) -> Verdict:
        repairs = self.passed_over is not None
        return verdict(self.checkpoint, self.findings, self_repairing=repairs)

    @property
    def looked(self) -> Looked:
        return list(Looked)[self.depth]

    @property
    def healthy(self) -> bool:
        return not damaged(self.findings)


def verify(
    storage: Storage,
    *,
    deep: bool = False,
    sample: tuple[int, int] | None = None,
    workers: Workers | int | None = None,
) -> Verification:
    """Checks every file that a retained version of any store needs; writes nothing.

    A version counts as retained from the oldest batch in the commit log to the newest. By default
    only the beginning and the end of each file are read (`headers`), and attestations are trusted.

    Args:
        storage: where the checkpoint lives.
        deep: read everything: every file decoded, needed or not, every snapshot compared with the
            log below it, every checksum file with the file beside it, and every row of the newest
            version checked: whether it is in the partition of its key, and whether the stores of a
            join agree.
        sample: the `n`-th of `t` shares of the partitions, `(n, t)` with `n` from 1 to `t`; all
            by default. The `t` shares together are all partitions, each with all of its stores.
        workers: the number of stores read at a time; by default what suits storage and machine.

    Raises:
        ConfigError: when the sample is not a valid share.
        NotACheckpointError: when there is none.
        UnsupportedError: when it is of a kind that cannot be read.
        StorageError: when anything could not be listed or read.
    """
    only = _shares(*sample) if sample else None
    depth = Depth.ROWS if deep else Depth.HEADERS
    verified = verify_at(storage, depth, only, workers=workers)
    return with_self_repair(storage, verified, only, workers=workers)


def with_self_repair(
    storage: Storage,
    verified: Verification,
    only: Callable[[StoreId], bool] | None = None,
    *,
    workers: Workers | int | None = None,
) -> Verification:
    """Returns a verification with the bad snapshots that Spark 4.2 and later pass over.

    Only the stores of these snapshots are read again.
    """
    if resumes(verified.checkpoint, verified.findings):
        return verified

    def again(view: Storage) -> tuple[Checkpoint, tuple[Finding, ...]]:
        known = verified.results
        rest = verify_at(view, verified.depth, only, rebuilt={}, workers=workers, known=known)
        return rest.checkpoint, rest.findings

    over = passed_over(storage, verified.checkpoint, verified.findings, again)
    return replace(verified, passed_over=over)


def verify_at(
    storage: Storage,
    depth: Depth,
    only: Callable[[StoreId], bool] | None = None,
    *,
    rebuilt: Mapping[StoreId, Mapping[int, frozenset[int]]] | None = None,
    workers: Workers | int | None = None,
    known: Results = NO_RESULTS,
) -> Verification:
    """Verifies a checkpoint, or only some stores, to any depth.

    `rebuilt` has the column families of the zips that will be written again, by store and version;
    lineages may name any zip then, else every zip that one names must exist. What the `known`
    results of an earlier verification cover is not read again.
    """
    reading, crew = stoppable(storage), Workers.of(workers)
    scanning = recalling(reading)

    def look() -> tuple[Checkpoint, tuple[Finding, ...]]:
        checkpoint, whole = look_at(scanning, only), depth >= Depth.CHAINS
        of_logs = *diagnose_logs(checkpoint), *restart_logs(scanning, checkpoint, whole=whole)
        return checkpoint, of_logs

    checkpoint, log_findings = settled(look, _doubtful)
    if rebuilt:
        stores = (
            replace(store, rocks=replace(store.rocks, rebuilt=rebuilt[store.id]))
            if store.rocks and store.id in rebuilt
            else store
            for store in checkpoint.stores
        )
        checkpoint = replace(checkpoint, stores=tuple(stores))
    size = sum(store.size for store in checkpoint.stores)
    engine = cache(partial(engine_for, size, checkpoint.provider))
    known = known.valid(checkpoint, depth)
    ahead = crew.ahead(storage.parallel, len(checkpoint.stores), size)
    check = _StoreCheck(reading, checkpoint, depth, rebuilt is None, engine, known, ahead)
    findings = [*checkpoint.findings, *unfinished_rollbacks(reading), *log_findings]
    jobs = [
        Job(partial(check.at, store), partial(check.need, store), store.size)
        for store in checkpoint.stores
    ]
    threads = crew.threads(storage.parallel, size)
    budget = crew.budget(loading(size, checkpoint.provider) if depth > Depth.HEADERS else 0)
    of_stores = in_turn(jobs, threads=threads, budget=budget, stop=reading.stop)
    findings += (finding for result in of_stores for finding in result.findings)
    units: list[UnitResult] = []
    if depth is Depth.ROWS:
        units = check_units(reading, checkpoint, known, threads=threads, stop=reading.stop)
    findings += row_findings(reading, checkpoint, units)
    results = Results.of(checkpoint, depth, of_stores, units)
    checked = sum(result.versions_checked for result in of_stores)
    versions = sum(_retained(checkpoint, store) for store in checkpoint.stores)
    every = tuple(dict.fromkeys(findings))
    return Verification(checkpoint, checked, versions, every, results, depth)


def _retained(checkpoint: Checkpoint, store: Store) -> int:
    if checkpoint.span is None:
        return 0
    first, last = checkpoint.span
    return checkpoint.retained(store.id, store.oldest(first, last), last)


@dataclass(frozen=True, slots=True)
class _StoreCheck:
    """Verifies the stores of one checkpoint, each on its own (`verify_at`)."""

    storage: Storage
    checkpoint: Checkpoint
    depth: Depth
    lineages: bool
    engine: Callable[[], Engine]
    known: Results
    ahead: int

    def at(self, store: Store) -> Iterator[StoreResult]:
        known = self.known.store(store, lineages=self.lineages)
        try:
            yield known or self._read(store)
        except StorageError as error:
            if not is_of_one_store(error):
                raise
            yield StoreResult(store, self.lineages, 0, unread(store, error).findings)

    def need(self, store: Store) -> int:
        if store.unread:
            return 0
        source = Source.of(self.storage, store, self.checkpoint)
        folds = self.depth is not Depth.HEADERS or bool(judge(store, self.checkpoint).suspects)
        return check_need(store, source, folds=folds)

    def _read(self, store: Store) -> StoreResult:
        checkpoint = self.checkpoint
        if store.unread:
            return StoreResult(store, self.lineages, 0, store.findings)
        source = Source.of(self.storage, store, checkpoint, ahead=self.ahead)
        findings = [
            finding for finding in diagnose(store, checkpoint) if finding.code not in _OF_SUSPECTS
        ]
        findings += check_suspects(source, self.engine, store, checkpoint)
        deltas = needed_deltas(store, checkpoint)
        if self.depth is Depth.HEADERS:  # larger ones are not read whole
            deltas = (delta for delta in deltas if delta.entry.size <= _READ_WHOLE)
        with source.fetching(deltas) as near:
            checked, of_files, read = rebuild(
                near, self.engine, store, checkpoint, self.depth, lineages=self.lineages
            )
        findings += [*of_files, *_purged(store, checkpoint), *_orphans(store)]
        if self.depth >= Depth.CHAINS:
            findings += _sides(self.storage, store, checkpoint)
        if self.depth is Depth.ROWS:
            findings += _unneeded(source, self.engine, store, checkpoint, read)
        return StoreResult(store, self.lineages, checked, tuple(findings))


def _shares(number: int, total: int) -> Callable[[StoreId], bool]:
    if not 1 <= number <= total:
        raise ConfigError(f"share {number} of {total} is not valid; the first is 1/{total}")
    return lambda store: (store.operator + store.partition) % total == number - 1


def _doubtful(
    seen: tuple[Checkpoint, tuple[Finding, ...]],
) -> frozenset[Finding | tuple[FindingCode, str | None]]:
    """Returns what a second look has to confirm, as the query may be running."""
    checkpoint, of_logs = seen
    return damage(checkpoint) | {(finding.code, finding.path) for finding in of_logs}


def _purged(store: Store, checkpoint: Checkpoint) -> Iterator[Finding]:
    """Yields a notice if Spark's own clean-up has left batches of the commit log without state."""
    if checkpoint.span is None:
        return
    required, last = checkpoint.span
    oldest = store.oldest(required, last)
    if oldest == required or not checkpoint.asks(store.id, required):
        return
    detail = (
        f"{store.id.directory}: the commit log begins with batch {batch_of(required)}, the files "
        f"that Spark's own clean-up has kept with batch {batch_of(oldest)}: a restart is not "
        "affected, but no batch before that can be restored"
    )
    yield Finding(FindingCode.PURGED_BY_SPARK, detail, store.id, required)


def _orphans(store: Store) -> Iterator[Finding]:
    lone = [side.entry for side in lone_checksum_files(store.files)]
    temps = [file.entry for file in store.files if isinstance(file, TempFile)]
    left = "left behind by an interrupted write or deletion"
    loose = "no snapshot refers to it; an upload was interrupted or is running"
    orphans = [(entry, left) for entry in lone + temps]
    orphans += ((entry, loose) for entry in _unreferenced(store))
    for entry, why in orphans:
        yield Finding(FindingCode.ORPHAN_FILE, f"{entry.path}: {why}", store.id, path=entry.path)


def _unreferenced(store: Store) -> Iterator[Entry]:
    """Yields the shared files that no zip refers to, as far as that is known."""
    if store.rocks is None or store.rocks.unreadable:
        return
    used = {path for parts in store.rocks.parts.values() for path in parts}
    shared = (file.entry for file in store.files if isinstance(file, SstFile))
    yield from (entry for entry in shared if entry.path not in used)


def _unneeded(
    source: Source,
    engine: Callable[[], Engine],
    store: Store,
    checkpoint: Checkpoint,
    read: Collection[str],
) -> Iterator[Finding]:
    for file in (file for file in store.files if file.entry.path not in read):
        try:
            if isinstance(file, Delta):
                engine().check(source, file)
            elif isinstance(file, Snapshot):
                engine().digest(source, file.entry.path)
        except (CheckpointError, UnsupportedError) as error:
            yield finding_of(store, error, checkpoint)
        except NotFoundError:
            continue  # cleaned up by the query since it was listed


def _sides(storage: Storage, store: Store, checkpoint: Checkpoint) -> Iterator[Finding]:
    """Compares Hadoop's checksum files with the files beside them, as Hadoop does on reading."""
    lone = {side.entry.path for side in lone_checksum_files(store.files)}
    unused = {entry.path for entry in _unreferenced(store)}  # an interrupted upload
    sides = (side for side in store.files if isinstance(side, ChecksumFile) and not side.by_spark)
    for side in sides:
        if side.entry.path in lone or side.owner in unused:
            continue
        path = side.entry.path
        owner = path.removesuffix(side.entry.name) + side.entry.name[1:-4]
        try:
            stored = storage.read(path)
            with in_file(path), storage.open(owner) as stream:
                if checksum_file.hadoop_matches(stored, stream):
                    continue
        except CodecError as error:
            yield finding_of(store, error, checkpoint)
        except NotFoundError:
            continue  # cleaned up by the query since it was listed
        else:
            detail = f"{path}: does not match {owner}; a Hadoop FileSystem refuses to read it"
            code, batches = FindingCode.STALE_CHECKSUM, spoiled(store, side.owner, checkpoint)
            yield Finding(code, detail, store.id, side.version, path=path, batches=batches)
