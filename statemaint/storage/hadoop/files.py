"""One Hadoop file system, as the few steps that a storage needs, and temp files of this machine.

Each method makes one request, counts it and translates its failures. Files get their names through
`FileContext`, as in Spark's checkpoints: its rename refuses an existing target or replaces it in
one step. If a file system has none (its plugin is older than `FileContext`), the plain rename of
`FileSystem` is used, again as in Spark.
"""

import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from statemaint.errors import AlreadyExistsError, NotFoundError, StorageError
from statemaint.listing import Access
from statemaint.storage.access import READ, USE, deprived, unreadable
from statemaint.storage.base import Tally
from statemaint.storage.hadoop.errors import (
    AppendRefusedError,
    has_no_acls,
    local_stream,
    on_this_machine,
    opening,
    translated,
)
from statemaint.storage.hadoop.jvm import Jvm
from statemaint.storage.hadoop.listing import (
    Lister,
    Status,
    batched_lister,
    path_part,
    single_lister,
)
from statemaint.storage.hadoop.names import names_of

_FS = "org.apache.hadoop.fs."
_COPY_BYTES = 1 << 16

# These file systems refuse to rename onto an existing name, in the same step.
_ATOMIC = frozenset({"hdfs", "webhdfs", "swebhdfs"})
# These do so if they have a hierarchical namespace, which includes access rights.
_ATOMIC_WITH_RIGHTS = frozenset({"abfs", "abfss"})
_RIGHTS = "fs.capability.paths.acls"
_APPEND = "fs.capability.paths.append"
_LETTERS = "rwx"


