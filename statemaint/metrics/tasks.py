"""The figures that a task publishes of itself while it works, in a group of its own.

A thread publishes them when the task begins, every few seconds, and when it ends. The task waits
for that thread only at its end, and for a limited time. A killed task keeps the state `working`,
and the time of its last report gets old.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum, unique
from threading import Event, Lock, Thread

from prometheus_client.metrics_core import Metric as Family

from statemaint.metrics import publish
from statemaint.metrics.families import family
from statemaint.metrics.options import Named, Targets
from statemaint.plan.actions import Plan
from statemaint.progress import STORE, watched
from statemaint.report.outcome import Deleted, Outcome, SnapshotWritten
from statemaint.report.task import BundleReport

EVERY = 15.0
"""The seconds between two publications of a task that works."""
ENDING_SECONDS = 4.0
"""How long a task waits at its end for a Pushgateway that has answered it before."""

Clock = Callable[[], float]

_log = logging.getLogger(__name__)
# What each query of several adds to that.
_EACH_SECONDS = 0.01
_CHANGES = ("snapshots_written", "files_deleted", "bytes_deleted", "bytes_written")


@unique
class TaskState(StrEnum):
    """The state of a task; one that waits for a lease or a retry does not work."""

    WORKING = "working"
    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(slots=True)
class Progress:
    """The figures of a task so far; it observes its work (`progress.Observer`), in any thread."""

    values: dict[str, float] = field(default_factory=dict)  # by the metric's name without `task_`
    failed: bool = False  # whether the work has failed, even if the task does not raise
    _lock: Lock = field(default_factory=Lock)

    def begin(self, jobs: int, _: int, noun: str = STORE) -> None:
        if noun == STORE:
            self.add(stores_planned=jobs, stores_done=0)

    def done(self, _: int, noun: str = STORE) -> None:
        if noun == STORE:
            self.add(stores_done=1)

    def changes(self) -> Callable[[Outcome, Plan], None]:
        """Returns the function that adds an outcome of maintenance; nothing is changed so far."""
        self.add(**dict.fromkeys(_CHANGES, 0))
        return self._add_outcome

    def add_reports(self, reports: Iterable[BundleReport]) -> None:
        """Adds the reports on bundles that others have maintained."""
        for report in reports:
            stores = report.done + report.skipped + report.halted
            self.add(
                stores_planned=stores,
                stores_done=stores,
                snapshots_written=report.snapshots,
                files_deleted=report.files,
                bytes_deleted=report.bytes,
                bytes_written=report.bytes_written,
            )

    def _add_outcome(self, outcome: Outcome, _: Plan) -> None:
        if isinstance(outcome, SnapshotWritten):
            self.add(snapshots_written=1, bytes_written=outcome.bytes)
        elif isinstance(outcome, Deleted):
            self.add(files_deleted=1, bytes_deleted=outcome.action.entry.size)

    def add(self, **amounts: float) -> None:
        with self._lock:
            for name, amount in amounts.items():
                self.values[name] = self.values.get(name, 0) + amount

    def seen(self) -> dict[str, float]:
        with self._lock:
            return dict(self.values)


@dataclass(frozen=True, slots=True)
class Task:
    """A task that reports on a query; without targets, nothing is published."""

    of: Named
    name: str  # its verb and index or part, such as `maintain-3` or `verify-0`
    targets: Targets
    credentials: publish.Credentials = None  # as for `publish_record`
    retries: int = 0  # its earlier attempts
    earlier: Sequence[str] = ()  # the tasks of earlier runs, whose groups are deleted first


@contextmanager
def reporting(
    *tasks: Task, clock: Clock, endings: Mapping[type[BaseException], TaskState] | None = None
) -> Iterator[list[Progress]]:
    """Publishes the figures of the work in the block, until it ends with any outcome.

    The stores of a single task are counted as the block works on them; otherwise there is a task of
    each query. `endings` are the states of tasks that end with an exception and have not failed.
    """
    progress = [Progress() for _ in tasks]
    reporter = _Reporter(list(zip(tasks, progress, strict=True)), clock)
    state = TaskState.FAILED
    try:
        with watched(progress[0] if len(tasks) == 1 else None):
            yield progress
        state = TaskState.SUCCEEDED
    except BaseException as error:
        states = (state for kind, state in (endings or {}).items() if isinstance(error, kind))
        state = next(states, TaskState.FAILED)
        raise
    finally:
        reporter.end(state)


class _Reporter:
    """A thread that publishes the figures of tasks; abandoned if it does not end in time."""

    def __init__(self, tasks: Sequence[tuple[Task, Progress]], clock: Clock) -> None:
        self._tasks = [
            (replace(task, targets=target), progress)
            for task, progress in tasks
            for target in _each_of(task.targets)
        ]
        self._name = tasks[0][0].name if tasks else ""
        self._clock, self._state = clock, TaskState.WORKING
        self._times = {"started_timestamp_seconds": clock()}
        self._ended, self._lost = Event(), 0
        self._thread = Thread(target=self._run, name=f"statemaint-{self._name}", daemon=True)
        if self._tasks:
            self._thread.start()

    def end(self, state: TaskState) -> None:
        """Publishes the end, and waits for that: longer if the Pushgateway has answered before."""
        if not self._tasks:
            return
        self._state, self._times = state, {**self._times, "ended_timestamp_seconds": self._clock()}
        self._ended.set()
        most = publish.WAITING_SECONDS if self._lost else ENDING_SECONDS
        self._thread.join(most + _EACH_SECONDS * len(self._tasks))
        if self._thread.is_alive():
            _log.warning("the end of %s is not published: no answer in time", self._name)
        if self._lost > 1:
            _log.warning("%d publications of %s were lost", self._lost, self._name)

    def _run(self) -> None:
        self._all(self._forget)
        while True:
            last = self._ended.is_set()
            self._all(self._publish)
            if last:
                return
            self._ended.wait(EVERY)

    def _all(self, work: Callable[[Task, Progress], None]) -> None:
        """Does something for each task; a destination that fails is left out of this round."""
        failed = set[Targets]()
        for task, progress in self._tasks:
            if task.targets in failed:
                continue
            try:
                work(task, progress)
            except publish.ERRORS as error:
                failed.add(task.targets)
                self._lost += 1
                if self._lost == 1:
                    _log.warning("the progress of %s is not published: %s", self._name, error)

    def _publish(self, task: Task, progress: Progress) -> None:
        failed = self._state is TaskState.SUCCEEDED and progress.failed
        state = TaskState.FAILED if failed else self._state
        times = {**self._times, "reported_timestamp_seconds": self._clock()}
        figures = {**times, "retries": float(task.retries), **progress.seen()}
        group, made = {**task.of.group, "task": task.name}, [*task_families(task, state, figures)]
        if task.targets.textfile:
            publish.write_task_textfile(task.targets.textfile, group, made)
        if task.targets.gateway:
            publish.gateway_of(task.targets, task.credentials).replace(group, made)

    def _forget(self, task: Task, _: Progress) -> None:
        if task.earlier and task.targets.textfile:
            verb = task.name.rpartition("-")[0]
            publish.remove_task_textfiles(task.targets.textfile, task.of, verb)
        if task.targets.gateway:
            gateway = publish.gateway_of(task.targets, task.credentials)
            for name in task.earlier:
                gateway.replace({**task.of.group, "task": name}, [])


def _each_of(targets: Targets) -> Iterator[Targets]:
    if targets.textfile:  # first: a Pushgateway may not answer
        yield replace(targets, gateway=None)
    if targets.gateway:
        yield replace(targets, textfile=None)


def task_families(task: Task, state: TaskState, figures: Mapping[str, float]) -> Iterator[Family]:
    labels = {**task.of.labels, "task": task.name}
    yield family("task_state", labels, [({"state": state.value}, 1)])
    for metric, value in figures.items():
        yield family(f"task_{metric}", labels, [({}, value)])
