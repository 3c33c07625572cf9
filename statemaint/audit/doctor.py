"""Answers the first questions on call: can the query restart, from where, and what to do."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from statistics import median

from statemaint.audit.rebuild import Depth
from statemaint.audit.row_rules import newest_right
from statemaint.audit.verify import Verification, verify_at, with_self_repair
from statemaint.codec.metadata.event_log import PastRestart
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Provider, Store
from statemaint.model.findings import Blocks, Finding, FindingCode, Subject, finding_rows
from statemaint.model.ids import batch_in, batch_of, version_of
from statemaint.model.policy import PRESETS
from statemaint.model.restart_time import NO_FORECAST, SLOTS, Forecast, Load, replay_of
from statemaint.model.verdict import Looked, Verdict
from statemaint.plan.findings import restart
from statemaint.plan.planner import plan
from statemaint.plan.recovery.rollback import newest_to_go_back_to
from statemaint.plan.staleness import judge
from statemaint.plan.withheld import by_reason
from statemaint.scan.restart_evidence import past_restarts, with_record_size
from statemaint.storage import Storage, stoppable
from statemaint.wording import Displayed, counted, quoted
from statemaint.workers import Workers

REPAIRS_ITSELF = "4.2"
"""The first Spark that passes over a bad snapshot: `stateStore.autoSnapshotRepair.enabled`."""
_SAFE = PRESETS["safe"]
_SHOWN = 3


@dataclass(frozen=True, slots=True, repr=False)
class Diagnosis(Displayed):
    """The result of diagnosing a checkpoint."""

    checkpoint: Checkpoint
    findings: tuple[Finding, ...]
    loadable: tuple[int, ...]  # the batches of the commit log that load in every store, ascending
    longest: Store | None = None  # with the longest chain at the newest committed version
    chain: Chain | None = None  # that chain
    # The newest loadable batch whose rows are all right, where those of the newest version are not.
    right: tuple[int, ...] = ()
    disputed: tuple[str, ...] = ()  # for each snapshot that disagrees with its log: the reason
    deep: bool = False  # rows were checked, and the files that no retained version needs
    resumable: bool = True  # the version that a restart reads loads in every store
    # Spark 4.2 and later load that version nevertheless: they pass over a bad snapshot, and look
    # further down if one is missing.
    self_repairing: bool = False
    passed_over: tuple[str, ...] = ()  # the bad snapshots that they then pass over
    # Why `maintain` with the default policy would write no snapshot for the longest chain.
    waits: tuple[str, ...] = ()
    forecast: Forecast = NO_FORECAST
    past: tuple[PastRestart, ...] | None = None  # the restarts in event logs, if any were read
    ratios: tuple[float, ...] = ()  # of those whose files are still there, to the forecast
    versions_checked: int = 0  # retained versions that passed, counted per store

    def _facts(self) -> Iterator[str]:
        yield quoted(self.checkpoint.root)
        yield self.verdict
        yield "restarts" if self.restarts else "does not restart"
        yield counted(len(self.findings), "finding")

    def _rows(self) -> Iterator[dict[str, object]]:
        if self.findings:
            return finding_rows(self.findings)
        return ({"next": step} for step in self.next)

    @property
    def rows_checked(self) -> tuple[int, int]:
        """Returns the number of stores whose rows a deep look has checked, and of all it needs.

        The rows of a store that does not load at the newest version are not read, and none at all
        if the checkpoint's own logs are damaged.
        """
        checkpoint, version = self.checkpoint, self.checkpoint.target
        needed = checkpoint.needed(version) if version else ()
        if version is None or any(finding.damage for finding in checkpoint.findings):
            return 0, len(needed)
        broken = {
            finding.store
            for finding in self.findings
            if finding.damage
            and finding.code.about.subject is not Subject.ROWS
            and batch_of(version) in finding.batches
        }
        loads = (store for store in needed if isinstance(store.versions.chain(version), Chain))
        return sum(store.id not in broken for store in loads), len(needed)

    @property
    def unread(self) -> int:
        """Returns the number of stores that could not be listed or read: no verdict covers them."""
        failed = FindingCode.STORAGE_FAILED
        return len({finding.store for finding in self.findings if finding.code is failed})

    @property
    def load(self) -> Load | None:
        """Returns what a restart reads; `None` if it fails or reads nothing."""
        checkpoint, version = self.checkpoint, self.checkpoint.resumes
        needed = checkpoint.needed(version) if version and self.restarts else ()
        return self.forecast.load(needed, version) if needed else None

    @property
    def load_after(self) -> Load:
        """Returns what it would read once `maintain` has written every snapshot that it can."""
        version = self.checkpoint.resumes
        return self.forecast.least(self.checkpoint.needed(version), version)

    @property
    def verdict(self) -> Verdict:
        return restart.verdict(self.checkpoint, self.findings, self_repairing=self.self_repairing)

    @property
    def looked(self) -> Looked:
        return Looked.ROWS if self.deep else Looked.FILES

    @property
    def restarts(self) -> bool:
        """Returns whether the query restarts as it is, with Spark 4.2 and later."""
        return not any(self.blockers) and (self.resumable or self.self_repairing)

    @property
    def restarts_since(self) -> str | None:
        """Returns the first Spark that restarts the query; `None` if all versions do, or none."""
        return REPAIRS_ITSELF if self.restarts and not self.resumable else None

    @property
    def blockers(self) -> Iterator[Finding]:
        """Yields the findings that stop a restart, or make it wrong, before any state is read."""
        return restart.blockers(self.checkpoint, self.findings)

    @property
    def counts(self) -> Counter[FindingCode]:
        return Counter(finding.code for finding in self.findings if finding.damage)

    @property
    def goes_back_to(self) -> int | None:
        """Returns the newest batch that is worth a rollback; `None` if there is none.

        That is the newest one from which the query restarts as it is. If its rows are wrong, which
        only a deep look sees, it is one whose rows are right. Where a replaced log disagrees with
        a snapshot there is none: a rollback would move the snapshot away, which may be all that
        remains of the right state. Nor is there one while something blocks every batch.
        """
        blocked = any(finding.code.about.blocks is Blocks.EVERY_BATCH for finding in self.blockers)
        blocked |= any(finding.code is FindingCode.BLOCKED_NAME for finding in self.findings)
        if self.disputed or blocked:
            return None
        right = self.right if self.misplaced else self.loadable
        return newest_to_go_back_to(self.checkpoint, self.findings, right)

    @property
    def doubtful(self) -> bool:
        """Returns whether a file that loads does not match a checksum that Spark does not read."""
        return any(restart.is_doubt(finding) for finding in self.findings)

    @property
    def misplaced(self) -> bool:
        """Returns whether rows of the newest version are known to be wrong."""
        return any(finding.code.about.subject is Subject.ROWS for finding in self.findings)

    @property
    def next(self) -> tuple[str, ...]:
        steps = [code.about.next or f"{code}: see the runbook" for code in sorted(self.counts)]
        if any(code.about.repairable for code in self.counts):
            steps.insert(0, "see what `statemaint repair` can repair from the log")
        if (rollback := FindingCode.UNFINISHED_ROLLBACK) in self.counts:
            steps.insert(0, rollback.about.next)  # it explains what is missing
        steps = [*self.disputed, *steps, *self._tidying(), *self._way_out()]
        if not steps and self.chain and len(self.chain.deltas) > _SAFE.min_deltas_for_snapshot:
            maintain = "run `statemaint maintain`: a restart reads more files than it needs to"
            steps.extend(self.waits or (maintain,))
        return tuple(dict.fromkeys(steps)) or ("nothing",)

    def _tidying(self) -> Iterator[str]:
        for code in FindingCode:
            paths = {
                finding.path for finding in self.findings if finding.code is code and finding.path
            }
            if code.about.tidy and paths:
                yield code.about.tidy.format(paths=_some(paths))

    def _way_out(self) -> Iterator[str]:
        """Yields the advice on a rollback, or that none helps, if the query does not restart."""
        if self.restarts and not (self.misplaced or self.doubtful):
            return
        batch = self.goes_back_to
        if batch is not None:
            right = " with all rows in their place" if self.misplaced else ""
            saved = f"`statemaint savepoint URI DEST --batch {batch}`, which only reads this, or "
            yield (
                f"or go back: {saved if self._can_be_saved(batch) else ''}"
                f"`statemaint rollback --to-batch {batch}`, the newest batch that "
                f"loads in every store{right}"
            )
        elif not any(code.about.by_hand for code in self.counts):
            repairable = any(code.about.repairable for code in self.counts)
            first = "what repair leaves" if repairable else "this"
            paths = {finding.path for finding in self.findings if finding.damage and finding.path}
            way = f"restore {_some(paths)} from a copy"
            yield f"{first} cannot be repaired from the remaining files: {way}"

    def _can_be_saved(self, batch: int) -> bool:
        """Returns whether a savepoint of a loadable batch has all it needs, as far as is known."""
        return (batch == 0 or batch - 1 in self.checkpoint.offsets) and not any(
            finding.damage
            and (batch in finding.batches or not finding.batches)
            and max(batch_in(finding.path or "", log) for log in ("offsets", "commits")) <= batch
            for finding in self.findings
        )

    @property
    def unseen(self) -> tuple[str, ...]:
        """Returns the faults that were not checked for, or cannot be found."""
        if self.checkpoint.provider is Provider.UNKNOWN:
            return ("every store, as the provider is unknown",)
        rows = "rows in a wrong partition or a join's stores that disagree (see --deep)"
        unchecked = [] if self.deep else [rows]
        rocks = [store.rocks for store in self.checkpoint.stores]
        if any(of_store is None or not of_store.ids for of_store in rocks):
            unchecked.append("a whole change in another one's place above the newest snapshot")
            unchecked.append("operators that left no trace, and operators of another query")
        return tuple(unchecked)


def _some(paths: Collection[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return f"{', '.join(sorted(paths)[:_SHOWN])}{more}" if paths else "the checkpoint"


def doctor(
    storage: Storage,
    *,
    deep: bool = False,
    slots: int | None = None,
    event_logs: Storage | None = None,
    workers: Workers | int | None = None,
) -> Diagnosis:
    """Diagnoses a checkpoint: whether, and from where, its query can restart.

    Args:
        storage: where the checkpoint lives.
        deep: check as a deep `verify` does; else every file of a retained version is decoded.
        slots: the number of stores that the query's executors load at a time, one or more; by
            default what its last event log says, or four.
        event_logs: a folder with event logs of the query's Spark, which correct the forecast.
        workers: the number of stores read at a time; by default what suits storage and machine.

    Raises:
        NotACheckpointError: when there is none.
        ConfigError: when there is no event log.
        UnsupportedError: when it is of a kind that cannot be read.
        StorageError: when anything could not be listed or read.
    """
    reading, depth = stoppable(storage), Depth.ROWS if deep else Depth.CHAINS
    verified = verify_at(reading, depth, workers=workers)
    verified = with_self_repair(reading, verified, workers=workers)
    checkpoint = verified.checkpoint
    longest, chain = max(
        _newest(checkpoint),
        key=lambda pair: (len(pair[1].deltas), pair[1].size),
        default=(None, None),
    )
    past = past_restarts(event_logs, checkpoint.query_id) if event_logs else None
    slots = slots or next((it.slots for it in reversed(past or ()) if it.slots), SLOTS)
    forecast = Forecast.of(with_record_size(reading, checkpoint), slots)
    forecast = replace(forecast, spark=past[-1].spark) if past else forecast
    ratios = tuple(_compared(forecast, checkpoint, past or ()))
    loadable = tuple(_loadable(checkpoint, verified.findings))
    return Diagnosis(
        checkpoint=checkpoint,
        findings=verified.findings,
        loadable=loadable,
        longest=longest,
        chain=chain,
        versions_checked=verified.versions_checked,
        disputed=tuple(_disputed(checkpoint, verified.findings)),
        right=tuple(_right(reading, verified, loadable, workers)),
        deep=deep,
        resumable=restart.resumes(checkpoint, verified.findings),
        self_repairing=verified.passed_over is not None,
        passed_over=verified.passed_over or (),
        waits=tuple(_waits(reading, checkpoint, longest, chain)),
        forecast=replace(forecast, percent=max(1, round(100 * median(ratios))) if ratios else 100),
        past=past,
        ratios=ratios,
    )


def _waits(
    storage: Storage, checkpoint: Checkpoint, longest: Store | None, chain: Chain | None
) -> Iterator[str]:
    if longest and chain and len(chain.deltas) >= _SAFE.min_deltas_for_snapshot:
        withheld = plan(checkpoint, _SAFE, storage.now()).withheld
        of_store = (snapshot for snapshot in withheld if snapshot.store == longest.id)
        yield from map(str, by_reason(of_store))


def _disputed(checkpoint: Checkpoint, findings: tuple[Finding, ...]) -> Iterator[str]:
    wrong = {finding.path for finding in findings if finding.code is FindingCode.SNAPSHOT_MISMATCH}
    for store in checkpoint.stores:
        for suspect in judge(store, checkpoint).disputed:
            if suspect.path in wrong and not suspect.by_query:
                yield f"{suspect.path} disagrees with the log: {suspect.why}"


def _right(
    storage: Storage,
    verified: Verification,
    loadable: tuple[int, ...],
    workers: Workers | int | None,
) -> Iterator[int]:
    """Yields the newest batch whose rows are right, if those of the newest version are not."""
    if any(finding.code.about.subject is Subject.ROWS for finding in verified.findings):
        threads = Workers.of(workers).number or storage.parallel
        newest = newest_right(storage, verified.checkpoint, loadable, threads=threads)
        yield from () if newest is None else (newest,)


def _loadable(checkpoint: Checkpoint, findings: tuple[Finding, ...]) -> Iterator[int]:
    required, target = checkpoint.required, checkpoint.target
    if required is None or target is None or checkpoint.provider is Provider.UNKNOWN:
        return
    spoiled = restart.spoiled_batches(findings)
    loads = [(store.id, store.versions.loadable(required, target)) for store in checkpoint.stores]
    for batch in checkpoint.batches:
        version = version_of(batch)
        needed = (loaded for store, loaded in loads if checkpoint.asks(store, version))
        if batch not in spoiled and all(version in loaded for loaded in needed):
            yield batch


def _newest(checkpoint: Checkpoint) -> Iterator[tuple[Store, Chain]]:
    """Yields the chain that a restart reads of each store that loads."""
    if version := checkpoint.resumes:
        for store in checkpoint.needed(version):
            if isinstance(chain := store.versions.chain(version), Chain):
                yield store, chain


def _compared(
    forecast: Forecast, checkpoint: Checkpoint, past: Iterable[PastRestart]
) -> Iterator[float]:
    """Yields how many times as long as forecast each restart took whose files are still there."""
    for known in (it for it in past if it.version <= (checkpoint.target or 0)):
        stores = (_then(store, known.began) for store in checkpoint.needed(known.version))
        works = [replay_of(store, known.version, forecast.record) for store in stores]
        read = [work for work in works if work]
        if read and len(read) == len(works) and known.seconds:
            slots = known.slots or forecast.slots
            then = replace(forecast, spark=known.spark or forecast.spark, slots=slots)
            yield known.seconds / then.seconds(Load.of(read), warm=known.warm).middle


def _then(store: Store, time: float) -> Store:
    files = tuple(file for file in store.files if (file.entry.modified or 0.0) <= time)
    return replace(store, files=files)
