"""What surrounds a checkpoint, and whether it is as it was (S24).

`lead_out`, `lead_files_out` and `share` put links to another folder into a checkpoint. `facts` of
that folder, before and after, and `changes` between them show what was changed there.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from zlib import crc32


class Fact(NamedTuple):
    """What is known of a file, a folder or a link: all that a change of it would change."""

    mode: int
    owner: tuple[int, int]
    modified: int
    content: object


def facts(folder: Path) -> dict[str, Fact]:
    """Returns the facts of a folder and of everything below it, by path; no link is followed."""
    paths = (folder, *_below(folder)) if folder.exists() else ()
    return {os.path.relpath(path, folder): _fact(path) for path in paths}


def changes(before: dict[str, Fact], after: dict[str, Fact]) -> list[str]:
    return sorted(
        path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    )


def _below(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        yield from (Path(parent, name) for name in (*folders, *names))


def _fact(path: Path) -> Fact:
    status = path.lstat()
    content: object = None
    if stat.S_ISLNK(status.st_mode):
        content = path.readlink()
    elif stat.S_ISREG(status.st_mode):
        with path.open("rb") as stream:  # of a sparse file of gigabytes its beginning
            content = status.st_size, crc32(stream.read(1 << 20))
    return Fact(status.st_mode, (status.st_uid, status.st_gid), status.st_mtime_ns, content)


def lead_out(root: Path, folder: str, outside: Path) -> None:
    """Moves a folder of a checkpoint out of it, and leaves a link to its new place.

    A folder that does not exist is created outside, empty.
    """
    place, target = root / folder, outside / (folder or "root")
    target.parent.mkdir(parents=True, exist_ok=True)
    if place.is_dir():
        shutil.move(place, target)
    else:
        target.mkdir()
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


def lead_files_out(root: Path, folder: str, outside: Path) -> None:
    """Moves each file that is directly in a folder out of it, and leaves links to them."""
    (outside / folder).mkdir(parents=True, exist_ok=True)
    for file in [one for one in (root / folder).iterdir() if one.is_file()]:
        target = outside / folder / file.name
        shutil.move(file, target)
        file.symlink_to(target)


def share(root: Path, folder: str, outside: Path) -> None:
    """Replaces a folder of a checkpoint by a link to that of a copy, another checkpoint.

    Pipes and files of gigabytes are not copied.
    """

    def left_out(parent: str, names: list[str]) -> list[str]:
        return [name for name in names if not _is_copied(Path(parent, name))]

    shutil.copytree(root, outside, symlinks=True, ignore=left_out)
    shutil.rmtree(root / folder)
    (root / folder).symlink_to(outside / folder)


def _is_copied(path: Path) -> bool:
    status = path.lstat()
    return not stat.S_ISFIFO(status.st_mode) and status.st_size < 1 << 20
