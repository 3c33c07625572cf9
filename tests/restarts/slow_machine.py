"""A second, slower machine for the forecast: one core, and a disk that reads 50 MB/s.

The kernel's control groups slow the disk down, so it takes root, and the files must not be in the
page cache.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.demo.processes import wait_until

RATE = 50_000_000
_V1, _V2 = Path("/sys/fs/cgroup/blkio"), Path("/sys/fs/cgroup")
_NAME = "statemaint-restarts"


@contextmanager
def slow_machine(place: Path) -> Iterator[list[str]]:
    """Yields what a command begins with to run on one core, with a slow disk for a folder."""
    device = place.stat().st_dev
    disk = f"{os.major(device)}:{os.minor(device)}"
    if _V1.is_dir():
        group, limit = _V1 / _NAME, {"blkio.throttle.read_bps_device": f"{disk} {RATE}"}
    else:
        (_V2 / "cgroup.subtree_control").write_text("+io")
        group, limit = _V2 / _NAME, {"io.max": f"{disk} rbps={RATE}"}
    group.mkdir(exist_ok=True)
    try:
        for name, value in limit.items():
            (group / name).write_text(value)
        join = f'echo $$ > {group}/cgroup.procs && exec taskset -c 0 "$@"'
        yield ["sh", "-c", join, "sh"]
    finally:
        # A JVM outlives its Python by a moment.
        wait_until(lambda: not (group / "cgroup.procs").read_text(), seconds=30)
        group.rmdir()


def forget(root: Path) -> None:
    """Drops the files of a folder from the page cache."""
    for path in root.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
