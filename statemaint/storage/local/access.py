"""Files of a local disk: opened, and their owners, groups, modes and ACLs.

An ACL is an extended attribute of Linux, in its own form: uint32 2, then of each entry uint16 tag,
uint16 bits, uint32 number. Disks with another kind of ACL (NFSv4) show modes only.
"""

import errno
import grp
import os
import pwd
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from io import BytesIO
from types import TracebackType
from typing import BinaryIO

from statemaint.errors import (
    AlreadyExistsError,
    CodecError,
    NotFoundError,
    StorageError,
    WrongKindError,
)
from statemaint.listing import Access
from statemaint.storage.access import READ, USE, deprived, of_directory, unreadable
from statemaint.storage.base import MOST_READ, NO_FILE, must_be_small, own_link

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

# A file of up to this size is read when it is opened, in one call and without a separate buffer.
_SMALL = 64 * 1024
# The errors of fsync(2) on what cannot be synced, such as directories of some FUSE mounts.
_NO_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS})

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
    return replace(access, group_bits=own, named=named)


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
        b"".join(bits(tag, granted, int(who)) for of, who, granted in access.named if of == kind)
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


class Translated:
    """A block in which an error of the operating system becomes a storage error."""

    # A class, because every request runs in such a block: a generator takes three times as long.

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if isinstance(error, FileNotFoundError):
            raise NotFoundError(self._path) from error
        if isinstance(error, FileExistsError):
            raise AlreadyExistsError(self._path) from error
        if isinstance(error, OSError):
            raise StorageError.of_os(self._path, error) from error


def sync(handle: int) -> None:
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
        why = (
            f"its file system refuses fsync ({error.strerror}), so nothing that is written there "
            "is sure to survive a crash; keep the checkpoint on a file system that supports it"
        )
        raise OSError(error.errno, why) from error


@contextmanager
def readable(parent: int, name: str = ".") -> Iterator[int]:
    """Opens a directory in an open one, so that it can be synced and its access read."""
    handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        yield handle
    finally:
        os.close(handle)


class Opened(AbstractContextManager[BinaryIO]):
    """An open regular file; a pipe in its place counts as a damaged file."""

    __slots__ = ("_open", "_path", "_small", "_stream")

    def __init__(
        self, opened: Callable[[str], tuple[int, int]], path: str, *, small: bool = False
    ) -> None:
        # `opened` returns the file's handle and size. A large file that should be small counts as
        # damaged, and nothing of it is read.
        self._open, self._path, self._small = opened, path, small

    def __enter__(self) -> BinaryIO:
        with Translated(self._path):
            handle, size = self._open(self._path)
            self._stream = _stream(handle, size)
            if self._small and size > MOST_READ:
                self._stream.close()
                must_be_small(size, self._path)
        return self._stream

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with Translated(self._path):
            self._stream.close()
        Translated(self._path).__exit__(kind, error, trace)


def open_regular(place: str, path: str, *, directory: int | None = None) -> tuple[int, int]:
    """Opens a file, in an open directory if it is no link; returns its handle and its size."""
    # Without O_NONBLOCK, opening a pipe waits for a writer; for a regular file it has no effect.
    flags = os.O_RDONLY | os.O_NONBLOCK
    if directory is None:
        handle = os.open(place, flags)
    else:
        handle = open_no_link(place, flags, path, directory)
    status = os.fstat(handle)
    if stat.S_ISREG(status.st_mode):
        return handle, status.st_size
    os.close(handle)
    if stat.S_ISDIR(status.st_mode):
        raise WrongKindError(NO_FILE, path=path)
    raise CodecError("it is not a regular file", offset=0, path=path)


def open_no_link(name: str, flags: int, path: str, directory: int) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=directory)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise own_link(path) from None


def _stream(handle: int, size: int) -> BinaryIO:
    if size > _SMALL:
        return os.fdopen(handle, "rb")
    try:
        content = os.read(handle, size + 1)
    except OSError:
        os.close(handle)
        raise
    if len(content) != size:  # it has just grown or shrunk
        os.lseek(handle, 0, os.SEEK_SET)
        return os.fdopen(handle, "rb")
    os.close(handle)
    return BytesIO(content)


@contextmanager
def regular(place: tuple[int, str], path: str) -> Iterator[int]:
    directory, name = place
    handle, _ = open_regular(name, path, directory=directory)
    try:
        yield handle
    finally:
        os.close(handle)
