"""Names in the package lead to one place each."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import ROOT

PACKAGE = ROOT / "statemaint"


def modules() -> Iterator[Path]:
    yield from PACKAGE.rglob("*.py")


def public_classes(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def test_no_two_public_classes_have_one_name() -> None:
    found = defaultdict(list)
    for path in modules():
        for name in public_classes(path):
            found[name].append(str(path.relative_to(PACKAGE)))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def test_no_module_is_named_like_its_package() -> None:
    assert [path for path in modules() if path.stem == path.parent.name] == []
