"""Makes the mutants, has the type checker and the tests try them, and remembers what they saw.

mutmut makes them and knows which are of functions that changed since; the type checker
(`mypy.ini`) notices what could never be merged, and `tests.mutation.forks` runs the tests against
the rest.
"""

import bisect
import fnmatch
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT

PACKAGES = ("plan", "model", "codec", "execute", "records", "undo", "recover")
_MUTANTS = ROOT / "mutants"
_PLACE = _MUTANTS / "run"
_LEFT = {None, 0, 33}  # mutmut's exit codes of what nobody noticed
_TYPES = 37  # and of what a type checker found
# What starts programs is not seen calling a function, and the faces are far from these packages.
_FOLDERS = ("audit", "codec", "execute", "fold", "maintain", "model", "plan", "provider", "records",
            "recover", "scan", "state", "storage", "undo")  # fmt: skip
_LONG = "tests/property/test_healthy.py"  # minutes, and it sees all of the code at once
_SELECTION = (
    "-m", "not long", f"--ignore={_LONG}", *(f"tests/unit/{one}" for one in _FOLDERS),
    "tests/property",
)  # fmt: skip


def run(patterns: tuple[str, ...], *, children: int, seconds: float, fresh: bool) -> None:
    """Tries what was not noticed yet, or all where it is to begin anew.

    Args:
        patterns: of names; all by default.
        children: processes at a time.
        seconds: of tests for one mutant.
        fresh: forget what an earlier run saw.

    Raises:
        subprocess.CalledProcessError: when the tests cannot be run.
    """
    if fresh:
        shutil.rmtree(_MUTANTS, ignore_errors=True)
    _generate(children)
    _PLACE.mkdir(exist_ok=True)
    _record(dict.fromkeys(_refused(), _TYPES))
    left = [name for name, code in _codes() if code in _LEFT and _matches(name, patterns)]
    work = {"mutants": left, "children": children, "seconds": seconds}
    (_PLACE / "work.json").write_text(json.dumps(work))
    earlier = len(_results())
    try:
        _test()
    finally:
        _record({name: code for name, code, *_ in _results()[earlier:]})


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return not patterns or any(fnmatch.fnmatch(name, one) for one in patterns)


def _generate(children: int) -> None:
    """Makes the mutants, in a process of its own: mutmut turns `sys.path` round."""
    program = (
        "from mutmut.__main__ import *\n"
        "from tests.mutation import messages; messages.leave()\n"
        "import os; os.makedirs('mutants', exist_ok=True)\n"
        "copy_src_dir(); copy_also_copy_files()\n"
        f"print(create_mutants({children}))\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def _codes() -> Iterator[tuple[str, int | None]]:
    for meta in sorted(_MUTANTS.glob("statemaint/**/*.meta")):
        yield from json.loads(meta.read_text())["exit_code_by_key"].items()


def _record(codes: dict[str, int]) -> None:
    for path in _MUTANTS.glob("statemaint/**/*.meta"):
        meta = json.loads(path.read_text())
        known = meta["exit_code_by_key"]
        known.update({name: codes[name] for name in known if name in codes})
        path.write_text(json.dumps(meta))


def _results() -> list[list[Any]]:
    told = _PLACE / "results.jsonl"
    return [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else []


def _test() -> None:
    """Runs `tests.mutation.forks` in the folder of the mutants."""
    environment = {name: value for name, value in os.environ.items() if name != "CI"} | {
        "HYPOTHESIS_PROFILE": "mutation",
        "PYTHONPATH": str(_MUTANTS),
        "STATEMAINT_MUTATION": str(_PLACE),
    }
    command = (sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider")
    plugin = ("-p", "tests.mutation.forks", "--tb=native", "--assert=plain")  # nobody reads them
    subprocess.run([*command, *plugin, *_SELECTION], cwd=_MUTANTS, env=environment, check=True)


# -- what a type checker notices


def _refused() -> set[str]:
    """Returns the mutants that the type checker refuses, where it accepts the function itself."""
    names = set()
    for path, line in _type_errors():
        if function := _function_at(path, line):
            names.add(f"{path.removesuffix('.py').replace('/', '.')}.{function}")
    return {one for one in names if f"{one.rpartition('__')[0]}__mutmut_orig" not in names}


def _type_errors() -> Iterator[tuple[str, int]]:
    config = str(Path(__file__).with_name("mypy.ini"))
    packages = [f"statemaint/{name}" for name in PACKAGES]
    command = [sys.executable, "-m", "mypy", "--config-file", config, "--output", "json"]
    found = subprocess.run(
        [*command, *packages], cwd=_MUTANTS, capture_output=True, text=True, check=False
    )
    for line in filter(str.strip, found.stdout.splitlines()):
        error = json.loads(line)
        if error["severity"] == "error":
            yield error["file"], error["line"]


def _function_at(path: str, line: int) -> str | None:
    found = _functions(path)
    place = bisect.bisect(found, (line, sys.maxsize, "")) - 1
    return found[place][2] if place >= 0 and line <= found[place][1] else None


@cache
def _functions(path: str) -> list[tuple[int, int, str]]:
    spans = _MUTANTS / f"{path}.spans"
    found = json.loads(spans.read_text())["spans"] if spans.exists() else {}
    return sorted((first, last, name) for name, (first, last) in found.items())
