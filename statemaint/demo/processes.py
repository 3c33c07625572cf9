"""Programs that lead a process session of their own, and end with everything they started.

Such a program outlives the one that started it. It is known again by its number and the time it
began, so that a number which the system has given to another process by now is never signalled.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_POLL_SECONDS = 0.05
_PROCESSES = Path("/proc")
# Fields of /proc/PID/stat, counted after the program's name, which may itself hold blanks.
_STATE, _SESSION, _STARTED = 0, 3, 19


@dataclass(frozen=True, slots=True)
class Process:
    """A program that was started here; `started` is in clock ticks since the machine's start."""

    pid: int
    started: int


def spawn(command: Sequence[str], *, log: Path, environ: Mapping[str, str]) -> Process:
    """Starts a program in a session of its own, with exactly this environment.

    Args:
        command: the program's path and its arguments.
        log: gets all it says; replaced when it exists.
        environ: its whole environment.
    """
    # Not `subprocess.Popen`: an object of that class warns when it is dropped before its process
    # ended, and these are meant to outlive everything but their number.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    pid = os.posix_spawn(command[0], list(command), environ, file_actions=actions, setsid=True)
    return Process(pid, _started(pid) or 0)


def alive(process: Process) -> bool:
    """Tells whether the program itself still runs."""
    _take_note_of_end(process.pid)
    fields = _fields(process.pid)
    return bool(fields) and fields[_STATE] != "Z" and int(fields[_STARTED]) == process.started


def stop(processes: Iterable[Process], *, seconds: float) -> None:
    """Ends programs and everything in their sessions: asked first, killed after so long."""
    leaders = tuple(processes)
    for leader in leaders:
        if alive(leader):
            _signal(leader.pid, signal.SIGTERM)
    deadline = time.monotonic() + seconds
    while _members(leaders) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    while left := _members(leaders):
        for pid in left:
            _signal(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def _members(leaders: Sequence[Process]) -> list[int]:
    """Returns every process in the leaders' sessions, also those whose leader is gone."""
    for leader in leaders:
        _take_note_of_end(leader.pid)
    sessions = {str(leader.pid) for leader in leaders if _is_ours(leader)}
    numbers = [int(entry.name) for entry in _PROCESSES.iterdir() if entry.name.isdecimal()]
    return [number for number in numbers if _runs_in(_fields(number), sessions)]


def _runs_in(fields: Sequence[str], sessions: set[str]) -> bool:
    return bool(fields) and fields[_STATE] != "Z" and fields[_SESSION] in sessions


def _is_ours(leader: Process) -> bool:
    # As long as its session has a member, the system gives a dead leader's number to nobody.
    return _started(leader.pid) in (None, leader.started)


def _started(pid: int) -> int | None:
    fields = _fields(pid)
    return int(fields[_STARTED]) if fields else None


def _fields(pid: int) -> Sequence[str]:
    try:
        stat = (_PROCESSES / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    return stat.rpartition(")")[2].split()


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _take_note_of_end(pid: int) -> None:
    # A child of ours stays in the table, dead, until its end is taken note of.
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
