"""`docs/architecture.md`, `CONTRIBUTING.md` and the hooks, held against the code."""

import ast
import errno
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from statemaint.storage import LocalStorage
from tests.project.test_documents import code_exists
from tests.support.paths import ROOT

PACKAGE = ROOT / "statemaint"
ARCHITECTURE = (ROOT / "docs/architecture.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
DOCUMENTS = pytest.mark.parametrize("document", ["docs/architecture.md", "CONTRIBUTING.md"])
# Parts of a path that stand for any name.
_ANY = re.compile(r"\b(?:NAME|NNNN|TITLE)\b")


def quoted(document: str) -> list[str]:
    """Returns what stands between backticks, code blocks left out."""
    text = re.sub(
        r"^ *```.*?^ *```$", "", (ROOT / document).read_text(), flags=re.MULTILINE | re.DOTALL
    )
    assert all(line.count("`") % 2 == 0 for line in text.splitlines()), "code across two lines"
    return re.findall(r"`([^`\n]+)`", text)


# -- layers and packages


def contracts() -> list[dict[str, Any]]:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found: list[dict[str, Any]] = config["tool"]["importlinter"]["contracts"]
    return found


def test_the_layers_are_those_that_are_enforced() -> None:
    (enforced,) = (one["layers"] for one in contracts() if one["type"] == "layers")
    drawn = ARCHITECTURE.split("```text\n")[1].split("\n```")[0].splitlines()
    assert [re.split(r" {2,}", line)[0] for line in drawn] == enforced


def parts() -> Iterator[str]:
    """Yields every package, and the modules that stand beside them."""
    for file in PACKAGE.rglob("__init__.py"):
        yield ".".join(file.parent.relative_to(PACKAGE).parts)
    yield from (file.stem for file in PACKAGE.glob("*.py") if not file.stem.startswith("__"))


def test_every_package_has_its_line() -> None:
    table = ARCHITECTURE.split("\n## Packages\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([a-z0-9_.]+)` \| .+ \|$", table, re.MULTILINE)
    assert rows == sorted({*parts()} - {""})


@pytest.mark.parametrize(
    "file", sorted(PACKAGE.rglob("__init__.py")), ids=lambda one: one.parent.name
)
def test_every_package_says_what_belongs_there(file: Path) -> None:
    assert len(ast.get_docstring(ast.parse(file.read_text())) or "") > 20


# -- who writes

# Packages and single modules. `demo` writes where it likes, `fold.__main__` to memory, to compile,
# `spark.history` to a dataset of its own.
WRITERS = {
    "demo",
    "execute",
    "fold/__main__.py",
    "provider/surgery.py",
    "provider/files.py",
    "records",
    "savepoint/expiry.py",
    "spark/history.py",
    "undo",
}
VERBS = {"write", "append", "move", "move_all", "delete", "delete_all"}


def writes(file: Path) -> bool:
    """Returns whether a module calls what changes a storage."""
    calls = (one.func for one in ast.walk(ast.parse(file.read_text())) if isinstance(one, ast.Call))
    return any(
        isinstance(call, ast.Attribute)
        and call.attr in VERBS
        and ast.unparse(call.value).rpartition(".")[2].lstrip("_") in ("storage", "reading")
        for call in calls
    )


def test_only_the_named_packages_write_to_a_checkpoint() -> None:
    modules = (file.relative_to(PACKAGE) for file in PACKAGE.rglob("*.py") if writes(file))
    found = {one.parts[0] if one.parts[0] in WRITERS else one.as_posix() for one in modules}
    assert found | {"demo"} == WRITERS


# -- names


def exists(dotted: str) -> bool:
    return code_exists(f"statemaint.{dotted}")


def test_a_name_that_is_not_there_is_seen() -> None:
    assert exists("execute.deleter.Deleter.delete")
    assert exists("execute.fence.TRUSTED")
    assert not exists("execute.deleter.Deleter.remove")
    assert not exists("execute.step.StoreExecutor")


@DOCUMENTS
def test_every_function_that_is_named_exists(document: str) -> None:
    packages = {name.partition(".")[0] for name in parts()} - {""}
    dotted = [one for one in quoted(document) if re.fullmatch(r"\w+(?:\.\w+)+", one)]
    ours = [one for one in dotted if one.partition(".")[0] in packages]
    assert [one for one in ours if not exists(one)] == []
    assert len(ours) > 50 or document == "CONTRIBUTING.md"


@DOCUMENTS
def test_every_path_that_is_named_exists(document: str) -> None:
    paths = [one for one in quoted(document) if re.fullmatch(r"[\w.*-]+(?:/[\w.*-]*)+", one)]
    known = [one for one in paths if (ROOT / one.partition("/")[0]).is_dir()]
    absent = [one for one in known if not any(ROOT.glob(_ANY.sub("*", one).rstrip("/")))]
    assert absent == []
    assert known


@DOCUMENTS
def test_every_test_that_is_named_exists(document: str) -> None:
    sources = "".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    sources += (ROOT / "tests/support/storage_contract.py").read_text()
    names = [one for one in quoted(document) if re.fullmatch(r"test_\w+", one)]
    assert [one for one in names if f"def {one}(" not in sources] == []


@DOCUMENTS
def test_its_lines_fit(document: str) -> None:
    lines = (ROOT / document).read_text().splitlines()
    assert [line for line in lines if len(line) > 120] == []


# -- commands


def commands() -> dict[str, list[str]]:
    """Returns the lines of each target of the Makefile."""
    rules = re.findall(r"^([a-z-]+):(?!=)[^\n]*\n((?:\t[^\n]*\n)*)", MAKEFILE, re.MULTILINE)
    return {target: [one.strip() for one in lines.splitlines()] for target, lines in rules}


def test_every_command_of_the_makefile_is_explained() -> None:
    listed = set(re.findall(r"^([a-z-]+):.*## ", MAKEFILE, re.MULTILINE))
    explained = set(re.findall(r"^\| `make ([a-z-]+)", CONTRIBUTING, re.MULTILINE))
    assert explained == listed


@DOCUMENTS
def test_every_command_that_is_named_exists(document: str) -> None:
    targets = re.findall(r"`make ([a-z-]+)", (ROOT / document).read_text())
    assert set(targets) <= commands().keys()
    assert targets


def hooks() -> list[dict[str, Any]]:
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert local["repo"] == "local"
    found: list[dict[str, Any]] = local["hooks"]
    return found


def test_the_hooks_are_the_commands_of_make_check() -> None:
    checks = [one.replace("$(BIN)", ".venv/bin") for one in commands()["check"]]
    assert [hook["entry"] for hook in hooks()] == checks


def test_the_hooks_need_nothing_but_what_is_installed() -> None:
    for hook in hooks():
        assert (hook["language"], hook["pass_filenames"]) == ("system", False)
        assert "additional_dependencies" not in hook
    assert "://" not in (ROOT / ".pre-commit-config.yaml").read_text()


# -- files of ours


def test_the_probe_of_a_local_disk_is_among_our_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def refusing(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        for directory, name in ((src_dir_fd, source), (dst_dir_fd, target)):
            folder = Path(f"/proc/self/fd/{directory}").readlink()
            seen.append((folder / name).relative_to(tmp_path).as_posix())
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refusing)
    assert not LocalStorage(tmp_path).exclusive
    uuid = r"[0-9a-f-]{36}"
    names = {re.sub(uuid, "ID", path) for path in seen}
    assert names == {"_statemaint/.probe.ID.tmp"}
    ours = (ROOT / "docs/files.md").read_text().split("\n## Ours\n")[1]
    assert "| `.probe.ID.tmp` |" in ours
    assert [one for one in tmp_path.rglob("*") if one.is_file()] == []
