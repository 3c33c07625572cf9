"""The places where a checkpoint's bytes are stored, behind one small contract (`base.Storage`).

A storage knows paths and bytes, but neither versions nor which file may be deleted.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from statemaint.storage.access import deprived
from statemaint.storage.address import (
    MARKS,
    Opener,
    checkpoint_around,
    checkpoints_below,
    folders_in,
    has_secret,
    is_file,
    open_storage,
    overlaps,
    place_of,
    storage_of,
)
from statemaint.storage.base import OURS, Storage, entry_shown, outside_link, own_link, read_small
from statemaint.storage.local.storage import LocalStorage
from statemaint.storage.memory import MemoryStorage
from statemaint.storage.s3.options import S3Options
from statemaint.storage.wrappers import MOST_AHEAD, Ahead, ReadOnly, Stoppable, Without, stoppable

if TYPE_CHECKING:
    from statemaint.storage.hadoop.storage import HadoopStorage
    from statemaint.storage.s3.storage import S3Storage

__all__ = [
    "MARKS",
    "MOST_AHEAD",
    "OURS",
    "Ahead",
    "HadoopStorage",
    "LocalStorage",
    "MemoryStorage",
    "Opener",
    "ReadOnly",
    "S3Options",
    "S3Storage",
    "Stoppable",
    "Storage",
    "Without",
    "checkpoint_around",
    "checkpoints_below",
    "deprived",
    "entry_shown",
    "folders_in",
    "has_secret",
    "is_file",
    "open_storage",
    "outside_link",
    "overlaps",
    "own_link",
    "place_of",
    "read_small",
    "stoppable",
    "storage_of",
]

# Most runs need one storage.
_WHEN_USED = {
    "HadoopStorage": "statemaint.storage.hadoop.storage",
    "S3Storage": "statemaint.storage.s3.storage",
}


def __getattr__(name: str) -> Any:
    if name not in _WHEN_USED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_WHEN_USED[name]), name)
