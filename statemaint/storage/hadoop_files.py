"""One Hadoop file system, in the few steps that a storage is made of.

Each method is one request, which it counts, and translates what fails. Names appear by
`FileContext`, as those of Spark's checkpoints do, whose rename refuses an existing target or
replaces it in one step. Where a file system has none (its plugin is older than `FileContext`), the
plain rename of `FileSystem` has to do, again as in Spark.
"""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from statemaint.errors import AlreadyExistsError, NotFoundError, StorageError
from statemaint.storage.hadoop_errors import (
    AppendRefusedError,
    is_unsupported,
    local_stream,
    opening,
    translated,
)
from statemaint.storage.hadoop_jvm import Jvm
from statemaint.storage.hadoop_listing import (
    Lister,
    Status,
    batched_lister,
    path_part,
    single_lister,
)

_FS = "org.apache.hadoop.fs."
_COPY_BYTES = 1 << 16

# Here the file system itself refuses to rename onto an existing name, in the same step.
_ATOMIC = frozenset({"hdfs", "webhdfs", "swebhdfs"})
# Here it does where names are a tree of their own (hierarchical namespace), which goes with rights.
_ATOMIC_WITH_RIGHTS = frozenset({"abfs", "abfss"})
_RIGHTS = "fs.capability.paths.acls"
_APPEND = "fs.capability.paths.append"


class Names(Protocol):
    """How a file appears under a name."""

    def create(self, path: Any) -> Any:
        """Opens a new file for writing, in a directory that must be there."""
        ...

    def rename(self, path: Any, to: Any, *, overwrite: bool) -> None:
        """Renames a file."""
        ...


class HadoopFiles:
    """The directory of an address. Paths are relative to it, but those of `list`."""

    def __init__(self, jvm: Jvm, uri: str, requests: Counter[str]) -> None:
        self.jvm = jvm
        self._requests = requests
        self._make_path = jvm.java(_FS + "Path")
        with opening(jvm, uri):
            conf = jvm.configuration()
            _without_side_files(conf)
            given = self._make_path(uri)
            self._files = jvm.java(_FS + "FileSystem").newInstance(given.toUri(), conf)
            root = self._files.makeQualified(given).toString()
            self._names = _names(jvm, self._files, conf)
        self.root = path_part(root).rstrip("/")
        self._base = root[: len(root) - len(path_part(root))]
        self.scheme = self._base.partition(":")[0]
        # Where the file system does not do it, the threads of this process at least take turns.
        self._turn = threading.Lock()

        self._lister = self._best_lister()

    def _best_lister(self) -> Lister:
        make = single_lister if self.scheme == "file" else batched_lister
        return make(self.jvm, self._files)

    def list(self, directories: Sequence[str]) -> list[Status]:
        """Returns what is in some directories; these paths begin at the file system's root.

        Raises:
            NotFoundError: when one of them is not there.
        """
        self._requests["list"] += len(directories)
        return self._lister(directories)

    def exclusive(self) -> bool:
        """Tells whether a rename refuses an existing name in the same step."""
        with translated(self.jvm, self.root):
            root = self._path("")
            scheme = self.scheme
            if scheme == "viewfs":
                scheme = self._files.resolvePath(root).toUri().getScheme()
            if scheme in _ATOMIC_WITH_RIGHTS:
                return bool(self._files.hasPathCapability(root, _RIGHTS))
            return scheme in _ATOMIC

    def status(self, path: str) -> Status:
        """Returns a file's or a directory's status."""
        self._requests["stat"] += 1
        with translated(self.jvm, path):
            status = self._files.getFileStatus(self._path(path))
            modified = status.getModificationTime() / 1000
            return Status(path, status.isDirectory(), status.getLen(), modified)

    def exists(self, path: str) -> bool:
        """Tells whether a file or a directory is there."""
        try:
            self.status(path)
        except NotFoundError:
            return False
        return True

    def make_directory(self, path: str) -> None:
        """Makes a directory with its parents."""
        self._requests["mkdir"] += 1
        with translated(self.jvm, path):
            self._files.mkdirs(self._path(path))

    def copy_out(self, path: str, local: str) -> None:
        """Copies a file's content to the end of a local file."""
        self._requests["read"] += 1
        with translated(self.jvm, path):
            source = self._files.open(self._path(path))
            self._copy(source, local_stream(self.jvm, "Output", local, path))

    def copy_in(self, local: str, path: str, *, of: str) -> None:
        """Copies a local file to a new temp file of some path; its directory must be there."""
        self._requests["write"] += 1
        self._copy_in(local, lambda: self._names.create(self._path(path)), of)

    def append(self, local: str, path: str) -> None:
        """Adds a local file's content to a file.

        Raises:
            AppendRefusedError: when the file system cannot, or another writer holds the file.
        """
        self._requests["append"] += 1
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
        # Closes both, and says when that failed. On HDFS a closed file is complete on all its
        # DataNodes, each of which writes it to disk when it sees fit: what Spark relies on too.
        self.jvm.java("org.apache.hadoop.io.IOUtils").copyBytes(source, target, _COPY_BYTES, True)

    def last_byte(self, path: str, size: int) -> int:
        """Returns the byte at the end of a file of that size."""
        self._requests["read"] += 1
        with translated(self.jvm, path):
            stream = self._files.open(self._path(path))
            try:
                stream.seek(size - 1)
                return int(stream.read())
            finally:
                stream.close()

    def rename(self, path: str, to: str, *, overwrite: bool = False) -> None:
        """Renames a file into a directory that must be there."""
        self._requests["rename"] += 1
        try:
            with self._turn, translated(self.jvm, to):
                self._names.rename(self._path(path), self._path(to), overwrite=overwrite)
        except (AlreadyExistsError, NotFoundError):
            raise
        except StorageError:
            # Object stores that lose the race say only that the rename failed.
            if not overwrite and self.exists(path) and self.exists(to):
                raise AlreadyExistsError(to, "a file of that name is already there") from None
            raise

    def delete(self, path: str) -> None:
        """Deletes a file, which need not be there."""
        self._requests["delete"] += 1
        with translated(self.jvm, path):
            gone = self._files.delete(self._path(path), False)
        if not gone and self.exists(path):  # local disks say no more than that
            raise StorageError(path, "the file system did not delete it")

    def _path(self, path: str) -> Any:
        # A space, a `%` or a `#` stand for themselves, as in Spark's own paths.
        return self._make_path(
            f"{self._base}{self.root}/{path}" if path else self._base + (self.root or "/")
        )


