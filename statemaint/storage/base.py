"""The contract of a storage; `tests/support/storage_contract.py` tests each storage against it."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from threading import Lock
from typing import BinaryIO, Protocol

from statemaint.errors import CodecError, NotFoundError, RefusedLinkError
from statemaint.listing import LATEST, Entry
from statemaint.workers import nothing

# Files that are read whole are small: logs, metadata, RocksDB's zips. State is read as a stream.
MOST_READ = 128 * 1024 * 1024
# 2016, the year of the first Structured Streaming release: no file of a checkpoint is older.
_FIRST = 1_451_606_400.0
OURS = "_statemaint"
"""The directory of maintainers' own files, below which no link is followed (S24)."""
PROBES = f"{OURS}/probe"
"""The directory of files by which a storage tries what its server can do."""
NO_DIRECTORY = (
    "it is a file where Spark has a directory, which cannot be repaired from the remaining files: "
    "restore the directory from a copy"
)
NO_FILE = "it is a directory where Spark has a file"
_STATE_FILE = re.compile(r".+\.(?:delta|snapshot|changelog|zip)")


def named_as_file(name: str) -> bool:
    return _STATE_FILE.fullmatch(name) is not None


def missing_newline(before: bytes) -> bytes:
    """Returns the end of a line that a crash has cut short."""
    return b"\n" if before and not before.endswith(b"\n") else b""


def is_ours(path: str) -> bool:
    return path.partition("/")[0] == OURS


def own_link(path: str) -> RefusedLinkError:
    detail = (
        f"it is a link, and below {OURS}/ no link is followed: it may lead to the files of another "
        "checkpoint. Nothing is written or deleted; remove the link, or put what it leads to in "
        "its place"
    )
    return RefusedLinkError(path, detail)


def outside_link(path: str, real: str = "") -> RefusedLinkError:
    """Returns the error of a file whose real place, if it is known, is outside the checkpoint."""
    detail = (
        f"its real place{f', {real},' if real else ''} is outside the checkpoint: nothing is "
        "written or deleted there. Put a copy in place of the link, or mount a disk of its own "
        "there"
    )
    return RefusedLinkError(path, detail)


def file_time(seconds: float) -> float | None:
    # Hadoop reports 0 for an unknown time, and tools that copy files without times set 0, 1 or
    # 1980: ages old enough for every deletion. Damaged metadata has years beyond 9999.
    return seconds if _FIRST <= seconds <= LATEST else None


def must_be_small(size: int, path: str, most: int = MOST_READ) -> None:
    if size > most:
        shown = f"{most >> 20} MiB" if most >> 20 else f"{most >> 10} KiB"
        detail = f"it has more than {shown}, more than any such file; it is not read"
        raise CodecError(detail, offset=most, path=path)


def read_small(stream: BinaryIO, path: str, most: int = MOST_READ) -> bytes:
    """Returns the rest of a stream; raises `CodecError` if it has more than `most` bytes."""
    content = stream.read(most + 1)
    if len(content) > most:
        content = b""  # an error that is kept keeps this frame
        must_be_small(most + 1, path, most)
    return content


