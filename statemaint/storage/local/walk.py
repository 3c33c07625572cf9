"""Listing a local directory, whatever links lie in it."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from statemaint.listing import Entry
from statemaint.storage.base import named_as_file

_MOST_FOLLOWED = 1000


class Walk:
    """One listing of all files below a directory.

    Links to directories are followed, as Spark follows them. One that leads back to where the walk
    has come from is listed as an empty file of unknown age, which nobody takes for one of Spark's.
    """

    def __init__(self, root: Path, entry: Callable[[Path], Entry]) -> None:
        self._root, self._entry = root, entry
        self._followed = 0

    def below(self, directory: "os._ScandirIterator[str]", *real: str) -> Iterator[Entry]:
        """Yields the files below a directory.

        Args:
            directory: it, opened.
            real: its path without any links, behind those of what was left for a link on the way.

        Raises:
            OSError: when a directory cannot be listed, a file's status cannot be told, or links
                form a web without an end in sight: a listing is whole or fails (S10).
        """
        *left, here = real
        with directory as found:
            for item in found:
                if item.is_dir(follow_symlinks=False):
                    yield from self._directory(item)
                    yield from self.below(os.scandir(item.path), *left, f"{here}/{item.name}")
                elif item.is_symlink():
                    yield from self._linked(item, real)
                else:
                    yield from self._file(item)

    def _linked(self, item: "os.DirEntry[str]", way: tuple[str, ...]) -> Iterator[Entry]:
        if not os.path.isdir(item.path):  # noqa: PTH112
            yield from self._broken(item) if _circular(item) else self._file(item)
            return
        target = os.path.realpath(item.path)
        if any(f"{one}/".startswith(f"{target.rstrip('/')}/") for one in way):
            yield from self._broken(item)
            return
        yield from self._directory(item)
        self._followed += 1
        if self._followed > _MOST_FOLLOWED:
            raise OSError(
                errno.ELOOP, f"more than {_MOST_FOLLOWED} links to directories", item.path
            )
        yield from self.below(os.scandir(item.path), *way, target)

    def _file(self, item: "os.DirEntry[str]") -> Iterator[Entry]:
        with suppress(FileNotFoundError):  # gone since it was listed: no longer a fact
            yield self._entry(Path(item.path))

    def _directory(self, item: "os.DirEntry[str]") -> Iterator[Entry]:
        if named_as_file(item.name):
            yield Entry(f"{Path(item.path).relative_to(self._root).as_posix()}/", 0, None)

    def _broken(self, item: "os.DirEntry[str]") -> Iterator[Entry]:
        yield Entry(Path(item.path).relative_to(self._root).as_posix(), 0, None)


def _circular(item: "os.DirEntry[str]") -> bool:
    """Tells whether links lead nowhere but to themselves."""
    try:
        os.stat(item.path)  # noqa: PTH116
    except OSError as error:
        return error.errno == errno.ELOOP  # every other trouble is that of who reads it next
    return False
