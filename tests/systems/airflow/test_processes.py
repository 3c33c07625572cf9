import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil

from tests.support.paths import ROOT
from tools.demo.processes import (
    Process,
    alive,
    free_port,
    spawn,
    stop,
    stop_noted,
    wait_until,
    write_note,
)

# Starts a child in a process group of its own that ignores being asked, as tasks may.
FAMILY = """
import os, signal, time
if os.fork() == 0:
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(os.getpid(), flush=True)
time.sleep(60)
"""

POLITE = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit("asked"))
print("ready", flush=True)
time.sleep(60)
"""

# Starts a program, and stays without ever waiting for it.
STARTER = """
import dataclasses, json, pathlib, sys, time
from tools.demo.processes import spawn, write_note
note = pathlib.Path(sys.argv[1])
process = spawn(["/bin/sleep", "60"], log=note.with_name("log"), environ={})
write_note(note, {"sleep": process})
print(json.dumps(dataclasses.asdict(process)), flush=True)
time.sleep(60)
"""


def spawned(folder: Path, program: str) -> Process:
    return spawn([sys.executable, "-c", program], log=folder / "log", environ=dict(os.environ))


def wait_for_text(file: Path) -> str:
    deadline = time.monotonic() + 10
    while not (text := file.read_text(encoding="utf-8").strip()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return text


def test_a_program_ends_with_everything_in_its_session(tmp_path: Path) -> None:
    leader = spawned(tmp_path, FAMILY)
    child = int(wait_for_text(tmp_path / "log"))
    stop([leader], seconds=0.5)
    assert not alive(leader)
    assert not psutil.pid_exists(leader.pid)
    assert not _runs(child)


def test_a_program_is_asked_before_it_is_killed(tmp_path: Path) -> None:
    leader = spawned(tmp_path, POLITE)
    assert wait_for_text(tmp_path / "log") == "ready"
    stop([leader], seconds=30)
    assert (tmp_path / "log").read_text(encoding="utf-8").split() == ["ready", "asked"]


def test_what_is_left_of_a_dead_program_is_ended_too(tmp_path: Path) -> None:
    leader = spawned(tmp_path, FAMILY)
    child = int(wait_for_text(tmp_path / "log"))
    os.kill(leader.pid, signal.SIGKILL)
    while alive(leader):
        time.sleep(0.02)
    stop([leader], seconds=0.5)
    assert not _runs(child)


def test_a_program_that_ended_is_not_alive_and_ending_it_again_is_fine(tmp_path: Path) -> None:
    leader = spawned(tmp_path, "pass")
    deadline = time.monotonic() + 10
    while alive(leader) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(leader)
    stop([leader], seconds=0.1)


def test_a_number_that_belongs_to_another_process_by_now_is_left_alone(tmp_path: Path) -> None:
    other = spawned(tmp_path, "import time; time.sleep(60)")
    stop([Process(other.pid, other.started - 1)], seconds=0.2)
    assert alive(other)
    stop([other], seconds=5)


def test_the_end_of_another_child_that_got_the_number_is_left_for_its_starter() -> None:
    with subprocess.Popen(["true"]) as other:
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        stop([Process(other.pid, started=0.0)], seconds=0)
        assert not alive(Process(other.pid, started=0.0))
        assert os.waitpid(other.pid, os.WNOHANG)[0] == other.pid


def test_what_a_note_names_is_ended_once(tmp_path: Path) -> None:
    note = tmp_path / "note.json"
    both = {name: spawned(tmp_path, "import time; time.sleep(60)") for name in ("one", "two")}
    write_note(note, both)
    stop_noted(note, seconds=5)
    assert not any(map(alive, both.values()))
    assert not note.exists()
    stop_noted(note, seconds=5)


def test_a_program_ends_although_its_starter_lives_on_and_takes_no_note(tmp_path: Path) -> None:
    note = tmp_path / "note.json"
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, str(note)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as starter:
        try:
            assert starter.stdout is not None
            started = Process(**json.loads(starter.stdout.readline()))
            assert alive(started)
            stop_noted(note, seconds=5)
            assert not alive(started)
            assert psutil.Process(started.pid).status() == psutil.STATUS_ZOMBIE
        finally:
            starter.kill()


def test_waiting_ends_when_it_holds_when_time_is_up_or_when_a_needed_program_ended(
    tmp_path: Path,
) -> None:
    running, ended = spawned(tmp_path, "import time; time.sleep(60)"), spawned(tmp_path, "")
    began = time.monotonic()
    assert wait_until(lambda: not alive(ended), seconds=60, needed=[running])
    assert not wait_until(lambda: False, seconds=60, needed=[running, ended])
    assert not wait_until(lambda: True, seconds=60, needed=[ended])
    assert not wait_until(lambda: False, seconds=0.2, needed=[running])
    assert time.monotonic() - began < 10
    stop([running], seconds=5)


def test_the_environment_is_exactly_the_given_one(tmp_path: Path) -> None:
    program = "import os; print(sorted(set(os.environ) - {'LC_CTYPE'}))"
    leader = spawn([sys.executable, "-c", program], log=tmp_path / "log", environ={"ONLY": "this"})
    assert wait_for_text(tmp_path / "log") == "['ONLY']"
    stop([leader], seconds=5)


def _runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_a_port_that_is_taken_is_not_given() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        assert free_port(taken) != taken
    assert free_port(taken) == taken


def test_a_free_port_is_none_that_the_system_gives_to_programs_that_let_it_choose() -> None:
    chosen = {free_port() for _ in range(20)}
    assert len(chosen) > 1
    assert max(chosen) < 32768