class Tally:
    """The number of requests of each kind; threads may share it."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = Lock()

    def add(self, verb: str, requests: int = 1) -> None:
        with self._lock:
            self._counts[verb] += requests

    def counts(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)


Chunks = Iterable[bytes]
"""The content of a file."""
Check = Callable[[], object]
"""Called before requests that destroy; any exception that it raises ends the work."""
Moves = Sequence[tuple[Entry, str]]
"""Files as they were listed, each with its new name."""
Moved = Callable[[Entry], object]
"""Called with a file that no longer has its old name."""


def entry_shown(stream: BinaryIO) -> Entry | None:
    """Returns the entry that the storage has shown together with the content of an opened file."""
    return getattr(stream, "entry", None)  # of many files: no `isinstance` with a protocol


class Storage(Protocol):
    """A tree of files under one root. Paths are relative to it, with `/` between their parts.

    A storage inherits from it, and with that the methods that take several of its requests.

    Every method raises `StorageError` when the place cannot be reached or refuses, and
    `NotFoundError` for a missing file that it needs; an answer is always complete (S10). Threads
    may share one storage.

    If the storage has links, they are followed for reading, and listed files whose real place is
    outside the root are marked (`Entry.outside`). What writes or deletes raises `RefusedLinkError`
    instead of leaving the root, and so does every method for a path that leads through a link at or
    below `_statemaint`, or for a listing that comes upon one there (S24). The root itself may be a
    link.
    """

    _root: str

    @property
    def root(self) -> str:
        """Returns the address of the root, as the operator would write it."""
        return self._root

    def list(self, prefix: str) -> Iterator[Entry]:
        """Yields every file below a directory, at any depth; nothing when it does not exist.

        Only a file that vanishes while the listing runs may be left out. A directory that is
        `named_as_file` is also an entry, with a slash at the end of its path: the state file of
        that name cannot be written. For a file in place of the directory, raises `WrongKindError`.
        """

    def folders(self, prefix: str) -> Iterator[str]:
        """Yields the names of the folders directly in a directory; none if it does not exist.

        A folder without files may be among them.
        """

    def stat(self, path: str) -> Entry: ...

    def read(self, path: str) -> bytes:
        """Returns the whole content of a file; raises `CodecError` above `MOST_READ` bytes."""

    def open(self, path: str) -> AbstractContextManager[BinaryIO]:
        """Opens a seekable file for reading from its start; the caller closes it.

        A file that is replaced meanwhile is read as it was, or reading raises `Superseded`.
        """

    def write(
        self, path: str, chunks: Chunks, *, overwrite: bool = False, like: str | None = None
    ) -> Entry:
        """Makes a file appear complete and durable in one step, or not at all.

        A crash leaves at most a temp file of the form `.NAME.<uuid>.tmp` beside it.

        Args:
            path: the path of the file.
            chunks: its content.
            overwrite: whether the file may already exist.
            like: an existing file: every reader of it can read the new file, which gets its owner,
                group, mode and ACL, or its encryption, tags and grants, as far as the storage has
                any (S22). Without it the file is a record of maintainers: if there are modes, it
                is readable by those who may use the root.

        Returns:
            The file's entry. The time of a new file that is `like` another may be unknown if its
            tag identifies it: a read of the file shows it (`entry_shown`), and so does `stat`.

        Raises:
            AlreadyExistsError: when the file exists and may not be overwritten; it is untouched.
            UnreadableError: when a reader of `like` could not read the new file, which then does
                not appear.
        """

    def replace(self, path: str, chunks: Chunks) -> None:
        """Makes one of our records appear as `write` does, whatever had its name.

        It takes one request on S3, because the new file's entry is not needed.
        """
        self.write(path, chunks, overwrite=True)

    def append(self, path: str, lines: bytes) -> None:
        """Appends whole lines to a file, durable on return; creates the file if it is missing.

        A line that a crash cut short is ended by a newline first, so that it spoils no other line.
        """

    def delete(self, path: str) -> None:
        """Deletes a file; deleting a missing file is not an error."""

    def delete_all(self, paths: Sequence[str], *, before: Check = nothing) -> None:
        """Deletes files in as few requests as the storage allows; missing files are not an error.

        `before` is called before every request, or, if each file takes one, before the first and at
        least every half second. A `StorageError` names the first refused file and the number of
        refused files; others may already be deleted, in any order.
        """
        for path in paths:
            before()
            self.delete(path)

    def create_root(self) -> None:
        """Creates the folder of the root, and those above it, unless it exists.

        Nothing else does: a mistyped address stays an error. A storage in which folders exist only
        with their files has nothing to do.
        """
        nothing()

    def delete_folders(self, folder: str) -> None:
        """Deletes the empty folders at and below a folder, if they exist apart from their files."""
        del folder

    def move(self, path: str, to: str, *, like: str | None = None) -> None:
        """Renames a file, which appears complete and durable under its new name in one step.

        A crash may leave the file under both names, never under neither. It keeps its owner, group,
        mode and ACL; if a move is a copy, its encryption, tags and metadata. Every reader of the
        existing file `like` can read the file under its new name.

        Raises:
            AlreadyExistsError: when the new name is taken; both files are untouched.
            UnreadableError: when a reader of `like` could not read the file under its new name; it
                keeps its old name.
        """

    def move_all(self, moves: Moves, *, before: Check = nothing, after: Moved = nothing) -> None:
        """Moves files in as few requests as the storage allows; missing files are not an error.

        Each file appears under its new name as by `move`. A crash may leave any number of the files
        under both names. The new names are free, and only the caller creates files there: an object
        store does not check it.

        `before` is called as by `delete_all`, before the requests that remove files from their old
        names; `after` with each file that no longer has its old name, as far as that is known
        without another request.

        Raises:
            Superseded: when the tag of a file is no longer the listed one; the file is untouched.
            AlreadyExistsError: when a new name is taken, if the storage notices; both files are
                untouched.
            StorageError: when a file is not moved. Others may already be moved, in any order.
        """
        for entry, to in moves:
            before()
            with suppress(NotFoundError):
                self.move(entry.path, to)
            after(entry)

    def check_readable(self, path: str, *, like: str) -> None:
        """Raises `UnreadableError` unless every reader of `like` is known to be able to read."""

    def links(self, folder: str) -> Sequence[str]:
        """Returns the paths of all links at or below a folder, sorted; none of them is followed.

        It is empty, at no cost, if the storage has no links.
        """
        del folder
        return ()

    @property
    def requests(self) -> Mapping[str, int]:
        """Returns the number of requests made so far, by the storage's own verbs."""

    @property
    def parallel(self) -> int:
        """Returns the number of requests that are worth making at a time; 1 if all are fast."""
        return 1

    @property
    def exclusive(self) -> bool:
        """Returns whether `write` without `overwrite` is atomic among writers; may take a trial.

        If it is not, two writers of one new file at the same moment may both conclude that they
        created it; code that needs a single winner refuses to work there.
        """

    @property
    def obstacle(self) -> str:
        """Returns why the storage is not `exclusive` and what to do; empty if nothing is known.

        Nothing is written: before a trial, it is what reading has shown.
        """
        return ""

    def now(self) -> float:
        """Returns the seconds since the epoch by the clock that stamps the files."""
