"""Every verb on one tree, as a person would run it: how it ends, how long and how much it takes."""

import json
import os
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, replace
from io import StringIO
from itertools import pairwise
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from statemaint.cli import main
from tests.hostile.trees import grow, outside_of
from tests.support.outside import changes, facts

# Of a processor: by the clock, a machine that does other things as well takes longer.
MOST_SECONDS = 10
MOST_MEMORY = 500 << 20
# By the clock: what waits this long for a pipe or a lock waits forever.
HANGS_SECONDS = 120
_FAULT = 1
_LOOK = 0.002
_TIGHT = (
    "--min-deltas-for-snapshot=2", "--min-batches-to-retain=2", "--grace=0s",
    "--max-deletes-per-run=50",
)  # fmt: skip
_PLAN, _NEWEST = "PLAN.json", "NEWEST"
_WHOLE = ("verify", "--deep")
_SAVEPOINT = ("savepoint", "DEST", "--dry-run")
_HALTED = 3
VERBS = (
    ("scan",), ("scan", "--json"), ("plan", *_TIGHT), ("plan", *_TIGHT, "--json"), ("runs",),
    ("verify",), ("verify", "--deep"), ("verify", "--sample=1/2", "--json"), ("doctor",),
    ("doctor", "--deep"), ("digest",), ("show", "--limit=3"), ("show", "--json", "--limit=3"),
    ("diff", "--limit=3"), ("stats",), ("pin", "--batch=5", "--for=1h"), ("pins",),
    ("pins", "--json"), ("repair",), ("rollback", "--to-batch=5"), _SAVEPOINT,
    ("apply", _PLAN), _WHOLE, ("maintain", *_TIGHT), ("repair", "--apply"), ("undo", "first"),
    _WHOLE, ("maintain", *_TIGHT, "--trash-for=1h"), ("undo", _NEWEST),
    ("rollback", "--to-batch=7", "--apply"), ("undo", _NEWEST), ("verify", "--json"),
    ("savepoints", "--json"), ("savepoints", "--keep=last=1", "--delete"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ran:
    """One verb on one tree.

    Attributes:
        verb: the command line, without the address.
        code: its exit code.
        seconds: of a processor.
        memory: the most that the process had meanwhile, in bytes.
        last: the last line of what it said of an error, or where it was when it was stopped.
        stopped: whether it was, since it took too long.
        outside: what it changed outside the checkpoint.
    """

    verb: str
    code: int
    seconds: float
    memory: int
    last: str
    stopped: bool = False
    outside: tuple[str, ...] = ()

    @property
    def broken(self) -> str:
        """Returns which rule it broke; nothing where it behaved."""
        if self.stopped or self.seconds > MOST_SECONDS:
            return f"took {self.seconds:.1f} s: {self.last}"
        if self.memory > MOST_MEMORY:
            return f"took {self.memory >> 20} MiB: {self.last}"
        if self.outside:
            return f"changed {', '.join(self.outside)} outside the checkpoint"
        return f"exit {self.code}: {self.last}" if self.code == _FAULT else ""


@dataclass(frozen=True, slots=True)
class Played:
    """All verbs on one tree.

    Attributes:
        seed: of the tree.
        tree: what is strange in it.
        runs: the verbs.
        lost: why not all of them are there; nothing where they are.
        commit: of the code that ran, where that is known.
    """

    seed: int
    tree: tuple[str, ...]
    runs: tuple[Ran, ...]
    lost: str = ""
    commit: str = ""

    @property
    def broken(self) -> tuple[str, ...]:
        """Returns the rules that were broken, each with the verb."""
        found = tuple(f"{one.verb}: {one.broken}" for one in self.runs if one.broken)
        found += tuple(
            f"{run.verb}: halts what verify called healthy: {run.last}"
            for before, run in pairwise(self.runs)
            if run.verb.startswith("maintain") and run.code == _HALTED
            if (before.verb, before.code) == (" ".join(_WHOLE), 0)
        )
        return (*found, self.lost) if self.lost else found

    @classmethod
    def of(cls, shown: Mapping[str, Any]) -> "Played":
        """Returns what `asdict` gave, and JSON has carried."""
        runs = tuple(Ran(**one) for one in shown["runs"])
        tree, others = tuple(shown["tree"]), (shown["lost"], shown.get("commit", ""))
        return cls(shown["seed"], tree, runs, *others)


class _TooLongError(BaseException):
    """Not to be caught by whoever guards against all errors."""


def play(healthy: Mapping[str, Mapping[str, bytes]], seed: int, *, commit: str = "") -> Played:
    """Grows a tree, and runs every verb on it in a process of its own.

    Must be called in a process that has never run RocksDB, since it forks.
    """
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        said = Path(folder) / "said"
        said.touch()
        root = Path(folder) / "checkpoint"
        root.mkdir()
        tree = tuple(grow(healthy, root, Random(seed)))  # noqa: S311 -- made again from its number
        child = os.fork()
        if not child:
            _child(root, said)
        status = _ended(child)
        runs = tuple(Ran(**json.loads(line)) for line in said.read_text().splitlines())
        lost = f"the process ended with {status}" if status else ""
        return Played(seed, tree, runs, lost, commit)


def _ended(child: int) -> int:
    """Returns how a process ended; one that hangs where no signal reaches it is killed."""
    deadline = time.monotonic() + len(VERBS) * HANGS_SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(_LOOK)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def _child(root: Path, said: Path) -> None:
    with said.open("w") as stream:
        around = facts(outside_of(root))
        for verb in VERBS:
            ran = _run(verb, root)
            ran = replace(ran, outside=tuple(changes(around, facts(outside_of(root)))))
            stream.write(f"{json.dumps(asdict(ran))}\n")
            stream.flush()
    os._exit(0)


def _run(verb: tuple[str, ...], root: Path) -> Ran:
    out = StringIO()
    arguments = _arguments(verb, root)
    _forget_peak()
    began = _processor()
    code, last, stopped = _code(arguments, out)
    seconds, memory = _processor() - began, _peak()
    if verb[0] == "plan" and "--json" in verb:
        root.with_name(_PLAN).write_text(out.getvalue())
    return Ran(" ".join(verb), code, seconds, memory, last, stopped)


def _arguments(verb: tuple[str, ...], root: Path) -> list[str]:
    if verb == ("apply", _PLAN):
        return ["apply", str(root.with_name(_PLAN))]
    arguments = [verb[0], str(root), *verb[1:]]
    places = {_NEWEST: lambda: _newest(root), "DEST": lambda: f"{root}-savepoint"}
    return [places[one]() if one in places else one for one in arguments]


def _newest(root: Path) -> str:
    """Returns the newest run with trash; any name where there is none."""
    trash = root / "_statemaint" / "trash"
    try:
        names = [one.name for one in trash.iterdir()]
    except OSError:
        return "none"
    runs = (one for one in names if re.fullmatch(r"\d{8}T\d{6}Z-\w+", one))
    return max(runs, default="none")


def _processor() -> float:
    """Returns the seconds of a processor that this process and those it has ended took."""
    times = os.times()
    return sum(times[:4])


def _forget_peak() -> None:
    """Begins to measure the most memory anew, which Linux alone can."""
    Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    """Returns the most memory that this process had since `_forget_peak`."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _code(arguments: list[str], out: StringIO) -> tuple[int, str, bool]:
    err = StringIO()
    sys.argv = ["statemaint", *arguments]
    try:
        with redirect_stdout(out), redirect_stderr(err), _limited():
            main()
    except SystemExit as end:
        return (
            int(end.code or 0),
            " ".join((err.getvalue().splitlines() or [""])[-1].split()),
            False,
        )
    except _TooLongError:
        return 0, _one_line(traceback.format_exc()[-600:]), True
    return 0, "", False


def _one_line(text: str) -> str:
    return " ".join(text.split())


@contextmanager
def _limited() -> Iterator[None]:
    def stop(_number: int, _frame: FrameType | None) -> None:
        raise _TooLongError

    signal.signal(signal.SIGALRM, stop)
    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS + 1)
    signal.alarm(HANGS_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
