"""The Java process that gives access to Hadoop's classes, one for each Python process.

PySpark provides it. A Spark that runs in this process is shared; otherwise this module launches its
own Java, which reads `HADOOP_CONF_DIR` and Spark's settings as a Spark job would, and ends with
this process, however that ends. Each of Java's failures is reported as one clear line.
"""

import atexit
import os
import re
import subprocess
import sys
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

from statemaint.errors import (
    AlreadyExistsError,
    ConfigError,
    NotFoundError,
    StatemaintError,
    StorageError,
)

_NEEDED = "Hadoop file systems are reached through PySpark and Java 17 or later"
_END_SECONDS = 5.0

# Set if the user's own configuration has no value. Hadoop's defaults wait a quarter of an hour
# for a NameNode that does not answer, and 0.4 s before they check a second time whether the last
# block of a file is in place; ours wait as long for the block, but check in finer steps.
_DEFAULTS = {
    "ipc.client.connect.max.retries": "3",
    "ipc.client.connect.max.retries.on.timeouts": "2",
    "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "25",
    "dfs.client.block.write.locateFollowingBlock.retries": "9",
}


class Jvm:
    """A Java process. Threads may share it."""

    def __init__(self, gateway: Any) -> None:
        from py4j.protocol import Py4JError  # noqa: PLC0415 -- an extra
        from pyspark.errors import PySparkException

        # What its methods raise; OSError when the process has ended.
        self.errors: tuple[type[Exception], ...] = (Py4JError, PySparkException, OSError)
        self._gateway = gateway
        self._classes: dict[str, Any] = {}
        self._unused: deque[Any] = deque()
        self._owner = os.getpid()

    def java(self, name: str) -> Any:
        """Returns a Java class without asking Java, so a wrong name fails at its first use."""
        from py4j.java_gateway import JavaClass  # noqa: PLC0415 -- an extra

        if name not in self._classes:
            self._classes[name] = JavaClass(name, self._gateway._gateway_client)  # noqa: SLF001
        return self._classes[name]

    def array(self, name: str, *items: object, size: int = 0) -> Any:
        """Returns an array of a Java class that holds the items, or `size` nulls."""
        array = self._gateway.new_array(self.java(name), len(items) or size)
        for index, item in enumerate(items):
            array[index] = item
        return array

    def close_after(self, owner: object, resource: Any) -> None:
        """Closes a Java object once its Python owner is gone, at the next call of this method."""
        # Not when the owner goes, which may be in the middle of a request to Java.
        weakref.finalize(owner, self._unused.append, resource)
        while self._unused:
            with suppress(IndexError, *self.errors):  # another thread's; or Java has ended
                self._unused.popleft().close()

    def configuration(self) -> Any:
        context = _spark_context("_active_spark_context")
        if context is not None and context._gateway is self._gateway:  # noqa: SLF001 -- as below
            given = context._jsc.hadoopConfiguration()  # noqa: SLF001 -- PySpark has no other way
        else:
            spark = self.java("org.apache.spark.SparkConf")()  # with the spark.hadoop.* settings
            given = (
                self.java("org.apache.spark.deploy.SparkHadoopUtil").get().newConfiguration(spark)
            )
        conf = self.java("org.apache.hadoop.conf.Configuration")(given)
        for name, value in _DEFAULTS.items():
            sources = conf.getPropertySources(name) or ()
            # Only Hadoop's own files have such names.
            if all(str(source).endswith("-default.xml") for source in sources):
                conf.set(name, value)
        return conf

    @property
    def alive(self) -> bool:
        """Whether the process may still be used; one launched by other code is trusted."""
        process = self._process
        return process is None or process.poll() is None

    def end(self) -> None:
        """Ends the process and waits for it; does nothing in a process forked from its owner."""
        process = self._process
        if process is None or self._owner != os.getpid():
            return
        self._gateway.shutdown()
        if process.stdin:
            process.stdin.close()  # its Java waits for this
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    @property
    def _process(self) -> "subprocess.Popen[bytes] | None":
        process: subprocess.Popen[bytes] | None = vars(self._gateway).get("proc")
        return process


# A Java takes seconds to start and hundreds of megabytes, so all storages of a process share one.
# Keyed by process, because a forked child must not use its parent's connections.
_shared: dict[int, Jvm] = {}
_lock = threading.Lock()


def shared_jvm() -> Jvm:
    """Returns this process's Java, launched at the first call and ended with the process."""
    with _lock:
        jvm = _shared.get(os.getpid())
        if jvm is None or not jvm.alive:
            jvm = _of_running_spark()
            if jvm is None:
                jvm = launch_jvm()
                atexit.register(jvm.end)
            _shared[os.getpid()] = jvm
        return jvm


def launch_jvm() -> Jvm:
    """Returns a Java that the caller ends; its environment is this process's."""
    try:
        from pyspark.errors import PySparkException
        from pyspark.java_gateway import launch_gateway
    except ImportError as error:
        what = "PySpark is not installed; `pip install 'statemaint[hadoop]'`"
        raise ConfigError(f"{_NEEDED}, and {what}") from error
    # Everything that Spark's launcher and Hadoop's client log is written to an unnamed file, which
    # is quoted if the launch fails; standard output must contain results only.
    with tempfile.TemporaryFile() as log:
        try:
            gateway = launch_gateway(  # type: ignore[no-untyped-call]
                popen_kwargs={"stdout": log, "stderr": log}
            )
            return Jvm(gateway)
        except (PySparkException, OSError) as error:
            raise ConfigError(f"{_NEEDED}, which did not start: {_why(log)}") from error


def _of_running_spark() -> Jvm | None:
    gateway = _spark_context("_gateway")
    jvm = None if gateway is None else Jvm(gateway)
    return jvm if jvm and jvm.alive else None


def _spark_context(name: str) -> Any:
    # Looks at loaded modules only: a process that has not imported PySpark runs no Spark.
    return getattr(getattr(sys.modules.get("pyspark"), "SparkContext", None), name, None)


def _why(log: BinaryIO) -> str:
    log.seek(0)
    lines = [line.strip() for line in log.read().decode(errors="replace").splitlines()]
    shown = [line for line in lines if line and not line.startswith(("at ", "WARNING", "Using "))]
    return shown[0] if shown else "it printed nothing; set JAVA_HOME to a Java 17"


# -- failures

_ABSENT = frozenset({"FileNotFoundException", "NoSuchFileException", "PathNotFoundException"})
_UNOPENED = re.compile(r"/.* \((?!No such file or directory|Is a directory)([A-Z].*)\)")
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
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), "org.apache.hadoop:hadoop-azure"),
    "adl": "org.apache.hadoop:hadoop-azure-datalake",
    "gs": "com.google.cloud.bigdataoss:gcs-connector (its shaded jar)",
    **dict.fromkeys(("o3fs", "ofs"), "org.apache.ozone:ozone-filesystem-hadoop3"),
    "s3a": "org.apache.hadoop:hadoop-aws",
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
            causes.append(_cause(java))
            java = java.getCause()
    return causes


def _cause(java: Any) -> tuple[str, str]:
    name, message = _name(java), _first_line(java.getMessage())
    # Of a local disk, Java reports every file that it cannot open as not found.
    if name in _ABSENT and (refusal := _UNOPENED.fullmatch(message)):
        name = "AccessDeniedException" if refusal[1] == "Permission denied" else "IOException"
    return name, message


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