class HadoopFiles:
    """The directory at an address. Paths are relative to it, except those of `list`."""

    def __init__(self, jvm: Jvm, uri: str, requests: Tally) -> None:
        self.jvm = jvm
        self._requests = requests
        self._make_path = jvm.java(_FS + "Path")
        with opening(jvm, uri):
            conf = jvm.configuration()
            # Hadoop's usual view of a local disk hides the `.NAME.crc` files that it creates.
            conf.set("fs.file.impl", _FS + "RawLocalFileSystem")
            conf.set("fs.AbstractFileSystem.file.impl", _FS + "local.RawLocalFs")
            given = self._make_path(uri)
            self._files = jvm.java(_FS + "FileSystem").newInstance(given.toUri(), conf)
            root = self._files.makeQualified(given).toString()
            self._names = names_of(jvm, self._files, conf)
        self.root = path_part(root).rstrip("/")
        self._base = root[: len(root) - len(path_part(root))]
        self.scheme = self._base.partition(":")[0]
        # If the file system's rename is not atomic, at least this process's threads take turns.
        self._turn = threading.Lock()

        make = single_lister if self.scheme == "file" else batched_lister
        self._lister: Lister = make(jvm, self._files)
        self._acls: bool | None = None  # whether the file system has any; None until the first call
        self._gives = True  # until it refuses to give one of our files to another user

    def list(self, directories: Sequence[str]) -> list[Status]:
        """Returns the entries of some directories; these paths begin at the file system's root."""
        self._requests.add("list", len(directories))
        return self._lister(directories)

    def renames_exclusively(self) -> bool:
        with translated(self.jvm, self.root):
            root = self._path("")
            scheme = self.scheme
            if scheme == "viewfs":
                scheme = self._files.resolvePath(root).toUri().getScheme()
            if scheme in _ATOMIC_WITH_RIGHTS:
                return bool(self._files.hasPathCapability(root, _RIGHTS))
            return scheme in _ATOMIC

    def status(self, path: str) -> Status:
        self._requests.add("stat")
        with translated(self.jvm, path):
            status = self._files.getFileStatus(self._path(path))
            modified = status.getModificationTime() / 1000
            return Status(path, status.isDirectory(), status.getLen(), modified)

    def exists(self, path: str) -> bool:
        try:
            self.status(path)
        except NotFoundError:
            return False
        return True

    def make_directory(self, path: str, mode: int) -> None:
        self._requests.add("mkdir")
        with translated(self.jvm, path):
            self._names.make_directory(self._path(path), mode)

    def create_root(self) -> None:
        self._requests.add("mkdir")
        with translated(self.jvm, self.root):
            self._files.mkdirs(self._path(""))

    def access(self, path: str) -> Access:
        self._requests.add("stat")
        with translated(self.jvm, path):
            status = self._files.getFileStatus(self._path(path))
            mode = int(status.getPermission().toShort())
            access = Access(str(status.getOwner()), str(status.getGroup()), mode)
        return with_entries(access, self._entries(path))

    def _entries(self, path: str) -> str:
        if self._acls is None:
            with translated(self.jvm, path):
                self._acls = bool(self._files.hasPathCapability(self._path(path), _RIGHTS))
        if not self._acls:
            return ""
        self._requests.add("acl")
        with translated(self.jvm, path):
            try:
                status = self._files.getAclStatus(self._path(path))
            except self.jvm.errors as error:
                if not has_no_acls(error):
                    raise
                self._acls = False  # the client supports ACLs, the server does not
                return ""
            return str(status.getEntries().toString())

    def serve(self, path: str, wanted: Access, like: str, *, of: str, bits: int = READ) -> None:
        """Lets every user of a file use one of ours, as far as this process may grant it.

        The access to that file is `wanted`; errors have the names `of` and `like` for ours and for
        that.
        """
        access = self.give(path, wanted)
        must_serve(of, access, like, wanted, bits=bits)

    def give(self, path: str, wanted: Access) -> Access:
        """Gives one of our files an owner, a group, a mode and an ACL; returns what it has then."""
        access = self.access(path)
        if access == wanted:
            return access
        self._give(path, wanted, access)
        return self.access(path)

    def _give(self, path: str, wanted: Access, access: Access) -> None:
        self._give_away(path, wanted, access)
        permission = self.jvm.java(_FS + "permission.FsPermission")
        parse = self.jvm.java(_FS + "permission.AclEntry").parseAclSpec
        if wanted.group_bits is not None and self._acls:
            acl = spec(wanted)
            self._try("setacl", path, lambda it: self._files.setAcl(it, parse(acl, True)))
        elif access.group_bits is not None:
            self._try("setacl", path, self._files.removeAcl)
        if (wanted.mode, None) != (access.mode, access.group_bits):
            mode = f"{wanted.mode:04o}"
            self._try("chmod", path, lambda it: self._files.setPermission(it, permission(mode)))

    def _give_away(self, path: str, wanted: Access, access: Access) -> None:
        if wanted.owner != access.owner and self._gives:
            both = wanted.owner, wanted.group
            self._gives = self._try("chown", path, lambda it: self._files.setOwner(it, *both))
            if self._gives:
                return
        if wanted.group != access.group:
            self._try("chown", path, lambda it: self._files.setOwner(it, None, wanted.group))

    def _try(self, verb: str, path: str, step: Callable[[Any], object]) -> bool:
        """Takes a step with a path that may be refused; the caller reads the result again."""
        self._requests.add(verb)
        try:
            with translated(self.jvm, path):
                step(self._path(path))
        except StorageError:
            return False
        return True

    def copy_out(self, path: str, local: str) -> None:
        self._requests.add("read")
        with translated(self.jvm, path):
            source = self._files.open(self._path(path))
            self._copy(source, local_stream(self.jvm, "Output", local, path))

    def copy_in(
        self, local: str, path: str, *, of: str, mode: int, overwrite: bool = False
    ) -> None:
        """Copies a local file into a directory that must exist; errors have the path `of`."""
        self._requests.add("write")

        def opened() -> Any:
            return self._names.create(self._path(path), mode, overwrite=overwrite)

        self._copy_in(local, opened, of)

    def open_new(self, path: str, mode: int) -> Any:
        """Opens a new file, which the caller closes; one that another writer has open exists."""
        self._requests.add("write")
        try:
            with translated(self.jvm, path):
                return self._names.create(self._path(path), mode)
        except AppendRefusedError as error:
            raise AlreadyExistsError(path, "another writer has it open") from error

    def append(self, local: str, path: str) -> None:
        """Appends a local file's content; raises `AppendRefusedError` if that is impossible now."""
        self._requests.add("append")
        with translated(self.jvm, path):
            target = self._path(path)
            if not self._files.hasPathCapability(target, _APPEND):
                raise AppendRefusedError(path, "its file system cannot append")
        self._copy_in(local, lambda: self._files.append(target), path)

    def _copy_in(self, local: str, opened: Callable[[], Any], of: str) -> None:
        with translated(self.jvm, of):
            source = local_stream(self.jvm, "Input", local, of)
            try:
                target = opened()
            except self.jvm.errors:
                source.close()
                raise
            self._copy(source, target)

    def _copy(self, source: Any, target: Any) -> None:
        # Closes both, and raises when closing fails. On HDFS a closed file is complete on all its
        # DataNodes, each of which writes it to disk in its own time; Spark relies on this too.
        self.jvm.java("org.apache.hadoop.io.IOUtils").copyBytes(source, target, _COPY_BYTES, True)

    def last_byte(self, path: str, size: int) -> int:
        self._requests.add("read")
        with translated(self.jvm, path):
            stream = self._files.open(self._path(path))
            try:
                stream.seek(size - 1)
                return int(stream.read())
            finally:
                stream.close()

    def rename(self, path: str, to: str, *, of: str, overwrite: bool = False) -> None:
        """Renames a file into a directory that must exist; errors have the path `of`."""
        self._requests.add("rename")
        try:
            with self._turn, translated(self.jvm, of):
                self._names.rename(self._path(path), self._path(to), overwrite=overwrite)
        except NotFoundError:
            raise
        except AlreadyExistsError as error:
            raise AlreadyExistsError(to) from error
        except StorageError:
            # Object stores that lose the race report only that the rename failed.
            if not overwrite and self.exists(path) and self.exists(to):
                raise AlreadyExistsError(to) from None
            raise

    def delete(self, path: str) -> None:
        self._requests.add("delete")
        with translated(self.jvm, path):
            deleted = self._files.delete(self._path(path), False)
        if not deleted and self.exists(path):  # local disks report no more than that
            raise StorageError(path, "the file system did not delete it")

    def _path(self, path: str) -> Any:
        # A space, a `%` and a `#` are literal, as in Spark's own paths.
        return self._make_path(
            f"{self._base}{self.root}/{path}" if path else self._base + (self.root or "/")
        )


