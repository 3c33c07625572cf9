"""Progress on stderr, of work that takes more than a second: a bar, or an occasional line."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from contextvars import copy_context
from threading import Lock
from typing import TYPE_CHECKING

from rich.filesize import decimal

from statemaint.cli.output import note, settings
from statemaint.cli.tables import lasting
from statemaint.progress import STORE, watched
from statemaint.wording import counted

if TYPE_CHECKING:
    from rich.progress import Progress

    from statemaint.plan.actions import Plan
    from statemaint.report.outcome import Outcome

_SHOWN_AFTER = 1.0
_BETWEEN_LINES = 30.0


class Meter:
    """Reports the progress of work: its steps, or its bytes if these are known."""

    def __init__(self, label: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.label, self.noun = label, STORE
        self._clock, self._lock = clock, Lock()
        self._settings = copy_context()  # steps end in threads, which have no settings
        self._began = self._phase = self._told = clock()
        self._steps = self._ended = self._size = self._read = 0
        self._bar: Progress | None = None

    @property
    def begun(self) -> bool:
        return self._steps > 0

    def begin(self, jobs: int, size: int, noun: str = STORE) -> None:
        with self._lock:
            if self._ended == self._steps or noun != self.noun:  # the last is not counted again
                self.noun = noun
                self._steps = self._ended = self._size = self._read = 0
                self._phase = self._clock()
            self._steps += jobs
            self._size += size

    def done(self, size: int, noun: str = STORE) -> None:
        del noun  # work of one kind ends before another begins
        with self._lock:
            self._ended += 1
            self._read += size
            self._settings.run(self._tell)

    def _tell(self) -> None:
        if settings().quiet or self._clock() - self._began < _SHOWN_AFTER:
            return
        if sys.stderr.isatty():
            self._show()
        elif self._clock() - self._told >= _BETWEEN_LINES:
            self._told = self._clock()
            note(self.line())

    def line(self) -> str:
        passed, (done, total) = self._clock() - self._phase, self._measure()
        share = done / total if total else 0.0
        left = f", {lasting(passed / share - passed)} left" if share else ""
        return (
            f"{self.label}: {self._ended:,} of {counted(self._steps, self.noun)} "
            f"in {lasting(passed)}, {self.rate()}{left}"
        )

    def rate(self) -> str:
        passed = self._clock() - self._phase
        if passed <= 0:
            return ""
        if self._size:
            return f"{decimal(int(self._read / passed))} a second"
        return f"{self._ended / passed:,.1f} {self.noun}s a second"

    def close(self) -> None:
        if self._bar:
            self._bar.stop()

    def _measure(self) -> tuple[int, int]:
        return (self._read, self._size) if self._size else (self._ended, self._steps)

    def _show(self) -> None:
        if self._bar is None:
            self._bar = _new_bar(self.label)
        steps = f"{self._ended:,} of {counted(self._steps, self.noun)}"
        done, total = self._measure()
        (task,) = self._bar.task_ids
        self._bar.update(task, completed=done, total=total, steps=steps, rate=self.rate())


def _new_bar(label: str) -> "Progress":
    from rich.console import Console  # noqa: PLC0415 -- most calls end before there is a bar
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[steps]}"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.start()
    bar.add_task(label, total=None, steps="", rate="")
    return bar


@contextmanager
def work_done(label: str) -> Iterator[None]:
    """Shows the progress of the work in the block, in stores or what else its jobs are of."""
    with closing(Meter(label)) as meter, watched(meter):
        yield


@contextmanager
def actions_done() -> "Iterator[Callable[[Outcome, Plan], None]]":
    """Yields a function that takes each outcome of a run, and shows the progress of the run."""
    with closing(Meter("maintaining")) as meter:

        def advance(outcome: "Outcome", plan: "Plan") -> None:
            del outcome
            if not meter.begun:
                meter.begin(len(plan.actions), 0, "action")
            meter.done(0)

        yield advance
