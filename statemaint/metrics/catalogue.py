"""Every metric: its name, type, unit, labels, and the question that it answers.

docs/metrics.md is made from it. The bound is the largest number of series of one query, with every
value of every label; series of each partition are optional.
"""

from dataclasses import dataclass
from enum import StrEnum, unique
from functools import cached_property, partial

from statemaint.model.findings import FindingCode
from statemaint.model.verdict import Looked
from statemaint.plan.reasons import DeleteReason, WithheldReason
from statemaint.plan.recovery.recovery_plan import RemoveReason
from statemaint.report.facts import CHAIN_BOUNDS, SIZE_BOUNDS, TASK_BOUNDS, WORST
from statemaint.report.outcome import StoreOutcome
from statemaint.report.record import Cause

PREFIX = "statemaint_"
# The storages' names for their requests: the most of any storage, with room for a few more.
MOST_VERBS = 12
# The mistakes in the queries file that have a series of their own.
MOST_PROBLEMS = 20


@unique
class MetricType(StrEnum):
    """The type of a metric in Prometheus."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@unique
class Detail(StrEnum):
    """The subject of a series."""

    QUERY = "query"
    PARTITION = "partition"
    TASK = "task"
    EXPORTER = "exporter"


@dataclass(frozen=True)
class Metric:
    """One metric, and the question that it answers."""

    name: str  # without the prefix; a counter's ends in `_total`
    question: str
    unit: str = ""
    labels: tuple[str, ...] = ()  # besides those of each series of a query (`Named.labels`)
    kind: MetricType = MetricType.GAUGE
    bound: int = 1  # the largest number of its series of one query, or of one partition
    detail: Detail = Detail.QUERY
    fact: str = ""  # the sum in a run's facts, the total of a record, or the field of a partition

    @cached_property
    def full(self) -> str:
        return PREFIX + self.name

    @cached_property
    def base(self) -> str:
        """Returns the name of its family, which is without a counter's `_total`."""
        return self.full.removesuffix("_total")


_UNIT = ("operator", "partition")
_COUNTER, _HISTOGRAM = MetricType.COUNTER, MetricType.HISTOGRAM
_S, _B, _TIME = "seconds", "bytes", "seconds since 1970"


def _spread(bounds: tuple[float, ...]) -> int:
    return len(bounds) + 3  # +Inf, the sum and the count


RUN = (
    Metric("last_run_timestamp_seconds", "When did the last run end, with any result?", _TIME),
    Metric("last_success_timestamp_seconds", "When did the last run without failure end?", _TIME),
    Metric("expected_interval_seconds", "What is the interval of the schedule? Absent without.",
           _S),
    Metric("last_run_duration_seconds", "How long did the slowest task take?", _S),
    Metric("last_run_failed", "Why did the last run fail? 1 for each cause, 0 for the others.",
           labels=("cause", "storage"), bound=len(Cause)),
    Metric("last_run_tasks", "How many tasks did the last run have, and how many gave no report?",
           "tasks", ("state",), bound=2),
    Metric("last_run_storage_errors", "In how many tasks did the storage fail?", "tasks"),
    Metric("lease_held_timestamp_seconds",
           "Since when does a run wait for another run's lease? 0 when none waits.", _TIME),
    Metric("last_run_snapshots_written", "How many snapshots did the last run write?", "snapshots",
           fact="snapshots"),
    Metric("last_run_bytes_written", "How large are these?", _B, fact="written"),
    Metric("last_run_bytes_deleted", "How much did the last run delete?", _B, fact="deleted"),
    Metric("last_run_files_deleted", "Which files did it delete, by reason?", "files", ("reason",),
           bound=len(DeleteReason) + len(RemoveReason)),
    Metric("last_run_trash_files_deleted",
           "How many files did it delete from the trash, where they had expired?", "files",
           fact="trash_files"),
    Metric("last_run_trash_bytes_deleted", "How large were these?", _B, fact="trash_bytes"),
    Metric("last_run_storage_requests", "What did the last run cost in requests, by the storage's "
           "verbs? Each task's count once.", "requests", ("verb",), bound=MOST_VERBS),
    Metric("last_run_peak_memory_bytes", "What was the peak memory of the largest task?", _B),
    Metric("task_seconds", "How are the durations of the last run's tasks distributed?",
           _S, kind=_HISTOGRAM, bound=_spread(TASK_BOUNDS)),
)  # fmt: skip

