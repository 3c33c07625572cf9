"""What the processes of a run have used: seconds of the processor and memory, by their kinds."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

import psutil

DRIVER, DRIVER_JVM, EXECUTOR, WORKER = "driver", "driver's JVM", "executors' JVMs", "workers"
KINDS = (DRIVER, DRIVER_JVM, EXECUTOR, WORKER)
_OF_CLUSTER = ("deploy.worker.Worker", "deploy.master.Master", "CoarseGrainedExecutorBackend")


@dataclass(frozen=True, slots=True)
class Usage:
    """What has been used.

    Attributes:
        cpu: seconds of the processor, by kind of process.
        peak: the most memory that the processes of a kind had resident, in MiB: the sum for the
            driver's, the largest of the others'.
    """

    cpu: Mapping[str, float]
    peak: Mapping[str, float]

    @property
    def all(self) -> float:
        """Returns the seconds of all processes."""
        return sum(self.cpu.values())

    @property
    def driver(self) -> float:
        """Returns the most memory of the driver: its Python and its JVM."""
        return self.peak[DRIVER] + self.peak[DRIVER_JVM]


@contextmanager
def watched(roots: Sequence[int]) -> Iterator[Callable[[], Usage]]:
    """Watches processes and their descendants, of which the first is the driver.

    Yields a function that returns what they have used in the block, once it has ended. They are
    looked at every half a second: Spark ends workers that were idle, and their seconds with them.
    """
    _forget_peaks(roots)
    watch, ended = _Watch(roots), Event()

    def work() -> None:
        while not ended.wait(0.5):
            watch.look()

    thread = Thread(target=work, daemon=True)
    thread.start()
    try:
        yield watch.usage
    finally:
        ended.set()
        thread.join()
        watch.look()


class _Seen(NamedTuple):
    kind: str
    began: float  # its seconds when the block began
    cpu: float
    peak: float


class _Watch:
    def __init__(self, roots: Sequence[int]) -> None:
        self._roots = roots
        self._seen: dict[int, _Seen] = {}
        self.look()
        self._seen = {pid: one._replace(began=one.cpu) for pid, one in self._seen.items()}

    def look(self) -> None:
        for one in _family(self._roots):
            with suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
                kind, times, peak = kind_of(one.cmdline()), one.cpu_times(), _peak(one.pid)
                before = self._seen.get(one.pid, _Seen(kind, 0.0, 0.0, 0.0))
                cpu = times.user + times.system
                self._seen[one.pid] = _Seen(kind, before.began, cpu, max(peak, before.peak))

    def usage(self) -> Usage:
        cpu: dict[str, float] = dict.fromkeys(KINDS, 0.0)
        peaks: dict[str, list[float]] = defaultdict(list)
        for one in self._seen.values():
            cpu[one.kind] += one.cpu - one.began
            peaks[one.kind].append(one.peak)
        return Usage(cpu, {kind: max(peaks[kind], default=0.0) for kind in KINDS})


def _forget_peaks(roots: Iterable[int]) -> None:
    """Has the peak of every process begin with what it has resident now."""
    for one in _family(roots):
        with suppress(OSError):
            Path(f"/proc/{one.pid}/clear_refs").write_text("5")


def kind_of(command: Iterable[str]) -> str:
    """Returns the kind of a process by its command line."""
    words = list(command)
    if words and words[0].endswith("java"):
        return (
            EXECUTOR if any(name in word for word in words for name in _OF_CLUSTER) else DRIVER_JVM
        )
    return (
        WORKER
        if any("pyspark.daemon" in word or "pyspark/daemon" in word for word in words)
        else DRIVER
    )


def _family(roots: Iterable[int]) -> Iterator[psutil.Process]:
    for root in roots:
        with suppress(psutil.NoSuchProcess):
            yield psutil.Process(root)
            yield from psutil.Process(root).children(recursive=True)


def _peak(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next((line for line in status.splitlines() if line.startswith("VmHWM:")), "VmHWM: 0 kB")
    return int(line.split()[1]) / 1024
