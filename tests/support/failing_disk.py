"""The operating system's calls that change a disk, one of which fails.

    with failing(at=7, number=errno.EIO, after=True) as calls:
        ...

The call with that number, counted from 0, fails before or after it has changed the disk. Those
that only open, read or list a file are not counted.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

_CHANGES = ("link", "unlink", "replace", "rename", "mkdir", "fsync")


@dataclass
class Calls:
    """The calls so far.

    Attributes:
        number: how many there were.
    """

    number: int = 0


@contextmanager
def failing(*, at: int, number: int, after: bool) -> Iterator[Calls]:
    """Has one call fail until the block ends.

    Args:
        at: which one.
        number: the error, of `errno`.
        after: whether it has changed the disk by then.
    """
    calls = Calls()

    def broken(call: Callable[..., Any]) -> Callable[..., Any]:
        def one(*arguments: Any, **more: Any) -> Any:
            mine, calls.number = calls.number, calls.number + 1
            if mine == at and not after:
                raise OSError(number, os.strerror(number))
            result = call(*arguments, **more)
            if mine == at:
                raise OSError(number, os.strerror(number))
            return result

        return one

    with pytest.MonkeyPatch.context() as patch:
        for name in _CHANGES:
            patch.setattr(os, name, broken(getattr(os, name)))
        create = os.open

        def opened(path: Any, flags: int, *arguments: Any, **more: Any) -> Any:
            changes = broken(create) if flags & os.O_CREAT else create
            return changes(path, flags, *arguments, **more)

        patch.setattr(os, "open", opened)
        yield calls
