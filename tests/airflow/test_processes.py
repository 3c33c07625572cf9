import os
import signal
import sys
import time
from pathlib import Path

from statemaint.demo.processes import Process, alive, spawn, stop

# Starts a child in a process group of its own that ignores being asked, as tasks may.
FAMILY = """
import os, signal, time
if os.fork() == 0:
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(os.getpid(), flush=True)
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
    assert not _runs(child)


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


def test_the_environment_is_exactly_the_given_one(tmp_path: Path) -> None:
    program = "import os; print(sorted(set(os.environ) - {'LC_CTYPE'}))"
    leader = spawn([sys.executable, "-c", program], log=tmp_path / "log", environ={"ONLY": "this"})
    assert wait_for_text(tmp_path / "log") == "['ONLY']"
    stop([leader], seconds=5)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    return state != "Z"
