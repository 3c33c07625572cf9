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
from statemaint.errors import ConfigError
from statemaint.model.policy import Policy
from statemaint.storage import LocalStorage
from tests.support.archived import archived
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


def test_the_ten_examples_do_what_they_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = LocalStorage(tmp_path / "revenue"), archived(("3.5.9", "aggregation2"))
    ours.create_root()
    for path in theirs.files:
        ours.write(path, [theirs.read(path)])
    examples = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(examples) == 10
    names: dict[str, Any] = {}
    for one in examples:
        there = re.sub(r"/data/\w+", str(tmp_path), one.replace("savepoints/revenue", "x/saved"))
        exec(there, names)  # noqa: S102
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == f"<OpenCheckpoint {tmp_path}/revenue> {names['before'] + 1}"
    assert lines
    assert names["revenue"].batches[-1] == names["before"] + 1, "the rollback was undone"
    assert names["report"].snapshots_written
    assert names["table"].num_rows == names["operator"].figures.rows
    assert names["revenue"].verify(deep=True).healthy


@pytest.mark.parametrize("wrong", [{"grace": "soon"}, {"rebase": "no"}, {"chain": 3}])
def test_a_setting_that_is_none_is_refused_in_one_line(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"not a duration|whole number|no such"):
        Policy().override(**wrong)


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
