"""Every verb on one tree, as a person would run it: how it ends, how long and how much it takes."""

import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from random import Random

from statemaint.cli import main
from tests.hostile.trees import grow

MOST_SECONDS = 10
MOST_MEMORY = 500 << 20
_FAULT = 1
_LOOK = 0.002
_TIGHT = (
    "--min-deltas-for-snapshot=2", "--min-batches-to-retain=2", "--grace=0s",
    "--max-deletes-per-run=50",
)  # fmt: skip
VERBS = (
    ("scan",), ("plan", *_TIGHT), ("runs",), ("verify",), ("verify", "--deep"), ("doctor",),
    ("doctor", "--deep"), ("digest",), ("show", "--limit=3"), ("stats",), ("repair",),
    ("rollback", "--to-batch=5"), ("maintain", *_TIGHT), ("repair", "--apply"),
    ("undo", "first"), ("maintain", *_TIGHT, "--trash-for=1h"),
    ("rollback", "--to-batch=7", "--apply"), ("verify",),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Broken:
    """A verb that did what no tree may make it do.

    Attributes:
        seed: of the tree.
        tree: what is strange in it.
        verb: the command line.
        what: it did.
    """

    seed: int
    tree: tuple[str, ...]
    verb: str
    what: str


class _TooLongError(BaseException):
    """Not to be caught by whoever guards against all errors."""


def play(healthy: Mapping[str, Mapping[str, bytes]], seed: int) -> list[Broken]:
    """Grows a tree, and runs every verb on it in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        said = Path(folder) / "said"
        root = Path(folder) / "checkpoint"
        root.mkdir()
        tree = tuple(grow(healthy, root, Random(seed)))  # noqa: S311 -- made again from its number
        child = os.fork()
        if not child:
            _child(root, said)
        status = _ended(child)
        found = [line.split("\t", 1) for line in said.read_text().splitlines()]
        if status:
            found.append(["?", f"the process ended with {status}"])
        return [Broken(seed, tree, verb, what) for verb, what in found]


def _ended(child: int) -> int:
    """Returns how a process ended; one that hangs where no signal reaches it is killed."""
    deadline = time.monotonic() + len(VERBS) * MOST_SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(_LOOK)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def _child(root: Path, said: Path) -> None:
    with said.open("w") as stream:
        for verb in VERBS:
            if what := _run(verb, root):
                one_line = " ".join(what.split())
                stream.write(f"{' '.join(verb)}\t{one_line}\n")
                stream.flush()
    os._exit(0)


def _run(verb: tuple[str, ...], root: Path) -> str:
    """Returns what a verb did that it may not, nothing where it behaved."""
    before, began = _memory(), time.monotonic()
    code, last = _code([verb[0], str(root), *verb[1:]])
    seconds, grown = time.monotonic() - began, _memory() - before
    if seconds > MOST_SECONDS:
        return f"took {seconds:.1f} s: {last}"
    if grown > MOST_MEMORY:
        return f"took {grown >> 20} MiB"
    return f"exit {code}: {last}" if code == _FAULT else ""


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _code(arguments: list[str]) -> tuple[int, str]:
    out, err = StringIO(), StringIO()
    sys.argv = ["statemaint", *arguments]
    try:
        with redirect_stdout(out), redirect_stderr(err), _limited():
            main()
    except SystemExit as end:
        return int(end.code or 0), (err.getvalue().splitlines() or [""])[-1]
    except _TooLongError:
        return 0, traceback.format_exc()[-600:]
    return 0, ""


@contextmanager
def _limited() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise _TooLongError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(MOST_SECONDS + 1)
    try:
        yield
    finally:
        signal.alarm(0)
