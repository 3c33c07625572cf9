"""Work done as another user of this machine, for tests that run as root."""

import os
import pickle
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from typing import TypeVar, cast

import pytest

_T = TypeVar("_T")

# Nobody has these numbers, so that no name and no group of a real user comes into it.
SPARK, MAINTAINER, COLLEAGUE, STRANGER = 60_101, 60_102, 60_103, 60_104
TEAM, STAFF = 60_201, 60_202

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as other users")


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """Sets the umask for the length of a `with` block."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def shared_folder() -> Iterator[Path]:
    """Makes a folder that other users can reach, which pytest's own they cannot."""
    folder = Path(tempfile.mkdtemp(prefix="statemaint-shared-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        rmtree(folder)


def as_user(
    work: Callable[[], _T], *, uid: int, gid: int, groups: Sequence[int] = (), mask: int = 0o022
) -> _T:
    """Returns what some work returns that a child process does as another user.

    It imports nothing: the other user may not be able to read where Python is. What the work needs
    has to be imported before.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which end by themselves
        child = os.fork()
    if child == 0:
        _work(work, writing, (uid, gid, groups, mask))
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        answer = stream.read()
    os.waitpid(child, 0)
    result, error = pickle.loads(answer)  # noqa: S301 -- of our own child
    if error is not None:
        raise error
    return cast("_T", result)


def _work(
    work: Callable[[], object], writing: int, who: tuple[int, int, Sequence[int], int]
) -> None:
    uid, gid, groups, mask = who
    answer = pickle.dumps((None, OSError("the child said nothing")))
    try:
        os.setgroups(list(groups))
        os.setgid(gid)
        os.setuid(uid)
        os.umask(mask)
        answer = pickle.dumps((work(), None))
    except BaseException as error:  # noqa: BLE001 -- whatever it is, the parent raises it
        with suppress(Exception):
            answer = pickle.dumps((None, error))
    finally:
        os.write(writing, answer)
        os._exit(0)