def _without_side_files(conf: Any) -> None:
    # Hadoop's usual view of a local disk hides the `.NAME.crc` files that it makes.
    conf.set("fs.file.impl", _FS + "RawLocalFileSystem")
    conf.set("fs.AbstractFileSystem.file.impl", _FS + "local.RawLocalFs")


def _names(jvm: Jvm, files: Any, conf: Any) -> Names:
    try:
        context = jvm.java(_FS + "FileContext").getFileContext(files.getUri(), conf)
    except jvm.errors as error:
        if is_unsupported(error):
            return PlainNames(files)
        raise
    return ContextNames(jvm, context)


class ContextNames:
    """By `FileContext`."""

    def __init__(self, jvm: Jvm, context: Any) -> None:
        flag = jvm.java(_FS + "CreateFlag").CREATE
        rename = jvm.java(_FS + "Options$Rename")
        self._context = context
        self._create = jvm.java("java.util.EnumSet").of(flag)
        self._nothing = jvm.array(_FS + "Options$CreateOpts")
        self._keep = jvm.array(_FS + "Options$Rename", rename.NONE)
        self._replace = jvm.array(_FS + "Options$Rename", rename.OVERWRITE)

    def create(self, path: Any) -> Any:
        """Opens a new file for writing; unlike `FileSystem`, it makes no parents unless told."""
        return self._context.create(path, self._create, self._nothing)

    def rename(self, path: Any, to: Any, *, overwrite: bool) -> None:
        """Renames a file in one step, where the file system can."""
        self._context.rename(path, to, self._replace if overwrite else self._keep)


class PlainNames:
    """By `FileSystem`: between two of its steps, another writer's file may be lost or absent."""

    def __init__(self, files: Any) -> None:
        self._files = files

    def create(self, path: Any) -> Any:
        """Opens a new file for writing."""
        self._files.getFileStatus(path.getParent())
        return self._files.create(path, False)

    def rename(self, path: Any, to: Any, *, overwrite: bool) -> None:
        """Renames a file; what is in the way is deleted first, where that is allowed."""
        self._files.getFileStatus(path)
        self._files.getFileStatus(to.getParent())
        if self._files.exists(to):
            if not overwrite:
                raise AlreadyExistsError(to.toString(), "a file of that name is already there")
            self._files.delete(to, False)
        if not self._files.rename(path, to):
            raise StorageError(to.toString(), "the file system did not rename it")
