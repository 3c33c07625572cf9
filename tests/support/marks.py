"""Marks and choices of single cases."""

import os
from collections.abc import Sequence
from typing import Any

import pytest


def long(*values: Any, id: str | None = None) -> Any:  # noqa: A002 -- pytest's own word
    """Returns a case that `make test` leaves to `make test-all`."""
    return pytest.param(*values, id=id, marks=pytest.mark.long)


def undo_cases(cases: Sequence[Any], every: int) -> Sequence[Any]:
    """Returns the cases of an undo matrix on real servers: all of them for `make test-undo`.

    The suite has time for a few. A step that is no divisor of the faults meets each of them.
    """
    return cases if os.environ.get("STATEMAINT_UNDO") == "all" else cases[::every]
