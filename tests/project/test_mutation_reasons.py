"""A reason why mutants survive is of functions that are there: renamed ones take theirs along."""

import ast
from collections.abc import Iterator

import pytest

from tests.mutation.__main__ import Reason, reasons
from tests.support.paths import ROOT


def names() -> Iterator[str]:
    """Yields the name of a mutant of each function, as mutmut has it."""
    for path in (ROOT / "statemaint").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                yield f"{module}.x_{node.name}__mutmut_1"
            members = node.body if isinstance(node, ast.ClassDef) else ()
            of = f"{module}.xǁ{node.name}ǁ" if isinstance(node, ast.ClassDef) else ""
            yield from (
                f"{of}{member.name}__mutmut_1"
                for member in members
                if isinstance(member, ast.FunctionDef)
            )


NAMES = tuple(names())


@pytest.mark.parametrize("reason", reasons(), ids=lambda reason: reason.text[:60])
def test_a_reason_is_of_a_function_that_is_there(reason: Reason) -> None:
    assert any(map(reason.name.search, NAMES))
