"""Marks and choices of single cases."""

import os
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest


def long(*values: Any, id: str | None = None) -> Any:  # noqa: A002 -- pytest's own word
    """Returns a case that `make test` leaves to `make test-all`."""
    return pytest.param(*values, id=id, marks=pytest.mark.long)


def rotated(cases: Sequence[tuple[str, str]]) -> list[Any]:
    """Returns pairs of an archive and a kind: `make test` plays each archive and each kind once.

    Which archive a kind is played of changes from kind to kind; the others are for `make test-all`.
    """
    archives = list(dict.fromkeys(archive for archive, _ in cases))
    kinds = list(dict.fromkeys(kind for _, kind in cases))
    chosen = set()
    for number, kind in enumerate(kinds):
        have = [archive for archive in archives if (archive, kind) in cases]
        chosen.add((have[number % len(have)], kind))
    for archive in set(archives) - {archive for archive, _ in chosen}:
        chosen.add(next(case for case in cases if case[0] == archive))
    marked = (pytest.mark.long, ())
    return [pytest.param(case, marks=marked[case in chosen], id="/".join(case)) for case in cases]


def half(*names: str) -> pytest.MarkDecorator:
    """Returns all combinations of switches, half of which are for `make test-all`.

    `make test` plays each pair of two switches' values.
    """
    combined = product((False, True), repeat=len(names))
    cases = [long(*one) if sum(one) % 2 else pytest.param(*one) for one in combined]
    return pytest.mark.parametrize(names, cases)


def undo_cases(cases: Sequence[Any], every: int) -> Sequence[Any]:
    """Returns the cases of an undo matrix on real servers: all of them for `make test-undo`.

    The suite has time for a few. A step that is no divisor of the faults meets each of them.
    """
    return cases if os.environ.get("STATEMAINT_UNDO") == "all" else cases[::every]
