"""What is made of an exception of Java when PySpark stands in between."""

from typing import cast

import pytest
from py4j.protocol import Py4JError

from statemaint.errors import NotFoundError, StorageError
from statemaint.storage.hadoop.jvm import Jvm, translated


class Java:
    """An exception of Java, as far as it is asked."""

    def __init__(self, name: str, message: str = "/a/1") -> None:
        self._name, self._message = name, message

    def getClass(self) -> "Java":  # noqa: N802 -- Java's name
        return self

    def getName(self) -> str:  # noqa: N802
        return self._name

    def getMessage(self) -> str:  # noqa: N802
        return self._message

    def getCause(self) -> None:  # noqa: N802
        return None


class Alive:
    errors = (Py4JError, OSError)
    alive = True


def throw(error: Exception) -> None:
    raise error


def throw_both(words: str) -> None:
    java = Py4JError("An error occurred while calling o1.open.")
    java.java_exception = Java("java.io.FileNotFoundException")
    try:
        throw(java)
    except Py4JError:
        throw(Py4JError(words))


def said(words: str) -> StorageError:
    """Returns what is said when another error follows while one of Java is being handled."""
    with pytest.raises(StorageError) as found, translated(cast("Jvm", Alive()), "a/1"):
        throw_both(words)
    return found.value


def test_what_pyspark_could_not_convert_is_what_java_said() -> None:
    words = "An error occurred while calling z:org.apache.spark.util.Utils.exceptionString. Trace:"
    assert isinstance(said(words), NotFoundError)


def test_another_error_that_follows_is_no_answer_about_the_file() -> None:
    found = said("An error occurred while trying to connect to the Java server")
    assert not isinstance(found, NotFoundError)
    assert "trying to connect" in str(found)


def in_safe_mode(message: str) -> str:
    java = Py4JError("An error occurred while calling o1.open.")
    java.java_exception = Java("org.apache.hadoop.hdfs.server.namenode.SafeModeException", message)
    with pytest.raises(StorageError) as found, translated(cast("Jvm", Alive()), "a/1"):
        throw(java)
    return str(found.value)


def test_a_read_while_the_namenode_starts_is_not_said_to_be_a_write() -> None:
    read = in_safe_mode("Zero blocklocations for /ck/a/1. Name node is in safe mode.")
    assert read.startswith(
        "a/1: the NameNode has just started and does not know yet where the file's blocks are; "
        "wait until it leaves safe mode: "
    )
    assert "writes" not in read
    write = in_safe_mode("Cannot create file /ck/a/1. Name node is in safe mode.")
    assert write.startswith("a/1: the NameNode is in safe mode and takes no writes: Cannot create")


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        ("/data/a/1 (Permission denied)", r"^a/1: no rights: /data/a/1 \(Permission denied\)$"),
        ("/data/a/1 (Too many open files)", r"^a/1: IOException: /data/a/1 \(Too many open files"),
    ],
)
def test_a_file_of_a_local_disk_that_is_not_opened_is_not_missing(refusal: str, words: str) -> None:
    error = Py4JError("An error occurred while calling o1.open.")
    error.java_exception = Java("java.io.FileNotFoundException", refusal)
    with pytest.raises(StorageError, match=words) as found, translated(cast("Jvm", Alive()), "a/1"):
        throw(error)
    assert not isinstance(found.value, NotFoundError)
    assert found.value.lasting == ("no rights" in words)


@pytest.mark.parametrize(
    "missing",
    [
        "/data/a/1 (No such file or directory)",
        "/data/a/1 (Is a directory)",
        "File does not exist: /data/a (Old)",
    ],
)
def test_a_missing_file_is(missing: str) -> None:
    error = Py4JError("An error occurred while calling o1.open.")
    error.java_exception = Java("java.io.FileNotFoundException", missing)
    with pytest.raises(NotFoundError), translated(cast("Jvm", Alive()), "a/1"):
        throw(error)
