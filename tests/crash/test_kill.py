"""SIGKILL between any two steps, on a real disk, then the same run again."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

from statemaint.audit import verify
from statemaint.maintain import maintain
from statemaint.storage import LocalStorage
from tests.support.checkpoints import write_checkpoint
from tests.support.killed import HOLDER, TIGHT
from tests.support.paths import ROOT


def run(checkpoint: Path, point: int) -> int:
    command = [sys.executable, "-m", "tests.support.killed", str(checkpoint), str(point)]
    return subprocess.run(command, cwd=ROOT, check=False, stdin=subprocess.DEVNULL).returncode


def state_files(checkpoint: Path) -> set[str]:
    found = (entry.path for entry in LocalStorage(checkpoint).list("state"))
    return {path for path in found if not path.endswith(".tmp")}


def test_killed_anywhere_the_next_run_converges(tmp_path: Path) -> None:
    template = tmp_path / "template"
    template.mkdir()
    write_checkpoint(LocalStorage(template), last=10, batches=range(5, 10), partitions=1)
    goal: set[str] | None = None
    for point in range(100):
        checkpoint = tmp_path / str(point)
        shutil.copytree(template, checkpoint)
        code = run(checkpoint, point)
        assert verify(LocalStorage(checkpoint), deep=True).healthy
        # As Airflow tries a task again: it is given the lease of its run, and goes on.
        report = maintain(LocalStorage(checkpoint), TIGHT, run="killed", holder=HOLDER)
        assert report.exit_code == 0
        assert maintain(LocalStorage(checkpoint), TIGHT).plan.actions == ()
        assert verify(LocalStorage(checkpoint), deep=True).healthy
        goal = goal or state_files(checkpoint)
        assert state_files(checkpoint) == goal
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert point >= 16  # 4 writes of 2 points, 3 appends, 5 deletions
