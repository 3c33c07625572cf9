"""The temporary directory, for data that does not fit in memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from statemaint.errors import StorageError


@contextmanager
def temporary_directory() -> Iterator[None]:
    """Turns errors of the temporary directory, such as a full disk, into `StorageError`."""
    try:
        yield
    except OSError as error:
        text = error.strerror or str(error)
        raise StorageError("the temporary directory", text) from error


@contextmanager
def workplace() -> Iterator[Path]:
    """Yields a directory on local disk that is deleted at the end of the block."""
    with temporary_directory():
        place = TemporaryDirectory(prefix="statemaint-", ignore_cleanup_errors=True)
    with place as path:
        yield Path(path)
