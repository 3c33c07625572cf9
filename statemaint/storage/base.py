"""The contract of a storage; `tests/support/storage_contract.py` holds each of them against it."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import BinaryIO, Protocol

from statemaint.errors import CodecError
from statemaint.listing import Entry

# What is read whole is small: logs, metadata, the zips of RocksDB. State is read as a stream.
MOST_READ = 128 * 1024 * 1024
# 2016, the year of the first Structured Streaming: no file of a checkpoint is older.
_FIRST = 1_451_606_400.0
NO_DIRECTORY = (
    "it is a file where Spark has a directory, which cannot be repaired from the files that are "
    "left: put the directory back from a copy"
)
NO_FILE = "it is a directory where Spark has a file"
_STATE_FILE = re.compile(r".+\.(?:delta|snapshot|changelog|zip)")


def nothing() -> None:
    """Does nothing."""


def named_as_file(name: str) -> bool:
    """Returns whether a directory has the name of a state file, which cannot be written then."""
    return _STATE_FILE.fullmatch(name) is not None


def file_time(seconds: float) -> float | None:
    """Returns a file's time, `None` where it is not the time of any write.

    Hadoop's file systems report 0 for a time that they do not know, and tools that copy files
    without their times leave 0, 1 or the year 1980. Read as an age, any of these would be old
    enough for every deletion.
    """
    return seconds if seconds >= _FIRST else None


def must_be_small(size: int, path: str) -> None:
    """Raises `CodecError` for a file that is too large to be what is read whole."""
    if size > MOST_READ:
        detail = f"it has more than {MOST_READ >> 20} MiB, as no such file has; it is not read"
        raise CodecError(detail, offset=MOST_READ, path=path)


def read_small(stream: BinaryIO, path: str) -> bytes:
    """Returns what is left in a stream.

    Raises:
        CodecError: when that is more than any file has that is read whole.
    """
    content = stream.read(MOST_READ + 1)
    must_be_small(len(content), path)
    return content


class Storage(Protocol):
    """A tree of files under one root. Paths are relative to it, with `/` between their parts.

    Every method raises `StorageError` when the place cannot be reached or refuses; an answer is
    always whole (S10). Threads may share one storage.
    """

    @property
    def root(self) -> str:
        """Returns the address of the root, as a person would give it."""
        ...

    def list(self, prefix: str) -> Iterator[Entry]:
        """Yields every file below a directory, at any depth; nothing when it does not exist.

        A file that vanishes while the listing runs may be left out; nothing else may. A directory
        that is `named_as_file` is an entry as well, with a slash at the end of its path.

        Raises:
            WrongKindError: when it is a file.
        """
        ...

    def stat(self, path: str) -> Entry:
        """Returns one file's entry.

        Raises:
            NotFoundError: when there is no such file.
        """
        ...

    def read(self, path: str) -> bytes:
        """Returns the whole content of a file of at most `MOST_READ` bytes.

        Raises:
            NotFoundError: when there is no such file.
            CodecError: when it is larger.
        """
        ...

    def open(self, path: str) -> AbstractContextManager[BinaryIO]:
        """Opens a file for reading from its start, or from where one seeks; the caller closes it.

        A file that is replaced meanwhile is read as it was, or reading raises `Superseded`.

        Raises:
            NotFoundError: when there is no such file.
        """
        ...

    def write(
        self,
        path: str,
        chunks: Iterable[bytes],
        *,
        overwrite: bool = False,
        like: str | None = None,
    ) -> Entry:
        """Makes a file appear whole and durable in one step, or not at all.

        A crash leaves at most a temp file of the form `.NAME.<uuid>.tmp` beside it.

        Args:
            path: of the file.
            chunks: its content.
            overwrite: whether it may be there already.
            like: a file that is there: whoever reads it can read the new one, which has its owner,
                group, mode and ACL, or its encryption, tags and grants, as far as the storage has
                any (S22). Without it the file is a record of maintainers: where there are modes, it
                is for those who may use the root.

        Raises:
            AlreadyExistsError: when the file exists and may not be overwritten; it is untouched.
            NotFoundError: when the file that it is to be like is not there.
            UnreadableError: when somebody who reads that one could not read the new one, which then
                does not appear.
        """
        ...

    def append(self, path: str, lines: bytes) -> None:
        """Adds whole lines to a file, durable on return; makes the file where there is none.

        What a crash cut short is ended by a newline first, so that it spoils no other line.
        """
        ...

    def delete(self, path: str) -> None:
        """Deletes a file; deleting what is not there is no error."""
        ...

    def delete_all(self, paths: Sequence[str], *, before: Callable[[], object] = nothing) -> None:
        """Deletes files in as few requests as the storage allows; absent ones are no error.

        Args:
            paths: the files.
            before: is called ahead of every request; whatever it raises ends the work.

        Raises:
            StorageError: naming the first file that was refused, and how many were. Others may be
                gone by then, in any order.
        """
        ...

    def move(self, path: str, to: str, *, like: str | None = None) -> None:
        """Gives a file another name, under which it appears whole and durable in one step.

        A crash may leave the file under both names, never under neither. It keeps its owner, group,
        mode and ACL; where a move is a copy, its encryption, tags and metadata.

        Args:
            path: of the file.
            to: its new path.
            like: a file that is there: whoever reads it can read the file under its new name.

        Raises:
            NotFoundError: when there is no such file, or none that it is to be like.
            AlreadyExistsError: when the new name is taken; both files are untouched.
            UnreadableError: when somebody who reads that one could not read it under its new name;
                it keeps its old one.
        """
        ...

    def check_readable(self, path: str, *, like: str) -> None:
        """Makes sure that whoever reads one file may read another, as far as that can be told.

        Raises:
            UnreadableError: when somebody may not, or cannot be told to.
            NotFoundError: when either file is not there.
        """
        ...

    @property
    def requests(self) -> Mapping[str, int]:
        """Returns how many requests were made so far, by the storage's own verbs."""
        ...

    @property
    def exclusive(self) -> bool:
        """Tells whether `write` without `overwrite` is atomic among writers.

        Where it is not, two that write one new file at the same moment may both believe that they
        made it; whatever must have one winner refuses to work there.

        Raises:
            StorageError: when it had to be tried, and could not be.
        """
        ...

    def now(self) -> float:
        """Returns the seconds since the epoch by the clock that stamps the files."""
        ...
