"""The diagnosis of a checkpoint: whether the query restarts, from where, and what to do."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from statemaint.codec.metadata.event_log import PastRestart
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Provider, Store
from statemaint.model.findings import Blocks, Finding, FindingCode, Subject, finding_rows
from statemaint.model.ids import batch_in, batch_of
from statemaint.model.policy import PRESETS
from statemaint.model.restart_time import NO_FORECAST, Forecast, Load
from statemaint.model.verdict import Looked, Verdict
from statemaint.plan.findings.restart import blockers, is_doubt
from statemaint.plan.recovery.rollback import newest_to_go_back_to
from statemaint.wording import Displayed, counted, quoted

REPAIRS_ITSELF = "4.2"
"""The first Spark that passes over a bad snapshot: `stateStore.autoSnapshotRepair.enabled`."""
_LONG = PRESETS["safe"].min_deltas_for_snapshot
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
        return len(
            {
                finding.store
                for finding in self.findings
                if finding.code is FindingCode.STORAGE_FAILED
            }
        )

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
        return Verdict.of(
            unread=self.unread > 0,
            blocked=not self.restarts,
            damaged=bool(self.counts),
            committed=self.checkpoint.committed is not None,
        )

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
        return blockers(self.checkpoint, self.findings)

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
        right = [batch for batch in self.loadable if not self.misplaced or batch in self.right]
        return newest_to_go_back_to(self.checkpoint, self.findings, right)

    @property
    def doubtful(self) -> bool:
        """Returns whether a file that loads does not match a checksum that Spark does not read."""
        return any(is_doubt(finding) for finding in self.findings)

    @property
    def misplaced(self) -> bool:
        """Returns whether rows of the newest version are known to be wrong."""
        return any(finding.code.about.subject is Subject.ROWS for finding in self.findings)

    @property
    def next(self) -> tuple[str, ...]:
        steps = [code.about.next or f"{code}: see the runbook" for code in sorted(self.counts)]
        if self._repairable:
            steps.insert(0, "see what `statemaint repair` can repair from the log")
        if (rollback := FindingCode.UNFINISHED_ROLLBACK) in self.counts:
            steps.insert(0, rollback.about.next)  # it explains what is missing
        steps = [*self.disputed, *steps, *self._tidying, *self._way_out()]
        if not steps and self.chain and len(self.chain.deltas) > _LONG:
            maintain = "run `statemaint maintain`: a restart reads more files than it needs to"
            steps.extend(self.waits or (maintain,))
        return tuple(dict.fromkeys(steps)) or ("nothing",)

    @property
    def _repairable(self) -> bool:
        return any(code.about.repairable for code in self.counts)

    @property
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
            first = "what repair leaves" if self._repairable else "this"
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
        unchecked = []
        if not self.deep:
            rows = "rows in a wrong partition or a join's stores that disagree (see --deep)"
            unchecked.append(rows)
        rocks = [store.rocks for store in self.checkpoint.stores]
        if any(of_store is None or not of_store.ids for of_store in rocks):
            unchecked.append("a whole change in another one's place above the newest snapshot")
            unchecked.append("operators that left no trace, and operators of another query")
        return tuple(unchecked)


def _some(paths: Collection[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return f"{', '.join(sorted(paths)[:_SHOWN])}{more}" if paths else "the checkpoint"
