"""Owners, groups, modes and ACLs of a local disk: read from one file and given to another.

An ACL is an extended attribute of Linux, in its own form: uint32 2, then of each entry uint16 tag,
uint16 bits, uint32 number. Disks with another kind of ACL (NFSv4) show modes only.
"""

import errno
import grp
import os
import pwd
import stat
import struct
from contextlib import suppress
from functools import partial

from statemaint.listing import Access
from statemaint.storage.access import READ, USE, deprived, of_directory, unreadable
from statemaint.storage.local.opened import readable, sync

_ACL = "system.posix_acl_access"
_VERSION = 2
_OWNER, _USER, _GROUP, _NAMED_GROUP, _MASK, _OTHER = 1, 2, 4, 8, 16, 32
_KINDS = {_USER: "user", _NAMED_GROUP: "group"}
_NO_NUMBER = 0xFFFFFFFF
# The errors of file systems without ACLs, and of files without one.
_NONE = frozenset({errno.ENODATA, errno.ENOTSUP, errno.ENOSYS})
_SUPERUSER = "0"
# Only its creator may use a new directory until it has its final rights.
_PRIVATE_DIRECTORY = 0o700

FileOrPath = int | str
"""An open file, or a path."""


def access_of(status: os.stat_result) -> Access:
    return Access(str(status.st_uid), str(status.st_gid), stat.S_IMODE(status.st_mode))


def read_access(place: FileOrPath) -> Access:
    access = access_of(os.stat(place))  # noqa: PTH116 -- may be an open file
    acl = _acl(place)
    if not acl:
        return access
    entries = list(struct.iter_unpack("<HHI", acl[struct.calcsize("<I") :]))
    own = next((bits for tag, bits, _ in entries if tag == _GROUP), access.mode >> 3 & USE)
    named = tuple((_KINDS[tag], str(who), bits) for tag, bits, who in entries if tag in _KINDS)
    return Access(access.owner, access.group, access.mode, own, named)


def give(handle: int, access: Access, *, exact: bool = False) -> None:
    """Gives one of our open files an owner, a group, a mode and an ACL, as far as permitted.

    The caller must read the result again: some disks refuse, and some ignore the call silently.
    With `exact`, the ACL entries that a directory gives to new files are removed.
    """
    owner, group = int(access.owner), int(access.group)
    status = os.fstat(handle)
    if (status.st_uid, status.st_gid) != (owner, group):
        try:
            os.fchown(handle, owner, group)
        except OSError:  # only root gives files away
            with suppress(OSError):
                os.fchown(handle, -1, group)
    with suppress(OSError):
        if access.group_bits is not None:
            os.setxattr(handle, _ACL, _packed(access))
        elif exact and _acl(handle):
            os.removexattr(handle, _ACL)
    with suppress(OSError):
        plain = stat.S_ISREG(status.st_mode)  # such a file needs no set-ID or sticky bit
        os.fchmod(handle, access.mode & 0o777 if plain else access.mode)


def must_serve(
    handle: FileOrPath, path: str, access: Access, like: str, *, bits: int = READ
) -> None:
    """Checks that every user of the file `like`, whose access is given, may use another."""
    actual = read_access(handle)
    who = deprived(access, actual, bits=bits, belongs=_belongs, superuser=_SUPERUSER)
    if who:
        raise unreadable(path, like, _named(who), _shown(actual), bits=bits)


def make_directory(parent: int, name: str, path: str, *, serve: bool) -> None:
    """Creates a directory for the users of its open parent; `serve` fails rather than omit one."""
    try:
        os.mkdir(name, _PRIVATE_DIRECTORY, dir_fd=parent)
    except FileExistsError:  # another thread's
        return
    with readable(parent) as above, readable(parent, name) as handle:
        wanted = of_directory(read_access(above))
        try:
            give(handle, wanted)
            if serve:
                must_serve(handle, path, wanted, path.rpartition("/")[0] or ".", bits=USE)
        except BaseException:
            with suppress(OSError):  # another thread has put a file into it
                os.rmdir(name, dir_fd=above)
            raise
        sync(above)


def _acl(place: FileOrPath) -> bytes:
    if not hasattr(os, "getxattr"):  # only Linux has it
        return b""
    try:
        return os.getxattr(place, _ACL)
    except OSError as error:
        if error.errno not in _NONE:
            raise
        return b""


def _packed(access: Access) -> bytes:
    bits = partial(struct.pack, "<HHI")
    users, groups = (
        b"".join(bits(tag, granted, int(one)) for of, one, granted in access.named if of == kind)
        for tag, kind in _KINDS.items()
    )
    return (
        struct.pack("<I", _VERSION)
        + bits(_OWNER, access.mode >> 6 & USE, _NO_NUMBER)
        + users
        + bits(_GROUP, access.group_bits or 0, _NO_NUMBER)
        + groups
        + bits(_MASK, access.mode >> 3 & USE, _NO_NUMBER)
        + bits(_OTHER, access.mode & USE, _NO_NUMBER)
    )


def _belongs(user: str, group: str) -> bool:
    try:
        account = pwd.getpwuid(int(user))
        return int(group) in os.getgrouplist(account.pw_name, account.pw_gid)
    except (KeyError, OSError):
        return False


def _named(who: str) -> str:
    kind, _, number = who.partition(" ")
    with suppress(KeyError, ValueError):
        if kind == "user":
            return f"user {pwd.getpwuid(int(number)).pw_name}"
        if kind == "group":
            return f"group {grp.getgrgid(int(number)).gr_name}"
    return who


def _shown(access: Access) -> str:
    owner, group = _named(f"user {access.owner}"), _named(f"group {access.group}")
    return f"mode {access.mode:04o}, {owner}, {group}"
