"""Java's failures, each reported as one clear line."""

import tempfile
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from typing import Any

from statemaint.errors import (
    AlreadyExistsError,
    ConfigError,
    NotFoundError,
    StatemaintError,
    StorageError,
)
from statemaint.storage.hadoop.jvm import Jvm

_ABSENT = frozenset({"FileNotFoundException", "NoSuchFileException", "PathNotFoundException"})
_TAKEN = frozenset({"FileAlreadyExistsException", "PathExistsException"})
NO_CLASS = frozenset({"ClassNotFoundException", "UnsupportedFileSystemException"})
_DENIED = "no rights"
_REFUSED = {
    "AccessControlException": _DENIED,
    "AccessDeniedException": _DENIED,
    "ConnectException": "cannot be reached",
    "ConnectTimeoutException": "cannot be reached",
    "NoRouteToHostException": "cannot be reached",
    "SocketTimeoutException": "cannot be reached",
    "UnknownHostException": "cannot be reached, no such host",
    "SafeModeException": "the NameNode is in safe mode and takes no writes",
    "DSQuotaExceededException": "the quota of bytes is used up",
    "NSQuotaExceededException": "the quota of names is used up",
    "EOFException": "the connection ended",
}
# Of a read in safe mode; a write is refused in any.
_STARTING = (
    "the NameNode has just started and does not know yet where the file's blocks are; wait "
    "until it leaves safe mode"
)
_KNOWN = _ABSENT | _TAKEN | NO_CLASS | _REFUSED.keys()

# The Maven artifacts that have the file systems of these schemes; PySpark brings none of them.
_JARS = {
    "abfs": "org.apache.hadoop:hadoop-azure",
    "abfss": "org.apache.hadoop:hadoop-azure",
    "adl": "org.apache.hadoop:hadoop-azure-datalake",
    "gs": "com.google.cloud.bigdataoss:gcs-connector (its shaded jar)",
    "o3fs": "org.apache.ozone:ozone-filesystem-hadoop3",
    "ofs": "org.apache.ozone:ozone-filesystem-hadoop3",
    "s3a": "org.apache.hadoop:hadoop-aws",
    "wasb": "org.apache.hadoop:hadoop-azure",
    "wasbs": "org.apache.hadoop:hadoop-azure",
}
_MOST_CAUSES = 8


class AppendRefusedError(StorageError):
    """The file cannot be appended to now: unsupported, or its last writer still holds it."""


# The last writer died with the file open, and HDFS gives it a minute to return.
_NOT_NOW = frozenset({"AlreadyBeingCreatedException", "RecoveryInProgressException"})
_NO_APPEND = frozenset({"UnsupportedOperationException"})
NO_ACLS = _NO_APPEND | {"AclException"}


@contextmanager
def translated(jvm: Jvm, path: str) -> Iterator[None]:
    try:
        yield
    except jvm.errors as error:
        raise _storage_error(jvm, error, path) from error


@contextmanager
def on_this_machine(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        detail = f"its copy in {tempfile.gettempdir()} failed: {error.strerror or error}"
        raise StorageError(path, detail) from error


def local_stream(jvm: Jvm, kind: str, local: str, path: str) -> Any:
    """Returns a Java stream on a local temp file, an "Input" or an "Output" (at its end)."""
    # Java reports every file that it cannot open as not found. For a temp file, that report must
    # never look like an answer about the storage (S10).
    more = (True,) if kind == "Output" else ()
    try:
        return jvm.java(f"java.io.File{kind}Stream")(local, *more)
    except jvm.errors as error:
        causes = _causes(error)
        detail = causes[0][1] if causes else _of_the_connection(jvm, error)
        raise StorageError(path, f"its copy on this machine: {detail}") from error


@contextmanager
def opening(jvm: Jvm, root: str) -> Iterator[None]:
    try:
        yield
    except jvm.errors as error:
        if is_caused_by(error, NO_CLASS):
            scheme = root.partition(":")[0]
            jar = _JARS.get(scheme, "the jar of that file system")
            raise ConfigError(
                f"{root}: Hadoop has no file system for {scheme!r} here; "
                f"add {jar}: PYSPARK_SUBMIT_ARGS='--packages GROUP:NAME:VERSION pyspark-shell'"
            ) from error
        raise _storage_error(jvm, error, root) from error


def is_caused_by(error: Exception, names: AbstractSet[str]) -> bool:
    return any(name in names for name, _ in _causes(error))


def _storage_error(jvm: Jvm, error: Exception, path: str) -> StatemaintError:
    causes = _causes(error)
    if not causes:
        return StorageError(path, _of_the_connection(jvm, error))
    outermost = causes[0]
    name, message = next((cause for cause in causes if cause[0] in _KNOWN), outermost)
    if name in _ABSENT:
        return NotFoundError(path)
    if name in _TAKEN:
        return AlreadyExistsError(path)
    if outermost[0] in _NOT_NOW | _NO_APPEND:
        return AppendRefusedError(path, message)
    what = _REFUSED.get(name, name)
    if name == "SafeModeException" and "Zero blocklocations" in message:
        what = _STARTING
    failure = StorageError(path, ": ".join(filter(None, (what, message))))
    failure.lasting = what == _DENIED
    return failure


def _of_the_connection(jvm: Jvm, error: Exception) -> str:
    if not jvm.alive or isinstance(error, OSError):
        return "the Java process that reaches Hadoop has ended; run again"
    return _first_line(str(error))


def _causes(error: Exception) -> list[tuple[str, str]]:
    """Returns the names and first lines of a Java exception and its causes; none if Java ended."""
    causes: list[tuple[str, str]] = []
    with suppress(Exception):  # Java died since: its report is still true
        java = _java(error)
        while java is not None and len(causes) < _MOST_CAUSES:
            causes.append((_name(java), _first_line(java.getMessage())))
            java = java.getCause()
    return causes


def _java(error: BaseException) -> Any:
    # Once it runs, PySpark wraps some Java exceptions in its own. To do so it calls its session's
    # Java, which does not know our exception and answers with another error.
    if not hasattr(error, "java_exception") and error.__context__ is not None:
        first, *_ = str(error).splitlines() or [""]
        if "calling z:org.apache.spark." in first:
            return _java(error.__context__)
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def _name(java: Any) -> str:
    name: str = java.getClass().getName()
    if name == "org.apache.hadoop.ipc.RemoteException":
        name = java.getClassName()  # the exception that the server threw
    return name.rpartition(".")[2]


def _first_line(message: str | None) -> str:
    line, *_ = (message or "").strip().splitlines() or [""]
    return line.partition("; For more details see:")[0]
