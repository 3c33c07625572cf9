"""Processes of their own: their memory and CPU. Imports nothing that would count as theirs."""

import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT


def peak_mib() -> float:
    """Returns the most memory that this process had resident at once.

    Not `ru_maxrss`, which a new process inherits from the one that started it.
    """
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def in_child(work: str, root: Path, version: int) -> Any:
    """Does one of `child.WORK` in a process of its own, and returns what that tells."""
    command = [sys.executable, "-m", "tests.benchmarks.child", work, str(root), str(version)]
    return json.loads(_run(command).splitlines()[-1])


def run_module(module: str, *args: str) -> str:
    """Runs a module in a process of its own, and returns the last line that it prints."""
    return _run([sys.executable, "-m", module, *args]).splitlines()[-1]


def cpu_of(command: Sequence[str], given: str = "") -> tuple[float, str]:
    """Runs a program to its end, and returns its CPU seconds and what it prints."""
    before = _children_cpu()
    printed = _run(command, given)
    return _children_cpu() - before, printed


def _run(command: Sequence[str], given: str = "") -> str:
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, input=given, text=True, cwd=ROOT
    )
    return done.stdout


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
