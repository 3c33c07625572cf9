"""The demo's progress reports: bars on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

Advance = Callable[[object], None]


class Steps:
    """The demo's numbered steps; each prints its title and its duration.

    Args:
        total: the number of steps.
        console: the console for results; progress is printed on stderr.
    """

    def __init__(self, total: int, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self._progress = Console(stderr=True, highlight=False)
        self._total = total
        self._number = 0

    def show(self, *lines: object) -> None:
        for line in lines:
            self.console.print(line, markup=False, soft_wrap=isinstance(line, str))

    @contextmanager
    def step(self, title: str, total: int | None = None) -> Iterator[Advance]:
        """Runs one step; yields a function that the caller calls after each part of the step."""
        self._number += 1
        head = f"[{self._number}/{self._total}] {title}"
        started = time.monotonic()
        if self._progress.is_terminal:
            with self._bar(head, total) as advance:
                yield advance
        else:
            self._progress.print(f"{head} ...", markup=False)
            yield lambda _done: None
        seconds = time.monotonic() - started
        self._progress.print(f"{head}: {seconds:.0f} s", markup=False)

    @contextmanager
    def _bar(self, head: str, total: int | None) -> Iterator[Advance]:
        columns = [SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn()]
        counted = [*columns, MofNCompleteColumn()] if total else columns
        with Progress(*counted, console=self._progress, transient=True) as progress:
            task = progress.add_task(head, total=total)

            def advance(done: object) -> None:
                text = f"{head}: {done}" if isinstance(done, str) else head
                progress.update(task, advance=1, description=text)

            yield advance
