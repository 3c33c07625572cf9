"""Maintainers that follow links out of the checkpoint, or keep an operator that has left."""

import os
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from statemaint.scan.required import Undeclared
from statemaint.storage import LocalStorage
from statemaint.storage.local import directories
from tests.certify.mutant import LINKS, REMOVED, Mutant

# Its package has a function of the same name.
scanning = import_module("statemaint.scan.scanner")


def _follows(top: str, folder: str, _: str, make: Any) -> int:
    """Opens the directory that a path leads to, wherever that is."""
    place = os.path.join(top, folder)  # noqa: PTH118 -- as the code that it replaces
    if make is not None:
        os.makedirs(place, exist_ok=True)  # noqa: PTH103
    return os.open(place, directories._OPEN)


def _no_links(_: LocalStorage, __: str) -> Sequence[str]:
    return ()


def _all_inside(*_: Any) -> bool:
    return True


def _none_left(*_: Any) -> Undeclared:
    return Undeclared()


LINK_MUTANTS = (
    Mutant("links followed", "S24", "follows links out of the checkpoint",
           ((directories, "_opened", _follows), (directories, "is_inside", _all_inside),
            (LocalStorage, "links", _no_links)), LINKS),
    Mutant("operator stays", "S3", "takes an operator that has left for the query's",
           ((scanning, "undeclared_operators", _none_left),), REMOVED),
)  # fmt: skip
