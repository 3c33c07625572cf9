"""What `docs/python.md` promises to scripts, and what a wheel has in it."""

import inspect
import re
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.wheel import WheelBuilder

import statemaint
from statemaint.model.policy import Policy
from statemaint.planning import plan_checkpoint
from statemaint.storage import LocalStorage
from tests.support.checkpoints import write_checkpoint
from tests.support.paths import ROOT

PAGE = (ROOT / "docs/python.md").read_text()
ROWS = re.findall(r"^\| `(statemaint[\w.]*)` \|.*\| (yes|no|) ?\|$", PAGE, re.MULTILINE)
NAMES = [name for name, _ in ROWS]


def named(name: str) -> Any:
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_exists_and_says_what_it_promises(name: str) -> None:
    found, exported = named(name), import_module(name.rpartition(".")[0])
    assert inspect.getdoc(found)
    assert name.rpartition(".")[2] in getattr(exported, "__all__", vars(exported))


@pytest.mark.parametrize("name", [one for one, writes in ROWS if writes])
def test_a_public_function_has_types_and_names_its_errors(name: str) -> None:
    found = named(name)
    signature, text = inspect.signature(found), inspect.getdoc(found) or ""
    assert signature.return_annotation is not inspect.Signature.empty
    assert all(one.annotation is not one.empty for one in signature.parameters.values())
    assert "Raises:" in text
    missing = [one for one in signature.parameters if not re.search(rf"\b{one}\b", text)]
    assert missing == []


def test_the_package_exports_no_more_than_the_page_says() -> None:
    said = {name.removeprefix("statemaint.") for name in NAMES if name.count(".") == 1}
    assert {*statemaint.__all__} == {"__version__", *said}


def test_the_example_prints_what_it_plans_and_finds_and_then_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_checkpoint(LocalStorage(tmp_path), last=45)
    (tmp_path / "state/0/1/foo.bar").write_bytes(b"")
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    policy = Policy(min_deltas_for_snapshot=10, min_batches_to_retain=20, trash_for=7 * 86_400)
    planned = len(plan_checkpoint(LocalStorage(tmp_path), policy)[1].actions)
    names: dict[str, Any] = {}
    exec(example.replace("/data/checkpoints/revenue", str(tmp_path)), names)  # noqa: S102
    first, found = capsys.readouterr().out.splitlines()
    assert (first, planned) == (f"2 stores, {planned} actions planned", 4)
    assert found.startswith("UNKNOWN_FILE state/0/1/foo.bar")
    assert names["report"].snapshots_written == 4


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("wheel")))
    with zipfile.ZipFile(built) as archive:
        return archive.namelist()


def test_a_wheel_says_that_it_has_types(wheel: list[str]) -> None:
    assert "statemaint/py.typed" in wheel


def test_a_wheel_has_the_whole_package_and_no_other_module(wheel: list[str]) -> None:
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "statemaint").rglob("*.py")}
    assert {one for one in wheel if one.endswith(".py")} == modules
    pages = (ROOT / "statemaint/airflow/pages").rglob("*.*")
    needed = {one.relative_to(ROOT).as_posix() for one in pages if one.suffix != ".pyc"}
    assert {"html", "css", "js", "md"} <= {one.rpartition(".")[2] for one in needed}
    assert needed <= {*wheel}
