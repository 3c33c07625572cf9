"""What `docs/python.md` promises to scripts, and what a wheel has in it."""

import inspect
import re
import zipfile
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, get_args, get_type_hints

import boto3
import pyarrow as pa
import pytest
from hatchling.builders.wheel import WheelBuilder
from pyspark.sql import DataFrame, SparkSession

import statemaint.checkpoint
import statemaint.spark
import statemaint.storage
from statemaint.errors import ConfigError
from statemaint.model.policy import Policy
from statemaint.storage import LocalStorage
from tests.support.archived import archived
from tests.support.paths import ROOT

PAGE = (ROOT / "docs/python.md").read_text()
ROWS = re.findall(r"^\| `(statemaint[\w.]*)` \|.*\| (yes|no|) ?\|$", PAGE, re.MULTILINE)
NAMES = [name for name, _ in ROWS]
LATE = {
    **vars(statemaint.checkpoint),
    "S3Options": statemaint.storage.S3Options,
    "pa": pa,
    "Session": boto3.Session,
    "DataFrame": DataFrame,
    "SparkSession": SparkSession,
}
"""What annotations name that is imported when it is used."""


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


def test_no_public_name_is_of_any_type() -> None:
    """Walks what the page lists, and every result that one of them returns or holds."""
    public = [named(name) for name in NAMES]
    public += [getattr(statemaint.spark, name) for name in statemaint.spark.__all__]
    walked: list[Any] = []
    queue = [*public]
    while queue:
        if (item := queue.pop()) in walked:
            continue
        walked.append(item)
        kinds = [*kinds_of(item, members=item in public)]
        assert Any not in [kind for _, kind in kinds], item
        results = [kind for name, kind in kinds if isinstance(item, type) or name == "return"]
        queue += (kind for kind in results if isinstance(kind, type) and is_dataclass(kind))
    names = {getattr(item, "__name__", "") for item in walked}
    assert {"OpenCheckpoint", "Report", "StoreReport", "ChangedRow", "History"} <= names


def kinds_of(item: Any, *, members: bool) -> Iterator[tuple[str, Any]]:
    """Yields each type in the annotations of a function, or of a class and its public methods."""
    functions = [item]
    if isinstance(item, type):
        functions = [item] if is_dataclass(item) else []
        for name, member in inspect.getmembers(item) if members else ():
            if not name.startswith("_") and isinstance(member, property | FunctionType):
                functions.append(member.fget if isinstance(member, property) else member)
    for function in functions:
        for name, hint in get_type_hints(function, localns=LATE).items():
            if not name.startswith("_"):
                yield from ((name, part) for part in parts(hint))


def parts(hint: Any) -> Iterator[Any]:
    yield hint
    for part in get_args(hint):
        yield from parts(part)


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
    assert first == f"OpenCheckpoint('{tmp_path}/revenue') {names['before'] + 1}"
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
