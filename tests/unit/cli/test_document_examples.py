"""Every example in the README and the documents works: each command, each file, each piece of code.

Commands of `--help` and docs/cli.md are run by `test_first_hour.py`, the plan in the README by
`tests/systems/spark/test_readme.py`, docs/python.md by `tests/project/test_public_names.py`, the
example DAGs by `tests/systems/airflow`. The fleet's Python and SQL need a Spark and are compiled
here alone.
"""

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from statemaint import __version__
from statemaint.queries.reading import read_queries
from tests.support.paths import ROOT
from tests.support.program import run
from tests.unit.cli.test_show import AGGREGATION, unpacked

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
# What the documents call a batch, version, key or family, and what there is to show.
_INSTEAD = {
    "--to-batch": "8", "--version": "9", "--since": "4", "--partition": "1", "--key": "k3",
    "--batch": "11", "--at": "13",
}  # fmt: skip


def blocks(*kinds: str) -> Iterator[tuple[str, str]]:
    """Yields the name of each document and the text of each of its blocks of some kinds."""
    for document in DOCUMENTS:
        for kind, text in BLOCK.findall(document.read_text()):
            if kind in kinds:
                yield document.name, text


def commands() -> Iterator[tuple[str, str]]:
    """Yields the name of each document and each command that stands behind a dollar in it."""
    for name, text in blocks("console"):
        for command in re.findall(r"^\$ (.*)$", text.replace("\\\n", " "), re.MULTILINE):
            yield name, command


PROGRAM = [(name, one) for name, one in commands() if one.startswith("statemaint ")]
OTHERS = [(name, one) for name, one in commands() if not one.startswith("statemaint ")]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Returns a folder with an aggregation, and another one of a query of column families."""
    unpacked(AGGREGATION, tmp_path / "hourly_revenue")
    unpacked("rocks-timed", tmp_path / "sessions")
    for name in ("rows", "corrected"):
        file = str(tmp_path / f"{name}.parquet")
        run("show", f"{tmp_path}/hourly_revenue", "--format", "parquet", "--output", file)
    return tmp_path


def words_of(command: str, place: Path) -> list[str]:
    words = shlex.split(command, comments=True)[1:]
    for at, word in enumerate(words):
        if words[at - 1] in _INSTEAD:
            words[at] = _INSTEAD[words[at - 1]]
        if word == "DEST" or word.startswith("s3://backup/"):
            words[at] = str(place / "backup")
        elif word.startswith("s3://trial/"):
            words[at] = str(place / word.removeprefix("s3://"))
        elif word.endswith(".parquet"):
            words[at] = str(place / word)
        elif word == "URI" or word.startswith(("/data/", "s3://")):
            words[at] = str(place) if word.endswith("checkpoints") else str(_root(word, place))
    return words


def _root(address: str, place: Path) -> Path:
    return place / ("sessions" if address.endswith("sessions") else "hourly_revenue")


@pytest.mark.parametrize(("document", "command"), PROGRAM, ids=lambda one: one[:60])
def test_every_command_of_the_program_works(
    place: Path, monkeypatch: pytest.MonkeyPatch, document: str, command: str
) -> None:
    words, root = words_of(command, place), str(place / "hourly_revenue")
    saved = {"to": f"{place}/backup/{{query}}/{{batch}}", "keep": {"last": 7}}
    queries = {"hourly_revenue": {"checkpoint": root, "savepoint": saved}}
    (place / "queries.yaml").write_text(json.dumps({"queries": queries}))
    monkeypatch.setenv("STATEMAINT_QUERIES", str(place / "queries.yaml"))
    if "ID" in words:
        pin = run("pin", root, "--batch", "11", "--for", "1h", "--json")
        words[words.index("ID")] = json.loads(pin.stdout)["id"]
    if "RUN" in words:
        run("rollback", root, "--to-batch", "9", "--apply")
        words[words.index("RUN")] = json.loads(run("runs", root, "--json").stdout)["runs"][0]["run"]
    if "completion" in words:
        words = words[:2]  # the shell's own part is not for this test
    done = run(*words)
    assert (done.returncode, document) == (0, document), done.stderr
    assert done.stdout or "--output" in words


@pytest.mark.parametrize(("document", "command"), OTHERS, ids=lambda one: one[:60])
def test_every_other_command_names_what_exists(document: str, command: str) -> None:
    targets = {*re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)}
    words = shlex.split(command, comments=True)
    match words:
        case ["make", target]:
            assert target in targets, document
        case ["pip", "install", *packages]:
            for package in packages:
                name, _, extras = package.rstrip("]").partition("[")
                assert name == "statemaint"
                assert {*extras.split(",")} - {""} <= EXTRAS.keys()
        case ["eval", inner]:
            assert run(*shlex.split(inner.strip("$()"))[1:]).returncode == 0
        case [".venv/bin/python", "-m", module, *_]:
            assert (ROOT / module.replace(".", "/")).exists()
        case ["docker" | "helm", *rest]:
            assert __version__ in command
            if "--target" in rest:
                target = rest[rest.index("--target") + 1]
                assert f" AS {target}\n" in (ROOT / "Dockerfile").read_text()
        case _:
            pytest.fail(f"{document}: nobody runs {command}")


@pytest.mark.parametrize(("document", "text"), [*blocks("yaml")], ids=lambda one: one[:20])
def test_every_queries_file_is_valid(tmp_path: Path, document: str, text: str) -> None:
    file = tmp_path / "queries.yaml"
    file.write_text(text)
    assert read_queries(file).queries, document


@pytest.mark.parametrize(("document", "text"), [*blocks("python")], ids=lambda one: one[:20])
def test_every_piece_of_python_is_python(document: str, text: str) -> None:
    assert ast.parse(text, document).body


@pytest.mark.parametrize(("document", "text"), [*blocks("json")], ids=lambda one: one[:20])
def test_every_piece_of_json_is_json(document: str, text: str) -> None:
    assert json.loads(text), document


def test_the_script_for_cron_maintains_its_queries(place: Path) -> None:
    (script,) = (text for name, text in blocks("bash") if name == "operations.md")
    names = ("hourly_revenue", "sessions")
    queries = "queries:\n" + "".join(f"  {one}: {{checkpoint: PLACE/{one}}}\n" for one in names)
    (place / "queries.yaml").write_text(queries.replace("PLACE", str(place)))
    script = script.replace("/etc/statemaint", str(place)).replace("/var/log", str(place))
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, check=False, env=os.environ | path
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("snapshots written") == 2


def test_every_document_has_its_examples_here() -> None:
    found = {name for name, _ in commands()}
    assert {"README.md", "install.md", "state.md", "runbook.md", "benchmarks.md"} <= found
    assert len(PROGRAM) >= 12
