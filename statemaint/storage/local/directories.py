"""Directories below a root, listed, and opened so that no link leads out of it (S24).

What would lead out of it, or through a link below `_statemaint`, raises `RefusedLinkError`.

A directory is opened part by part, each relative to the one before, and no part may be a link: what
was checked is what is opened, even if a link takes its place meanwhile. Only a way that has links
is resolved, and the directory that it leads to is then opened in the same way from the real root.
"""

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from statemaint.errors import StorageError
from statemaint.listing import Entry
from statemaint.storage.base import is_ours, named_as_file, outside_link, own_link

MakeDirectory = Callable[[int, str, str], None]
"""Creates a directory: in an open directory, by its name, with its path below the root."""

# Only Linux opens a directory without the right to list it.
_OPEN = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY
# Linux reports a link in the place of a directory as the former, other systems as the latter.
_MAY_BE_LINK = (errno.ENOTDIR, errno.ELOOP)
_MOST_FOLLOWED = 1000


@contextmanager
def directory_of(
    top: str, path: str, make: MakeDirectory | None = None
) -> Iterator[tuple[int, str]]:
    """Opens, or makes, the directory of a file; yields its handle and the file's name in it."""
    # The handle serves only as the start of other calls: it can be neither read nor synced.
    folder, _, name = path.rpartition("/")
    handle = _opened(top, folder, path, make)
    try:
        yield handle, name
    finally:
        os.close(handle)


def real_path(top: str, path: str) -> str:
    """Returns the path below the real root that a path leads to, whether or not it exists."""
    real_top, real = os.path.realpath(top), os.path.realpath(f"{top}/{path}")
    if not is_inside(real, real_top):
        raise outside_link(path, real)
    return real[len(real_top) :].strip("/")


def is_inside(real: str, real_top: str) -> bool:
    # Both are without links.
    return f"{real}/".startswith(f"{real_top.rstrip('/')}/")


def links_below(top: str, folder: str) -> Iterator[str]:
    if _is_link(f"{top}/{folder}"):
        yield folder
        return
    waiting = [folder]
    while waiting:
        path = waiting.pop()
        try:
            items = os.scandir(f"{top}/{path}")
        except (FileNotFoundError, NotADirectoryError):  # the next reader reports a file
            continue
        with items:
            for item in items:
                if item.is_symlink():
                    yield f"{path}/{item.name}"
                elif item.is_dir(follow_symlinks=False):
                    waiting.append(f"{path}/{item.name}")


def folders_in(top: str, folder: str) -> Iterator[str]:
    if is_ours(folder):
        check_way(top, folder)
    try:
        items = os.scandir(f"{top}/{folder}")
    except (FileNotFoundError, NotADirectoryError):
        return
    with items:
        for item in items:
            if is_ours(folder) and item.is_symlink():
                raise own_link(f"{folder}/{item.name}")
            if item.is_dir():
                yield item.name


def check_path(top: str, path: str) -> None:
    # For what opens the path by its name and follows its links.
    if is_ours(path):
        check_way(top, path)
    real_path(top, path)


def check_way(top: str, path: str) -> None:
    if link := _first_link(top, path.split("/")):
        raise own_link(link)


def _opened(top: str, folder: str, path: str, make: MakeDirectory | None) -> int:
    parts = folder.split("/") if folder else []
    if not {"", ".", ".."}.isdisjoint(parts):
        raise outside_link(path, os.path.normpath(f"{top}/{path}"))
    try:
        return _descend(top, parts, make)
    except OSError as error:
        link = _first_link(top, parts) if error.errno in _MAY_BE_LINK else None
        if link is None:
            raise
        if is_ours(folder):
            raise own_link(link) from None
        resolved = real_path(top, folder)
        return _descend(os.path.realpath(top), resolved.split("/") if resolved else [], make)


def _first_link(top: str, parts: Sequence[str]) -> str | None:
    ways = ("/".join(parts[: count + 1]) for count in range(len(parts)))
    return next((way for way in ways if _is_link(f"{top}/{way}")), None)


def _is_link(path: str) -> bool:
    return os.path.islink(path)  # noqa: PTH114 -- a `Path` costs more than the request


def _descend(top: str, parts: Sequence[str], make: MakeDirectory | None) -> int:
    handle = os.open(top, _OPEN)  # the root itself may be a link, and is never created
    try:
        for count, part in enumerate(parts):
            below = _step(handle, part, "/".join(parts[: count + 1]), make)
            os.close(handle)
            handle = below
    except BaseException:
        os.close(handle)
        raise
    return handle


def _step(handle: int, part: str, path: str, make: MakeDirectory | None) -> int:
    opened = partial(os.open, part, _OPEN | os.O_NOFOLLOW, dir_fd=handle)
    try:
        return opened()
    except FileNotFoundError:
        if make is None:
            raise
        make(handle, part, path)
        return opened()


class Walk:
    """One listing of all files below a directory.

    Links to directories are followed, as in Spark, and what is outside the root is marked. A link
    that leads back to a directory on the walk's way is listed as an empty file of unknown age,
    which no reader mistakes for one of Spark's.
    """

    def __init__(self, entry: Callable[[str, os.stat_result], Entry], real_top: str) -> None:
        self._entry, self._real_top = entry, real_top
        self._followed = 0
        self.refused: list[StorageError] = []  # for each directory without a complete listing

    def below(
        self, directory: "os._ScandirIterator[str]", prefix: str, *real: str
    ) -> Iterator[Entry]:
        # A file without a status, or links without an end, end the listing: it is complete or fails
        # (S10). `real` is the directory's path without links, preceded by those of directories that
        # were left through links.
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
            if entry := Entry(path, 0, None) if _circular(item) else self._file(item, path):
                yield replace(entry, outside=not is_inside(target, self._real_top))
            return
        if any(is_inside(folder, target) for folder in way):
            yield Entry(path, 0, None)
            return
        yield from _directory(item, path)
        self._followed += 1
        if self._followed > _MOST_FOLLOWED:
            why = f"more than {_MOST_FOLLOWED} links to directories"
            raise OSError(errno.ELOOP, why, item.path)
        yield from self._within(item, path, *way, target)

    def _file(self, item: "os.DirEntry[str]", path: str) -> Entry | None:
        try:
            return self._entry(path, os.stat(item.path))  # noqa: PTH116
        except FileNotFoundError:
            return None  # deleted since it was listed


def _directory(item: "os.DirEntry[str]", path: str) -> Iterator[Entry]:
    if named_as_file(item.name):
        yield Entry(f"{path}/", 0, None)


def _circular(item: "os.DirEntry[str]") -> bool:
    try:
        os.stat(item.path)  # noqa: PTH116
    except OSError as error:
        return error.errno == errno.ELOOP  # the next reader reports any other error
    return False
