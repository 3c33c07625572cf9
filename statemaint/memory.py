"""Memory: what is free, what this process has, and the part of it that work may take."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from threading import Condition

from statemaint.errors import ConfigError

VARIABLE = "STATEMAINT_MEMORY"
"""The variable with the memory of tasks, and of verbs without `--memory`."""
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([KMGT]?)(i?)B", re.ASCII)
_ROOT = Path("/")
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT, _OF_THE_SYSTEM = 16 * 1024 * 1024, 4 * 1024 * 1024


# The files of a control group: where groups are mounted, the limit, the usage with the page cache,
# and the line of `memory.stat` with the bytes that are freed when they are needed.
_V1 = (
    "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
)  # fmt: skip
_V2 = ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file")


def memory_size(text: str) -> int:
    """Returns the bytes of a size such as `512MB`, `1.5GB` or `1GiB`, which is not zero."""
    match = _SIZE.fullmatch(text.strip())
    unit = (1024 if match[3] else 1000) ** " KMGT".index(match[2] or " ") if match else 0
    size = int(float(match[1]) * unit) if match else 0
    if not size:
        raise ConfigError(f"{text!r} is not a size of memory; write it like 512MB, 1GB or 1GiB")
    return size


def memory_from(environment: Mapping[str, str]) -> int | None:
    """Returns the memory that `STATEMAINT_MEMORY` sets; `None` if it is not set."""
    text = environment.get(VARIABLE)
    try:
        return memory_size(text) if text else None
    except ConfigError as error:
        raise ConfigError(f"{VARIABLE}: {error}") from None


def available_memory(root: Path = _ROOT) -> int:
    """Returns the bytes that this process may still take.

    That is the least of the machine's available memory (`MemAvailable`; all memory if the system
    does not report it) and that of each control group above the process, of either version.
    """
    return max(0, min([_of_machine(root), *_of_groups(root)]))


def resident_memory() -> int:
    """Returns the resident bytes of this process; the peak so far if only that is known."""
    statm = _text(_ROOT / "proc/self/statm").split()
    if len(statm) > 1:
        return int(statm[1]) * os.sysconf("SC_PAGE_SIZE")
    return getrusage(RUSAGE_SELF).ru_maxrss  # of a system without /proc: bytes


def keep_freed_memory() -> None:
    """Has the C library keep up to 16 MiB that a thread has freed for its next allocation.

    Every fold needs a few buffers of up to a megabyte. Returned and allocated again for each file,
    they cost a seventh of the processor's time, in the system, where threads wait for each other.
    Allocations of 4 MiB and more are returned immediately. The setting applies to the whole
    process, and does nothing if the C library is not glibc.
    """
    import ctypes  # noqa: PLC0415 -- only verbs that fold pay for it

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, _KEPT)
        mallopt(_M_MMAP_THRESHOLD, _OF_THE_SYSTEM)


class Budget:
    """Memory that threads share; a thread waits until its part is free.

    It is measured before the first part of it is held: most runs have too little to do for that.
    """

    def __init__(self, total: int | Callable[[], int]) -> None:
        self._total = total
        self._held = 0
        self._freed = Condition()

    @property
    def total(self) -> int:
        with self._freed:
            if callable(self._total):
                self._total = self._total()
            return self._total

    @contextmanager
    def hold(self, need: int) -> Iterator[None]:
        """Holds some bytes in the block; more than the total once nothing else is held."""
        if not need:
            yield
            return
        total = self.total
        part = min(need, total)
        with self._freed:
            self._freed.wait_for(lambda: self._held + part <= total)
            self._held += part
        try:
            yield
        finally:
            with self._freed:
                self._held -= part
                self._freed.notify_all()


def _of_machine(root: Path) -> int:
    match = re.search(r"^MemAvailable: *(\d+) kB$", _text(root / "proc/meminfo"), re.MULTILINE)
    if match:
        return int(match[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _of_groups(root: Path) -> Iterator[int]:
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if "memory" in controllers.split(","):
            yield from _available(root, _V1, path)
        elif not controllers:
            yield from _available(root, _V2, path)


def _available(root: Path, files: tuple[str, str, str, str], path: str) -> Iterator[int]:
    """Yields the free bytes of a group and of each group above; a container hides some groups."""
    mount, limit_file, usage_file, cache_line = files
    parts = [part for part in path.split("/") if part]
    for depth in range(len(parts), -1, -1):
        folder = root.joinpath(mount, *parts[:depth])
        limit, usage = (_text(folder / file).strip() for file in (limit_file, usage_file))
        if limit.isdecimal() and usage.isdecimal():  # `max` is no limit
            stat = _text(folder / "memory.stat")
            cache = re.search(rf"^{cache_line} (\d+)$", stat, re.MULTILINE)
            yield int(limit) - int(usage) + (int(cache[1]) if cache else 0)


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
