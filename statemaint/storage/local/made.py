"""New directories, which the users of their parents may use."""

import os
from contextlib import suppress

from statemaint.storage.access import USE, of_directory
from statemaint.storage.local.access import give, must_serve, read_access
from statemaint.storage.local.opened import readable, sync

# Only its creator may use a new directory until it has its final rights.
_PRIVATE_DIRECTORY = 0o700


def make_directory(parent: int, name: str, path: str, *, serve: bool) -> None:
    """Creates a directory in an open parent, for the users of the parent.

    With `serve`, it fails rather than leave out any of them.
    """
    try:
        os.mkdir(name, _PRIVATE_DIRECTORY, dir_fd=parent)
    except FileExistsError:  # another thread's
        return
    with readable(parent) as above:
        _open_up(above, name, path, serve=serve)
        sync(above)


def _open_up(parent: int, name: str, path: str, *, serve: bool) -> None:
    wanted = of_directory(read_access(parent))
    handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        give(handle, wanted)
        if serve:
            must_serve(handle, path, wanted, path.rpartition("/")[0] or ".", bits=USE)
    except BaseException:
        with suppress(OSError):  # another thread has put a file into it
            os.rmdir(name, dir_fd=parent)
        raise
    finally:
        os.close(handle)
