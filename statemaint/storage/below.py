"""The checkpoints below a folder or prefix, and the one that an address is inside of."""

import os
from pathlib import Path

from statemaint.errors import ConfigError, StorageError
from statemaint.storage.local.storage import LocalStorage
from statemaint.storage.open import open_storage

_DEPTH = 3
_MOST_FOLDERS = 10_000
_MARKS = frozenset({"offsets", "commits"})


def checkpoints_below(uri: str) -> list[str]:
    """Returns the addresses of the checkpoints below a folder, up to three folders deep, sorted.

    Folders whose names begin with `.` or `_` are skipped. Nothing inside a checkpoint is listed.

    Raises:
        ConfigError: when there are more than ten thousand folders to look into.
        StorageError: when a folder cannot be listed.
    """
    checkpoints: list[str] = []
    level, seen = [uri.rstrip("/") or "/"], 0
    for _ in range(_DEPTH + 1):
        deeper: list[str] = []
        for folder in level:
            names = folders_in(folder)
            seen += 1
            if seen > _MOST_FOLDERS:
                raise ConfigError(f"{uri}: more than {_MOST_FOLDERS:,} folders; name one of them")
            if names & _MARKS:
                checkpoints.append(folder)
            else:
                deeper += [f"{folder}/{one}" for one in sorted(names) if one[0] not in "._"]
        level = deeper
    return sorted(checkpoints)


def folders_in(uri: str) -> frozenset[str]:
    """Returns the names of the folders directly in a folder; none if it does not exist."""
    return frozenset(open_storage(uri).folders(""))


def checkpoint_around(uri: str) -> str | None:
    """Returns the checkpoint that an address is inside of; `None` if it is in none."""
    address = uri.rstrip("/") if "://" in uri else os.path.abspath(uri)  # noqa: PTH100 -- `..`
    for _ in range(5):  # state / operator / partition / store / file
        address, _, name = address.rpartition("/")
        if not name or not address or address.endswith(":/"):
            return None
        try:
            if folders_in(address) & _MARKS:
                return address
        except StorageError:
            return None
    return None


def is_file(uri: str) -> bool:
    """Returns whether a local address names a file."""
    storage = open_storage(uri)
    return isinstance(storage, LocalStorage) and Path(storage.root).is_file()
