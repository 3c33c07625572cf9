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
from dataclasses import replace
from functools import partial
from typing import Any

from statemaint.errors import AlreadyExistsError, NotFoundError, StorageError
from statemaint.listing import Access
from statemaint.storage.access import READ, USE, deprived, unreadable
from statemaint.storage.base import Tally
from statemaint.storage.hadoop.jvm import (
    NO_ACLS,
    NO_CLASS,
    AppendRefusedError,
    Jvm,
    is_caused_by,
    local_stream,
    on_this_machine,
    opening,
    translated,
)
from statemaint.storage.hadoop.listing import (
    Lister,
    Status,
    batched_lister,
    path_part,
    single_lister,
    status_of,
)

_FS = "org.apache.hadoop.fs."
_COPY_BYTES = 1 << 16

# These file systems refuse to rename onto an existing name, in the same step.
_ATOMIC = frozenset({"hdfs", "webhdfs", "swebhdfs"})
# These do so if they have a hierarchical namespace, which includes access rights.
_ATOMIC_WITH_RIGHTS = frozenset({"abfs", "abfss"})
_RIGHTS = "fs.capability.paths.acls"
_APPEND = "fs.capability.paths.append"
_LETTERS = "rwx"


class ContextNames:
    """Names through `FileContext`, whose rename is one step if the file system can."""

    def __init__(self, jvm: Jvm, context: Any) -> None:
        flags = jvm.java(_FS + "CreateFlag")
        rename = jvm.java(_FS + "Options$Rename")
        self._jvm, self._context = jvm, context
        self._permission = jvm.java(_FS + "permission.FsPermission")
        # New files and directories get the wanted mode, whatever umask the user has configured.
        context.setUMask(self._permission("000"))
        self._create = jvm.java("java.util.EnumSet").of(flags.CREATE)
        self._over = jvm.java("java.util.EnumSet").of(flags.CREATE, flags.OVERWRITE)
        self._keep = jvm.array(_FS + "Options$Rename", rename.NONE)
        self._replace = jvm.array(_FS + "Options$Rename", rename.OVERWRITE)

    def create(self, path: Any, mode: int, *, overwrite: bool = False) -> Any:
        options = self._jvm.java(_FS + "Options$CreateOpts")
        permission = options.perms(self._permission(f"{mode:04o}"))
        how = self._jvm.array(_FS + "Options$CreateOpts", permission)
        return self._context.create(path, self._over if overwrite else self._create, how)

    def make_directory(self, path: Any, mode: int) -> None:
        self._context.mkdir(path, self._permission(f"{mode:04o}"), False)

    def rename(self, path: Any, to: Any, *, overwrite: bool) -> None:
        self._context.rename(path, to, self._replace if overwrite else self._keep)


class PlainNames:
    """Names through `FileSystem`; between its steps another writer's file may be lost or absent."""

    def __init__(self, jvm: Jvm, files: Any) -> None:
        self._files = files
        self._permission = jvm.java(_FS + "permission.FsPermission")

    def create(self, path: Any, mode: int, *, overwrite: bool = False) -> Any:
        self._files.getFileStatus(path.getParent())
        opened = self._files.create(path, overwrite)
        self._files.setPermission(path, self._permission(f"{mode:04o}"))
        return opened

    def make_directory(self, path: Any, mode: int) -> None:
        self._files.getFileStatus(path.getParent())
        self._files.mkdirs(path)
        self._files.setPermission(path, self._permission(f"{mode:04o}"))

    def rename(self, path: Any, to: Any, *, overwrite: bool) -> None:
        self._files.getFileStatus(path)
        self._files.getFileStatus(to.getParent())
        if self._files.exists(to):
            if not overwrite:
                raise AlreadyExistsError(to.toString())
            self._files.delete(to, False)
        if not self._files.rename(path, to):
            raise StorageError(to.toString(), "the file system did not rename it")


