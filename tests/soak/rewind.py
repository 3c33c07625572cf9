"""Taking back the newest batches of a stopped query, as an operator does it: its logs are cut."""

import json
from collections.abc import Iterator
from pathlib import Path


def committed(checkpoint: Path) -> list[int]:
    """Returns the batches in the commit log, ascending."""
    names = (path.name for path in (checkpoint / "commits").glob("[0-9]*"))
    return sorted(map(int, names))


def take_back(root: Path, newest: int, *, keep_sources: bool) -> None:
    """Makes a batch the newest one of which the logs know; the files of the state all stay.

    The sources then give the same files in the same batches again. Where they may keep their own
    logs they know those files already, and give all of them in one batch.
    """
    checkpoint = root / "checkpoint"
    read = list(_read(checkpoint / "offsets" / str(newest)))
    for log in ("commits", "offsets"):
        _cut(checkpoint / log, newest)
    for number, last in enumerate(() if keep_sources else read):
        _cut(checkpoint / "sources" / str(number), last)
    _cut(root / "output", newest)


def _read(offsets: Path) -> Iterator[int]:
    """Yields the last entry of each source's log that a batch has read, or one that never was."""
    for line in offsets.read_text().splitlines()[2:]:
        yield -1 if line == "-" else json.loads(line)["logOffset"]


def _cut(log: Path, newest: int) -> None:
    """Removes later entries: `N`, `N.compact` or `N.json`, and Hadoop's checksums of them."""
    for path in log.iterdir():
        number = path.name.removeprefix(".").partition(".")[0]
        if number.isdecimal() and int(number) > newest:
            path.unlink()
