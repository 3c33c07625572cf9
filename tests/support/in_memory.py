"""Temporary files in memory, where the machine has such a place: a disk is what is waited for."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FAST = Path("/dev/shm")  # noqa: S108


@contextmanager
def in_memory() -> Iterator[Path]:
    """Puts temporary files into a directory of their own that is gone in the end."""
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory(dir=_FAST if _FAST.is_dir() else None) as place:
        tempfile.tempdir = place
        try:
            yield Path(place)
        finally:
            tempfile.tempdir = before
