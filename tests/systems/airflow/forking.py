"""Pythons that have imported Airflow already: each program runs in a fork of one that did it once.

Airflow changes logging, warnings and signals of the process that it lives in, and an import of it
takes longer than what most tests let it do. A fork has what only the import did.
"""

import json
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT

_IMPORTED = ("airflow.dag_processing.dagbag", "airflow.providers.standard.operators.empty")


@dataclass(frozen=True, slots=True)
class Pythons:
    """What forks; it lives as long as its input is open."""

    parent: "subprocess.Popen[str]"
    folder: Path

    def run(
        self, arguments: Sequence[str], *, cwd: Path, environ: Mapping[str, str]
    ) -> "subprocess.CompletedProcess[str]":
        """Runs `python ARGUMENTS`, which begin with `-m` or `-c`.

        Args:
            arguments: Python's.
            cwd: the folder it runs in.
            environ: its whole environment; Airflow's home is another one from the first import on.
        """
        asked = {"arguments": arguments, "cwd": str(cwd), "environ": dict(environ)}
        assert self.parent.stdin is not None
        assert self.parent.stdout is not None
        print(json.dumps(asked), file=self.parent.stdin, flush=True)
        code = int(self.parent.stdout.readline())
        said = [(self.folder / name).read_text(encoding="utf-8") for name in ("out", "err")]
        return subprocess.CompletedProcess([*arguments], code, *said)


@contextmanager
def forking_pythons(folder: Path) -> Iterator[Pythons]:
    """Has Airflow imported for the length of a `with` block.

    Args:
        folder: an empty one, for Airflow's home and for what the programs print.
    """
    known = ("PATH", "LANG", "LC_ALL", "TMPDIR")
    environ = {name: os.environ[name] for name in known if name in os.environ}
    with subprocess.Popen(
        [sys.executable, "-m", __name__, str(folder)],
        env={**environ, "AIRFLOW_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        yield Pythons(parent, folder)
        assert parent.stdin is not None
        parent.stdin.close()


def main(folder: Path) -> None:
    """Forks for each line of the input, and prints how each fork ended."""
    answers = os.fdopen(os.dup(1), "w")
    _redirect(folder)
    for name in _IMPORTED:
        __import__(name)
    for line in sys.stdin:
        _redirect(folder)
        child = os.fork()
        if child == 0:
            os._exit(_ended(**json.loads(line)))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)
    os._exit(0)


def _redirect(folder: Path) -> None:
    """Has what is printed from now on, by this process and its forks, in new files."""
    for number, name in ((1, "out"), (2, "err")):
        file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, number)
        os.close(file)


def _ended(arguments: Sequence[str], cwd: str, environ: Mapping[str, str]) -> int:
    """Runs a program as Python's own command line does, and returns its exit code."""
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(cwd)
    kind, program, *rest = arguments
    sys.argv = [program if kind == "-m" else kind, *rest]
    try:
        if kind == "-m":
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            names: dict[str, Any] = {"__name__": "__main__"}
            exec(program, names)  # noqa: S102 -- of the tests
    except SystemExit as ended:
        if isinstance(ended.code, int | None):
            return ended.code or 0
        print(ended.code, file=sys.stderr)  # noqa: T201 -- as Python does
        return 1
    except BaseException:  # noqa: BLE001 -- as Python does at its outermost
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


if __name__ == "__main__":
    main(Path(sys.argv[1]))
