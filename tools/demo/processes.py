"""Programs that lead their own process session, and end with everything they started.

Such a program outlives the one that started it. It is identified by its number and its start time,
so that a number that the system has since given to another process is never signalled.
"""

import contextlib
import json
import os
import random
import signal
import socket
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

_POLL_SECONDS = 0.1
_LOG_CHARACTERS = 2000
_PORTS = (20_000, 32_768)
"""Linux chooses from 32768 on (`net.ipv4.ip_local_port_range`), macOS from 49152 on."""


@dataclass(frozen=True, slots=True)
class Process:
    """A program started by this module; `started` is in seconds since the machine's start."""

    pid: int
    started: float


def spawn(command: Sequence[str], *, log: Path, environ: Mapping[str, str]) -> Process:
    """Starts a program in its own session, with exactly this environment; replaces its log."""
    # Not `subprocess.Popen`: such an object warns when it is dropped before its process has ended,
    # and only the number of these processes is kept.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    pid = os.posix_spawn(command[0], list(command), environ, file_actions=actions, setsid=True)
    return Process(pid, _started(psutil.Process(pid)))


def alive(process: Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        running = psutil.Process(process.pid)
        return _started(running) == process.started and not _ended(running)
    return False


def wait_until(
    holds: Callable[[], bool], *, seconds: float, needed: Collection[Process] = ()
) -> bool:
    """Waits for a condition that needs some programs to run; false if it is in vain."""
    deadline = time.monotonic() + seconds
    while not (held := holds()) and all(map(alive, needed)) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return held and all(map(alive, needed))


def stop(processes: Iterable[Process], *, seconds: float) -> None:
    """Ends programs and everything in their sessions: with SIGTERM first, later with SIGKILL."""
    leaders = tuple(processes)
    numbers = {leader.pid for leader in leaders}
    _signal([member for member in _members(leaders) if member.pid in numbers], signal.SIGTERM)
    wait_until(lambda: not _members(leaders), seconds=seconds)
    while members := _members(leaders):
        _signal(members, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def write_note(file: Path, processes: Mapping[str, Process]) -> None:
    """Writes the running programs to a note, by name, so that any other program can end them."""
    content = {name: asdict(process) for name, process in processes.items()}
    file.write_text(json.dumps(content), encoding="utf-8")


def stop_noted(file: Path, *, seconds: float) -> None:
    """Ends the programs in a note, as `stop` does, and removes it; does nothing without a note."""
    if file.exists():
        noted = json.loads(file.read_text(encoding="utf-8"))
        stop((Process(**process) for process in noted.values()), seconds=seconds)
        file.unlink()


def end_of(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-_LOG_CHARACTERS:]


def free_port(wanted: int = 0) -> int:
    """Returns a free port on 127.0.0.1: the wanted one if it is free, otherwise a random one.

    A random one lies below the range from which the system serves programs that let it choose, so
    that none of them takes it before our program does.
    """
    port = wanted
    while not (port and _is_free(port)):
        port = random.SystemRandom().randrange(*_PORTS)
    return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
        return True
    return False


def _members(leaders: Sequence[Process]) -> list[psutil.Process]:
    """Returns all processes in the leaders' sessions, even if the leader has ended."""
    sessions = {leader.pid for leader in leaders if _is_ours(leader)}
    members = []
    for pid in psutil.pids():
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            member = psutil.Process(pid)
            if os.getsid(pid) in sessions and not _ended(member):
                members.append(member)
    return members


def _is_ours(leader: Process) -> bool:
    try:
        return _started(psutil.Process(leader.pid)) == leader.started
    except psutil.NoSuchProcess:
        # The system does not reuse a dead leader's number as long as its session has a member.
        return True


def _started(process: psutil.Process) -> float:
    # Both are times of day that move when the clock is set; their difference does not.
    return float(round(process.create_time() - psutil.boot_time(), 2))


def _ended(process: psutil.Process) -> bool:
    # A dead process stays in the table until its parent waits for it: we do, for our own children.
    try:
        process.wait(timeout=0)
    except psutil.TimeoutExpired:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    return True


def _signal(processes: Iterable[psutil.Process], number: int) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)
