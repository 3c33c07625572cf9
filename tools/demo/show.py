"""The demo's output: its progress, and results that are measured, never written in advance."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table

from statemaint.planning import scan_checkpoint
from statemaint.report.to_json import chain_length
from statemaint.storage import LocalStorage
from tools.demo.airflow_client import TaskInstance
from tools.demo.session import Digests

Advance = Callable[[object], None]
_METRICS = (
    "statemaint_chain_length_max",
    "statemaint_last_run_snapshots_written",
    "statemaint_last_run_files_deleted",
    "statemaint_restart_seconds",
    "statemaint_reclaimed_bytes_total",
    "statemaint_last_committed_batch",
    "statemaint_snapshot_lag_versions",
)


_SIZES = ("deltas to replay at a restart", "snapshots", "files under state/", "bytes under state/")


def measure(checkpoint: Path) -> tuple[str, ...]:
    """Returns the sizes of a checkpoint, in the order of `_SIZES`."""
    seen = scan_checkpoint(LocalStorage(checkpoint))
    files = [file.entry.size for store in seen.stores for file in store.files]
    chains = {chain_length(store, seen.target) or 0 for store in seen.stores}
    deltas = "-".join(map(str, sorted({min(chains), max(chains)})))
    snapshots = sum(len(store.versions.snapshots) for store in seen.stores)
    return deltas, str(snapshots), str(len(files)), decimal(sum(files))


def sizes(before: tuple[str, ...], after: tuple[str, ...]) -> Table:
    table = Table("", "before", "after", box=None, pad_edge=False, header_style="bold")
    for row in zip(_SIZES, before, after, strict=True):
        table.add_row(*row)
    return table


def tasks(instances: Sequence[TaskInstance]) -> Table:
    table = Table("task", "name", "state", box=None, pad_edge=False, header_style="bold")
    for instance in instances:
        table.add_row(instance.task, instance.label or "", instance.state or "")
    return table


def states(digests: Digests) -> Iterable[str]:
    """Yields a line for each batch that Spark read, with the number of rows in its stores."""
    rows: Counter[int] = Counter()
    for (_, _, batch), digest in digests.items():
        rows[batch] += digest.rows
    for batch, count in sorted(rows.items()):
        yield f"  batch {batch}: {count} rows, equal before and after"


def metrics(gateway: str | None, folder: Path) -> list[str]:
    """Returns some metrics of a Pushgateway, or of the textfiles in a folder."""
    if gateway is None:
        return _chosen("".join(file.read_text() for file in sorted(folder.glob("*.prom"))))
    with urlopen(f"{gateway}/metrics", timeout=10) as answer:  # noqa: S310 -- our own server
        return _chosen(answer.read().decode())


def _chosen(text: str) -> list[str]:
    """Returns the chosen metrics of partition 0 and the query; no reasons without deleted files."""
    lines = [line for line in text.splitlines() if line.startswith(_METRICS)]
    lines = [line for line in lines if 'partition="0"' in line or "partition=" not in line]
    return [line for line in lines if not ("reason=" in line and line.endswith((" 0", " 0.0")))]


class Steps:
    """The demo's numbered steps; each prints its title and its duration on stderr."""

    def __init__(self, total: int) -> None:
        self._console = Console(highlight=False)
        self._progress = Console(stderr=True, highlight=False)
        self._total, self._number = total, 0

    def show(self, *lines: object) -> None:
        for line in lines:
            self._console.print(line, markup=False, soft_wrap=isinstance(line, str))

    @contextmanager
    def step(self, title: str, total: int | None = None) -> Iterator[Advance]:
        """Runs one step; yields a function that the caller calls after each part of the step."""
        self._number += 1
        head = f"[{self._number}/{self._total}] {title}"
        started, shown = time.monotonic(), self._progress.is_terminal
        if not shown:
            self._progress.print(f"{head} ...", markup=False)
        columns = [SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn()]
        counted = [*columns, MofNCompleteColumn()] if total else columns
        bar = Progress(*counted, console=self._progress, transient=True, disable=not shown)
        with bar:
            task = bar.add_task(head, total=total)

            def advance(done: object) -> None:
                text = f"{head}: {done}" if isinstance(done, str) else head
                bar.update(task, advance=1, description=text)

            yield advance
        seconds = time.monotonic() - started
        self._progress.print(f"{head}: {seconds:.0f} s", markup=False)