STATE = (
    Metric("figures_timestamp_seconds",
           "When were these figures taken? A run that fails early leaves them as they were.",
           _TIME, ("figures",), bound=2),
    Metric("verdict", "Is the query healthy, degraded, broken, unknown or empty? 1 for the newest "
           "verdict of each depth.", labels=("verdict", "looked"), bound=len(Looked)),
    Metric("last_committed_batch", "Which batch would a restart continue after?", "batch id"),
    Metric("snapshot_lag_versions", "How many versions is the newest snapshot behind, at worst?",
           "versions"),
    Metric("newest_snapshot_timestamp_seconds",
           "When was the newest snapshot of the most neglected store stored? 0 without one.",
           _TIME),
    Metric("restart_seconds", "How long does a restart take at most, in a new process, from the "
           "query's start to its first committed batch? A forecast.", _S),
    Metric("restart_limit_seconds", "What is the policy's limit (restart_within)? 0 without.",
           _S),
    Metric("restart_bytes", "How much does a restart read, in all partitions?", _B,
           fact="replayed"),
    Metric("restart_files", "How many files does a restart read?", "files", fact="replayed_files"),
    Metric("chain_length_max", "How many deltas does a restart replay, in the worst store?",
           "deltas"),
    Metric("stores", "How many stores were maintained, left for later, or are halted?", "stores",
           ("outcome",), bound=len(StoreOutcome)),
    Metric("snapshots_withheld", "How many due snapshots were not written, and why?", "snapshots",
           ("reason",), bound=len(WithheldReason)),
    Metric("stores_unloadable", "How many stores would a restart fail to load?", "stores",
           fact="unloadable"),
    Metric("partitions", "How many partitions are known?", "partitions", fact="partitions"),
    Metric("findings", "What was found, by code?", "findings", ("code",), bound=len(FindingCode)),
    Metric("halted_store", "Which stores are halted? The first five.", labels=(*_UNIT, "store"),
           bound=WORST),
    Metric("state_rows", "How many keys are in the state, as last attested?", "rows", fact="rows"),
    Metric("state_bytes", "How large are keys and values, as last attested?", _B, fact="state"),
    Metric("stores_unproved", "How many stores are missing in these two, without a proof?",
           "stores", fact="unproved"),
    Metric("store_files", "How many files are stored?", "files", fact="files"),
    Metric("store_bytes", "How large are they?", _B, fact="bytes"),
    Metric("reclaimable_bytes", "How much will a later run delete?", _B, fact="reclaimable"),
    Metric("trash_bytes", "How much is kept in the trash?", _B),
    Metric("trash_files", "How many files are in the trash?", "files"),
    Metric("store_chain_length", "How are the chain lengths of the stores distributed?", "deltas",
           kind=_HISTOGRAM, bound=_spread(CHAIN_BOUNDS)),
    Metric("store_size_bytes", "How are the sizes of the stores distributed?", _B,
           kind=_HISTOGRAM, bound=_spread(SIZE_BOUNDS)),
    Metric("worst_partition_restart_seconds", "Which five partitions are slowest at a restart?",
           _S, _UNIT, bound=WORST),
    Metric("worst_partition_chain_length",
           "How many deltas do these replay? NaN if one does not load.", "deltas", _UNIT,
           bound=WORST),
    Metric("worst_partition_bytes", "How large are these?", _B, _UNIT, bound=WORST),
)  # fmt: skip

TOTALS = (
    Metric("runs_total", "How many runs succeeded and failed since the first?", "runs",
           ("result",), _COUNTER, 2),
    Metric("snapshots_written_total", "How many snapshots were written?", "snapshots",
           kind=_COUNTER, fact="snapshots"),
    Metric("written_bytes_total", "How many bytes were written?", _B, kind=_COUNTER,
           fact="written"),
    Metric("reclaimed_bytes_total", "How many bytes were deleted?", _B, kind=_COUNTER,
           fact="deleted"),
    Metric("reclaimed_files_total", "How many files were deleted?", "files", kind=_COUNTER,
           fact="files"),
    Metric("storage_requests_total", "What does maintenance cost in requests?", "requests",
           ("verb",), _COUNTER, MOST_VERBS),
    Metric("storage_errors_total", "In how many tasks did the storage fail?", "tasks",
           kind=_COUNTER, fact="storage_errors"),
    Metric("push_losses_total", "How many pushes were lost?", "pushes", kind=_COUNTER,
           fact="losses"),
)  # fmt: skip