def must_serve(path: str, access: Access, like: str, wanted: Access, *, bits: int = READ) -> None:
    """Checks that every user of one file may use another; no user's groups are known."""
    if who := deprived(wanted, access, bits=bits):
        shown = f"mode {access.mode:04o}, user {access.owner}, group {access.group}"
        raise unreadable(path, like, who, shown, bits=bits)


# In Hadoop's notation an ACL's entries are `user:NAME:r--`, `group::r-x` (of the owning group) and
# `group:NAME:r--`. Those with the prefix `default:` apply to new files in a directory, not to it.


def with_entries(access: Access, entries: str) -> Access:
    """Returns a file's access, extended by the entries of its ACL: Java's list of them as text."""
    own, named = None, []
    for entry in filter(None, entries.strip("[]").split(", ")):
        kind, *rest = entry.split(":")
        name, bits = ":".join(rest[:-1]), _bits(rest[-1])
        if kind == "group" and not name:
            own = bits
        elif kind in ("user", "group") and name:
            named.append((kind, name, bits))
    if own is None and not named:
        return access
    mask = access.mode >> 3 & USE
    group = mask if own is None else own
    return Access(access.owner, access.group, access.mode, group, tuple(named))


def spec(access: Access) -> str:
    """Returns an ACL as `AclEntry.parseAclSpec` reads it."""
    parts = [f"user::{_text(access.mode >> 6)}"]
    parts += [f"{kind}:{name}:{_text(bits)}" for kind, name, bits in access.named]
    parts.append(f"group::{_text(access.group_bits or 0)}")
    parts.append(f"mask::{_text(access.mode >> 3)}")
    parts.append(f"other::{_text(access.mode)}")
    return ",".join(parts)


def _bits(text: str) -> int:
    return sum(4 >> at for at, letter in enumerate(_LETTERS) if text[at : at + 1] == letter)


def _text(bits: int) -> str:
    return "".join(letter if bits & 4 >> at else "-" for at, letter in enumerate(_LETTERS))


@contextmanager
def temp_file(path: str) -> Iterator["tempfile._TemporaryFileWrapper[bytes]"]:
    """Yields a new file of this machine, for the file of a path, which is deleted in the end."""
    with on_this_machine(path):
        local = tempfile.NamedTemporaryFile(prefix="statemaint-")  # noqa: SIM115 -- below
    with local:
        yield local


def fill(
    local: "tempfile._TemporaryFileWrapper[bytes]", chunks: Iterable[bytes], path: str
) -> None:
    """Writes chunks to a file of this machine; errors name the path that it is for."""
    for chunk in chunks:
        with on_this_machine(path):
            local.write(chunk)
    with on_this_machine(path):
        local.flush()
