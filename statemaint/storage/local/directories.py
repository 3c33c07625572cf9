"""Directories below a root, opened so that no link leads out of it (S24).

What would lead out of it, or through a link below `_statemaint`, raises `RefusedLinkError`.

A directory is opened part by part, each relative to the one before, and no part may be a link: what
was checked is what is opened, even if a link takes its place meanwhile. Only a way that has links
is resolved, and the directory that it leads to is then opened in the same way from the real root.
"""

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from statemaint.storage.base import is_ours, outside_link, own_link

MakeDirectory = Callable[[int, str, str], None]
"""Creates a directory: in an open directory, by its name, with its path below the root."""

# Only Linux opens a directory without the right to list it.
_OPEN = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY
# Linux reports a link in the place of a directory as the former, other systems as the latter.
_MAY_BE_LINK = (errno.ENOTDIR, errno.ELOOP)


@contextmanager
def directory_of(
    top: str, path: str, make: MakeDirectory | None = None
) -> Iterator[tuple[int, str]]:
    """Opens the directory of a file for the length of the block.

    The handle serves only as the start of other calls: it can be neither read nor synced.

    Args:
        top: the root, which may be a link.
        path: the path of the file below the root.
        make: creates a missing directory; by default, none is created.

    Yields:
        The handle of the directory, and the name of the file in it.
    """
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
    """Returns whether a path without links is at or below a root without links."""
    return f"{real}/".startswith(f"{real_top.rstrip('/')}/")


def links_below(top: str, folder: str) -> Iterator[str]:
    """Yields the paths of the links at or below a folder; none is followed."""
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
    """Yields the names of the directories directly in one; none if it is missing, or a file."""
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
    """Checks that a path may be used by what opens it by name and follows its links."""
    if is_ours(path):
        check_way(top, path)
    real_path(top, path)


def check_way(top: str, path: str) -> None:
    """Checks that no part of a path is a link."""
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
    try:
        return os.open(part, _OPEN | os.O_NOFOLLOW, dir_fd=handle)
    except FileNotFoundError:
        if make is None:
            raise
        make(handle, part, path)
        return os.open(part, _OPEN | os.O_NOFOLLOW, dir_fd=handle)
