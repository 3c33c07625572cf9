"""One line of a storage's listing."""

from dataclasses import dataclass, field
from typing import Any

LATEST = 253_402_300_799.0
"""The last second of the year 9999: nothing can show a later time."""
_END_OF_TIME = 250_000_000_000.0  # the year 9892: there are times to be added to


def valid_time(value: Any) -> float:
    """Returns the time in a record; raises `ValueError` or `TypeError` if it cannot be one."""
    time = float(value)
    if not 0 <= time < _END_OF_TIME:
        raise ValueError(value)
    return time


@dataclass(frozen=True, slots=True)
class Access:
    """The rights to a file, on a storage with modes: the POSIX model with ACLs."""

    owner: str  # the owner's name, or number if the storage uses numbers
    group: str  # the name or number of the owning group
    mode: int  # the permission bits; with ACL entries the group's bits are the mask of these
    group_bits: int | None = None  # the bits of the owning group itself, if there are ACL entries
    named: tuple[tuple[str, str, int], ...] = ()  # ACL: `user` or `group`, its name, its bits


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A file as its storage lists it."""

    path: str  # relative to the checkpoint's root, with `/` between its parts
    size: int  # in bytes
    modified: float | None  # since the epoch by the storage's own clock; `None` if it has none
    tag: str | None = None  # the storage's own mark of the content, such as an ETag, if it has one
    # The rights, without ACL entries, if the listing includes them at no cost; not compared.
    access: Access | None = field(default=None, compare=False, repr=False)
    # Whether a link leads to it and its real place is outside the root (S24); not compared.
    outside: bool = field(default=False, compare=False, repr=False)

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]
