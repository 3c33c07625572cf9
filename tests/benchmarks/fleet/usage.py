"""What the processes of a run have used: seconds of the processor and memory, by their kinds."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

DRIVER, DRIVER_JVM, EXECUTOR, WORKER = "driver", "driver's JVM", "executors' JVMs", "workers"
KINDS = (DRIVER, DRIVER_JVM, EXECUTOR, WORKER)
_OF_CLUSTER = ("deploy.worker.Worker", "deploy.master.Master", "CoarseGrainedExecutorBackend")


@dataclass(frozen=True, slots=True)
class Usage:
    """What has been used since the processes began.

    Attributes:
        cpu: seconds of the processor, by kind of process, ended children included.
        peak: the most memory that the processes of a kind had resident, in MiB: the sum for the
            driver's, the largest of the others'.
    """

    cpu: Mapping[str, float]
    peak: Mapping[str, float]

    def since(self, before: "Usage") -> "Usage":
        """Returns what has been used since an earlier look; the peaks are those of this one."""
        cpu = {kind: self.cpu[kind] - before.cpu[kind] for kind in KINDS}
        return Usage(cpu, self.peak)

    @property
    def all(self) -> float:
        """Returns the seconds of all processes."""
        return sum(self.cpu.values())

    @property
    def driver(self) -> float:
        """Returns the most memory of the driver: its Python and its JVM."""
        return self.peak[DRIVER] + self.peak[DRIVER_JVM]


def used(roots: Iterable[int]) -> Usage:
    """Returns what processes and their descendants have used; the first one is the driver."""
    cpu: dict[str, float] = dict.fromkeys(KINDS, 0.0)
    peaks: dict[str, list[float]] = defaultdict(list)
    for one in _family(roots):
        with suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            kind, times = kind_of(one.cmdline()), one.cpu_times()
            cpu[kind] += times.user + times.system + times.children_user + times.children_system
            peaks[kind].append(_peak(one.pid))
    return Usage(cpu, {kind: max(peaks[kind], default=0.0) for kind in KINDS})


def forget_peaks(roots: Iterable[int]) -> None:
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
