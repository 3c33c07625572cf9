"""The report of one run, with its exit code and its verdict."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.model.findings import OF_STORAGE, Finding, FindingCode
from statemaint.model.restart_time import Forecast
from statemaint.model.verdict import Verdict, worst
from statemaint.plan.actions import Plan, Withheld
from statemaint.plan.reasons import WithheldReason
from statemaint.plan.withheld import long_waits
from statemaint.report.outcome import StoreOutcome, StoreReport
from statemaint.wording import Displayed, counted, quoted


@dataclass(frozen=True, slots=True)
class Emptied:
    """What a run deleted from the trash, because it had expired there; manifests do not count.

    `finding` is why expired files are left; `None` if none are.
    """

    files: int = 0
    bytes: int = 0
    finding: Finding | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        return (self.finding,) if self.finding else ()


WORST_FIRST = (1, 5, 3, 2, 4, 6, 0)
"""The exit codes: of several, the first one counts."""


def worst_code(codes: Iterable[int]) -> int:
    return min(codes, key=WORST_FIRST.index, default=0)


def exit_code_of(findings: Iterable[Finding]) -> int:
    return worst_code(map(_exit_code, findings))


def _exit_code(finding: Finding) -> int:
    if finding.code is FindingCode.FAULT:
        return 1
    if finding.code in OF_STORAGE:
        return 5
    if finding.damage:
        return 3
    return 6 if finding.code is FindingCode.SUPERSEDED else 0


@dataclass(frozen=True, slots=True, repr=False)
class Report(Displayed):
    """The report of one run.

    Attributes:
        run: the run's id.
        plan: the run's plan.
        stores: one report for each requested store.
        started: seconds since the epoch, by the storage's clock.
        seconds: the duration of the run.
        dry_run: whether nothing was carried out.
        peak_memory: the process's peak memory up to the end of the run, in bytes.
        requests: the number of requests that the run made to its storage, by the storage's own
            verbs.
        emptied: what it deleted from the trash, which is in no other figure.
    """

    run: str
    plan: Plan
    stores: tuple[StoreReport, ...]
    started: float
    seconds: float
    dry_run: bool = False
    peak_memory: int = 0
    requests: Mapping[str, int] = field(default_factory=dict)
    emptied: Emptied = Emptied()

    def _facts(self) -> Iterator[str]:
        yield quoted(self.plan.root)
        yield "dry run" if self.dry_run else f"run {self.run}"
        yield f"{counted(self.snapshots_written, 'snapshot')} written"
        yield f"{counted(self.files_deleted.total(), 'file')} deleted"
        yield self.verdict

    def _rows(self) -> Iterator[dict[str, object]]:
        for store in sorted(self.stores, key=lambda store: store.state is StoreOutcome.DONE):
            yield {
                **store.before.id.columns,
                "outcome": store.state,
                "snapshots written": store.snapshots_written,
                "files deleted": store.files_deleted.total(),
                "bytes deleted": store.bytes_deleted,
            }

    @property
    def findings(self) -> tuple[Finding, ...]:
        out_of_time = WithheldReason.OUT_OF_TIME
        left = (waiting for waiting in self.withheld if waiting.wait.reason is out_of_time)
        of_stores = (finding for store in self.stores for finding in store.findings)
        return (*self.plan.findings, *of_stores, *long_waits(left), *self.emptied.findings)

    @property
    def withheld(self) -> tuple[Withheld, ...]:
        return tuple(waiting for store in self.stores for waiting in store.withheld)

    @property
    def before(self) -> tuple[Store, ...]:
        return tuple(store.before for store in self.stores)

    @property
    def after(self) -> tuple[Store, ...]:
        return tuple(store.after for store in self.stores)

    @property
    def needed(self) -> tuple[Store, ...]:
        """Returns the stores that the target has, as the run left them."""
        return tuple(store.after for store in self.stores if store.target != 0)

    @property
    def forecast(self) -> Forecast:
        """Returns the forecast of restarts, by what the run's proofs say of records."""
        return self.plan.forecast.measured(self.after)

    @property
    def snapshots_written(self) -> int:
        return sum(store.snapshots_written for store in self.stores)

    @property
    def bytes_written(self) -> int:
        return sum(store.bytes_written for store in self.stores)

    @property
    def files_deleted(self) -> Counter[str]:
        return sum((store.files_deleted for store in self.stores), Counter())

    @property
    def bytes_deleted(self) -> int:
        return sum(store.bytes_deleted for store in self.stores)

    @property
    def exit_code(self) -> int:
        return exit_code_of(self.findings)

    @property
    def verdict(self) -> Verdict:
        """Returns the plan's verdict, or a worse one by what the run has read."""
        read = (_verdict(store, finding) for store in self.stores for finding in store.findings)
        return worst((self.plan.verdict, *read))


def _verdict(store: StoreReport, finding: Finding) -> Verdict:
    if finding.code is FindingCode.STORAGE_FAILED:
        return Verdict.UNKNOWN
    if not finding.damage or store.target is None:
        return Verdict.HEALTHY
    versions, path = store.before.versions, finding.path or ""
    chain = versions.chain(store.target)
    if not isinstance(chain, Chain) or path not in chain.paths:
        return Verdict.DEGRADED
    rest = versions.without({path}).chain(store.target)  # Spark 4.2 passes over a bad snapshot
    return Verdict.DEGRADED if isinstance(rest, Chain) and rest != chain else Verdict.BROKEN
