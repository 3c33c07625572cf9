"""Listings of a local directory, whatever links it contains."""

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import replace

from statemaint.errors import StorageError
from statemaint.listing import Entry
from statemaint.storage.base import is_ours, named_as_file, own_link
from statemaint.storage.local.directories import is_inside

_MOST_FOLLOWED = 1000


class Walk:
    """One listing of all files below a directory.

    Links to directories are followed, as in Spark, and what is outside the root is marked. A link
    that leads back to a directory on the walk's way is listed as an empty file of unknown age,
    which no reader mistakes for one of Spark's.

    Attributes:
        refused: the error of each directory that could not be listed completely.
    """

    def __init__(self, entry: Callable[[str, os.stat_result], Entry], real_top: str) -> None:
        """Starts a listing below a root, given without links.

        A file's entry is made by `entry`, from its path relative to the root and its status.
        """
        self._entry, self._real_top = entry, real_top
        self._followed = 0
        self.refused: list[StorageError] = []

    def below(
        self, directory: "os._ScandirIterator[str]", prefix: str, *real: str
    ) -> Iterator[Entry]:
        """Yields the files below a directory.

        Paths are joined as text and no `Path` is made: there may be a hundred thousand files.
        A file without a status, or links without an end, end the listing: it is complete or fails
        (S10).

        Args:
            directory: the directory, opened.
            prefix: its path relative to the root, with a slash at the end unless it is the root.
            real: its path without links, preceded by those of directories left through links.
        """
        *outer, here = real
        inside = is_inside(here, self._real_top)
        with directory as items:
            for item in items:
                path = prefix + item.name
                if item.is_dir(follow_symlinks=False):
                    yield from _directory(item, path)
                    yield from self._within(item, path, *outer, f"{here}/{item.name}")
                elif item.is_symlink():
                    yield from self._linked(item, path, real)
                elif entry := self._file(item, path):
                    yield entry if inside else replace(entry, outside=True)

    def _within(self, item: "os.DirEntry[str]", path: str, *real: str) -> Iterator[Entry]:
        """Yields the files below a directory; one that fails is noted, and the others go on."""
        try:
            yield from self.below(os.scandir(item.path), f"{path}/", *real)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise
            self.refused.append(StorageError.of_os(path, error))

    def _linked(self, item: "os.DirEntry[str]", path: str, way: tuple[str, ...]) -> Iterator[Entry]:
        if is_ours(path):
            raise own_link(path)
        target = os.path.realpath(item.path)
        if not os.path.isdir(item.path):  # noqa: PTH112
            if entry := _broken(path) if _circular(item) else self._file(item, path):
                yield replace(entry, outside=not is_inside(target, self._real_top))
            return
        if any(f"{one}/".startswith(f"{target.rstrip('/')}/") for one in way):
            yield _broken(path)
            return
        yield from _directory(item, path)
        self._followed += 1
        if self._followed > _MOST_FOLLOWED:
            raise OSError(
                errno.ELOOP, f"more than {_MOST_FOLLOWED} links to directories", item.path
            )
        yield from self._within(item, path, *way, target)

    def _file(self, item: "os.DirEntry[str]", path: str) -> Entry | None:
        try:
            return self._entry(path, os.stat(item.path))  # noqa: PTH116
        except FileNotFoundError:
            return None  # deleted since it was listed


def _directory(item: "os.DirEntry[str]", path: str) -> Iterator[Entry]:
    if named_as_file(item.name):
        yield Entry(f"{path}/", 0, None)


def _broken(path: str) -> Entry:
    return Entry(path, 0, None)


def _circular(item: "os.DirEntry[str]") -> bool:
    try:
        os.stat(item.path)  # noqa: PTH116
    except OSError as error:
        return error.errno == errno.ELOOP  # the next reader reports any other error
    return False