def _names_of(jvm: Jvm, files: Any, conf: Any) -> ContextNames | PlainNames:
    try:
        return ContextNames(jvm, jvm.java(_FS + "FileContext").getFileContext(files.getUri(), conf))
    except jvm.errors as error:
        if is_caused_by(error, NO_CLASS):
            return PlainNames(jvm, files)
        raise


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
            jvm.close_after(self, self._files)  # Hadoop keeps it until then
            root = self._files.makeQualified(given).toString()
            self._names = _names_of(jvm, self._files, conf)
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
        self._requests.add("list", len(directories))
        return self._lister(directories)

    @contextmanager
    def _request(self, verb: str, path: str) -> Iterator[None]:
        """A block that makes one request; Java's failures in it become storage errors."""
        self._requests.add(verb)
        with translated(self.jvm, path):
            yield

    def full(self, path: str) -> str:
        return f"{self.root}/{path}".rstrip("/") or "/"

    def renames_exclusively(self) -> bool:
        with translated(self.jvm, self.root):
            root, scheme = self._path(""), self.scheme
            if scheme == "viewfs":
                scheme = self._files.resolvePath(root).toUri().getScheme()
            if scheme in _ATOMIC_WITH_RIGHTS:
                return bool(self._files.hasPathCapability(root, _RIGHTS))
            return scheme in _ATOMIC

    def status(self, path: str) -> Status:
        with self._request("stat", path):
            return status_of(self._files.getFileStatus(self._path(path)), path)

    def exists(self, path: str) -> bool:
        try:
            self.status(path)
        except NotFoundError:
            return False
        return True

    def make_directory(self, path: str, mode: int) -> None:
        with self._request("mkdir", path):
            self._names.make_directory(self._path(path), mode)

    def create_root(self) -> None:
        with self._request("mkdir", self.root):
            self._files.mkdirs(self._path(""))

    def access(self, path: str) -> Access:
        with self._request("stat", path):
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
        with self._request("acl", path):
            try:
                status = self._files.getAclStatus(self._path(path))
            except self.jvm.errors as error:
                if not is_caused_by(error, NO_ACLS):
                    raise
                self._acls = False  # the client supports ACLs, the server does not
                return ""
            return str(status.getEntries().toString())

    def give(self, path: str, wanted: Access) -> Access:
        """Gives one of our files an owner, a group, a mode and an ACL; returns what it has then."""
        access = self.access(path)
        if access == wanted:
            return access
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
        return self.access(path)

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
        try:
            with self._request(verb, path):
                step(self._path(path))
        except StorageError:
            return False
        return True

    def copy_out(self, path: str, local: str) -> None:
        with self._request("read", path):
            source = self._files.open(self._path(path))
            self._copy(source, local_stream(self.jvm, "Output", local, path))

    def copy_in(
        self, local: str, path: str, *, of: str, mode: int, overwrite: bool = False
    ) -> None:
        """Copies a local file into a directory that must exist; errors have the path `of`."""
        self._requests.add("write")
        create = partial(self._names.create, mode=mode, overwrite=overwrite)
        self._copy_in(local, lambda: create(self._path(path)), of)

    def open_new(self, path: str, mode: int) -> Any:
        """Opens a new file, which the caller closes; one that another writer has open exists."""
        try:
            with self._request("write", path):
                return self._names.create(self._path(path), mode)
        except AppendRefusedError as error:
            raise AlreadyExistsError(path, "another writer has it open") from error

    def append(self, local: str, path: str) -> None:
        """Appends a local file's content; raises `AppendRefusedError` if that is impossible now."""
        with self._request("append", path):
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
        with self._request("read", path):
            stream = self._files.open(self._path(path))
            try:
                stream.seek(size - 1)
                return int(stream.read())
            finally:
                stream.close()

    def rename(self, path: str, to: str, *, of: str, overwrite: bool = False) -> None:
        try:
            with self._turn, self._request("rename", of):
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
        with self._request("delete", path):
            deleted = self._files.delete(self._path(path), False)
        if not deleted and self.exists(path):  # local disks report no more than that
            raise StorageError(path, "the file system did not delete it")

    def _path(self, path: str) -> Any:
        # A space, a `%` and a `#` are literal, as in Spark's own paths.
        return self._make_path(self._base + self.full(path))


def must_serve(path: str, access: Access, like: str, wanted: Access, *, bits: int = READ) -> None:
    if who := deprived(wanted, access, bits=bits):
        shown = f"mode {access.mode:04o}, user {access.owner}, group {access.group}"
        raise unreadable(path, like, who, shown, bits=bits)


# In Hadoop's notation an ACL's entries are `user:NAME:r--`, `group::r-x` (of the owning group) and
# `group:NAME:r--`. Those with the prefix `default:` apply to new files in a directory, not to it.


def with_entries(access: Access, entries: str) -> Access:
    """Returns a file's access with the entries of its ACL: Java's list of them as text."""
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
    return replace(access, group_bits=mask if own is None else own, named=tuple(named))


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
    with on_this_machine(path):
        local = tempfile.NamedTemporaryFile(prefix="statemaint-")  # noqa: SIM115 -- below
    with local:
        yield local


def fill(
    local: "tempfile._TemporaryFileWrapper[bytes]", chunks: Iterable[bytes], path: str
) -> None:
    for chunk in chunks:
        with on_this_machine(path):
            local.write(chunk)
    with on_this_machine(path):
        local.flush()
