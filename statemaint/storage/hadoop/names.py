"""The steps by which files of a Hadoop file system get their names.

The directory of a file must exist; none creates it.
"""

from typing import Any

from statemaint.errors import AlreadyExistsError, StorageError
from statemaint.storage.hadoop.errors import is_unsupported
from statemaint.storage.hadoop.jvm import Jvm

_FS = "org.apache.hadoop.fs."


class ContextNames:
    """Names through `FileContext`."""

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
        """Renames a file, in one step if the file system can."""
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
        """Renames a file; an existing target is deleted first, if `overwrite` allows it."""
        self._files.getFileStatus(path)
        self._files.getFileStatus(to.getParent())
        if self._files.exists(to):
            if not overwrite:
                raise AlreadyExistsError(to.toString())
            self._files.delete(to, False)
        if not self._files.rename(path, to):
            raise StorageError(to.toString(), "the file system did not rename it")


def names_of(jvm: Jvm, files: Any, conf: Any) -> ContextNames | PlainNames:
    """Returns the names of a file system, through `FileContext` if it has one."""
    try:
        context = jvm.java(_FS + "FileContext").getFileContext(files.getUri(), conf)
    except jvm.errors as error:
        if is_unsupported(error):
            return PlainNames(jvm, files)
        raise
    return ContextNames(jvm, context)
