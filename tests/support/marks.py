"""Marks of single cases."""

from typing import Any

import pytest


def long(*values: Any, id: str | None = None) -> Any:  # noqa: A002 -- pytest's own word
    """Returns a case that `make test` leaves to `make test-all`."""
    return pytest.param(*values, id=id, marks=pytest.mark.long)
