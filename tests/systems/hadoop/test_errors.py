"""What is made of an exception of Java when PySpark stands in between."""

from typing import cast

import pytest
from py4j.protocol import Py4JError

from statemaint.errors import NotFoundError, StorageError
from statemaint.storage.hadoop.errors import translated
from statemaint.storage.hadoop.jvm import Jvm


class Java:
    """An exception of Java, as far as it is asked."""

    def __init__(self, name: str) -> None:
        self._name = name

    def getClass(self) -> "Java":  # noqa: N802 -- Java's name
        return self

    def getName(self) -> str:  # noqa: N802
        return self._name

    def getMessage(self) -> str:  # noqa: N802
        return "/a/1"

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