_OTHER = (
    Metric("last_verify_timestamp_seconds", "When did the last verification end?", _TIME),
    Metric("last_verify_failed", "Did it find damage?"),
    Metric("last_savepoint_timestamp_seconds", "When did the last savepoint end? Also one that "
           "found that of the newest batch in place.", _TIME),
    Metric("last_savepoint_bytes", "How large is it?", _B),
    Metric("last_savepoint_duration_seconds", "How long did it take?", _S),
    Metric("savepoint_expected_interval_seconds",
           "What is the interval of the savepoints' schedule? Absent without.", _S),
    Metric("query_info", "Which queries are there, and which DAG maintains each?",
           labels=("dag",)),
    Metric("build_info", "Which version maintained it last? Always 1.", labels=("version",)),
)  # fmt: skip

_partition = partial(Metric, labels=_UNIT, detail=Detail.PARTITION)
PARTITION = (
    _partition("partition_chain_length",
               "How many deltas does its worst store replay? NaN if it fails.", "deltas",
               fact="chain"),
    _partition("partition_restart_seconds", "How long does a slot need to load it? A forecast.", _S,
               fact="seconds"),
    _partition("partition_restart_bytes", "How much does its restart read?", _B,
               fact="replay_bytes"),
    _partition("partition_files", "How many files does it have?", "files", fact="files"),
    _partition("partition_bytes", "How large are they?", _B, fact="bytes"),
    _partition("partition_reclaimable_bytes", "How much of it will a later run delete?", _B,
               fact="reclaimable"),
    _partition("partition_halted_stores", "How many of its stores are halted?", "stores",
               fact="halted"),
)  # fmt: skip

_task = partial(Metric, labels=("task",), detail=Detail.TASK)
_TASK = (
    Metric("task_state", "Does the task work, wait, or how has it ended? 1 for its state.",
           "", ("task", "state"), detail=Detail.TASK),
    _task("task_started_timestamp_seconds", "When did this attempt begin?", _TIME),
    _task("task_reported_timestamp_seconds", "When did it last report?", _TIME),
    _task("task_ended_timestamp_seconds", "When did it end? Absent while it works.", _TIME),
    _task("task_stores_done", "How many stores is it done with?", "stores"),
    _task("task_stores_planned", "Of how many?", "stores"),
    _task("task_snapshots_written", "How many snapshots has it written?", "snapshots"),
    _task("task_files_deleted", "How many files has it deleted?", "files"),
    _task("task_bytes_deleted", "How large were these?", _B),
    _task("task_bytes_written", "How large are the snapshots?", _B),
    _task("task_retries", "How many attempts were there before this one?", "attempts"),
)  # fmt: skip

_exporter = partial(Metric, detail=Detail.EXPORTER)
_EXPORTER = (
    _exporter("exporter_read_timestamp_seconds", "When was the query's record last read?", _TIME),
    _exporter("exporter_last_reading_timestamp_seconds",
              "When did the last reading of all records end? Without `query`.", _TIME),
    _exporter("exporter_read_failed", "Did reading it fail the last time?", labels=("storage",)),
    _exporter("exporter_queries", "How many queries are in the queries file? Without `query`.",
              "queries"),
    _exporter("exporter_problems", "How many mistakes are in the queries file? Without `query`."),
    _exporter("configuration_problem", f"Where is each of them? The first {MOST_PROBLEMS}; "
              "without `query` outside of entries.", labels=("file", "line")),
)  # fmt: skip

METRICS = (*RUN, *STATE, *TOTALS, *_OTHER, *PARTITION, *_TASK, *_EXPORTER)
BY_NAME = {metric.name: metric for metric in METRICS}
BY_FAMILY = {metric.base: metric for metric in METRICS}


def most_series(partitions: int = 0) -> int:
    """Returns the largest number of series of one query; with partitions if each has its own."""
    apart = (Detail.PARTITION, Detail.TASK)
    whole = sum(metric.bound for metric in METRICS if metric.detail not in apart)
    return whole + partitions * len(PARTITION)
