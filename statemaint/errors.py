"""Every error that statemaint raises on purpose, in one tree, by whose fault it is.

`code` is stable and upper case; `exit_code` is the program's exit code. Facts are attributes;
`__str__` makes the sentence (what, where, what to do).
"""

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from statemaint.wording import moment

# The errors of an operating system that refuses the caller, whenever it asks.
_DENIED = frozenset({errno.EPERM, errno.EACCES, errno.EROFS})


class StatemaintError(Exception):
    """The root of the tree; the CLI prints it as one line and never with a traceback."""

    code = "FAULT"
    exit_code = 1
    lasting = True
    """Whether another attempt fails in the same way: it does unless a storage or a lease failed."""


class ConfigError(StatemaintError):
    """The caller's request is invalid."""

    code = "CONFIG"
    exit_code = 2


class NotInstalledError(ConfigError):
    """A package that comes with an extra of this one is missing."""

    def __init__(self, package: str, *, extra: str) -> None:
        super().__init__(package, extra)
        self.package, self.extra = package, extra

    def __str__(self) -> str:
        return f"{self.package} is not installed; `pip install 'statemaint[{self.extra}]'`"


class NotACheckpointError(ConfigError):
    """The given address holds no files of a streaming query."""

    code = "NOT_A_CHECKPOINT"

    def __init__(self, root: str, detail: str) -> None:
        super().__init__(root, detail)
        self.root, self.detail = root, detail

    def __str__(self) -> str:
        return (
            f"{self.root}: not a streaming checkpoint, {self.detail}; "
            "give the query's checkpointLocation"
        )


class UnsupportedError(ConfigError):
    """The checkpoint is sound, but this version of statemaint cannot maintain its kind."""

    code = "UNSUPPORTED"

    def __init__(self, root: str, what: str, supported: str) -> None:
        super().__init__(root, what, supported)
        self.root, self.what, self.supported = root, what, supported

    def __str__(self) -> str:
        return f"{self.root}: {self.what} is not supported, only {self.supported}; nothing was done"


class NotExclusiveError(UnsupportedError):
    """Two maintainers could not exclude each other; `why` says what the storage lacks."""

    def __init__(self, root: str, why: str) -> None:
        super().__init__(root, "a storage where two writers can both create the same file", why)
        self.why = why

    @property
    def detail(self) -> str:
        what = "two writers can both create the same file, so two maintainers could run at once"
        return f"{what}, and nothing is written or deleted{self.why and ': '}{self.why}"

    def __str__(self) -> str:
        return f"{self.root}: {self.detail}"


class _PathError(StatemaintError):
    def __init__(self, path: str, detail: str) -> None:
        super().__init__(path, detail)
        self.path, self.detail = path, detail

    def __str__(self) -> str:
        return f"{self.path}: {self.detail}"


class CheckpointError(_PathError):
    """The checkpoint's own data contradict each other."""

    code = "CHECKPOINT"
    exit_code = 3


class DamagedError(CheckpointError):
    """A finding makes the answer impossible; `code` is the finding's code.

    `version` is a version that lacks only a snapshot, if there is one.
    """

    def __init__(self, path: str, detail: str, *, code: str, version: int | None = None) -> None:
        super().__init__(path, detail)
        self.code, self.version = code, version
        if code == "STORAGE_FAILED":
            self.exit_code, self.lasting = StorageError.exit_code, StorageError.lasting


class CodecError(CheckpointError):
    """Bytes that do not follow the format; `offset` counts from the start of the stored file."""

    code = "CORRUPT_FILE"

    def __init__(self, detail: str, *, offset: int, path: str = "") -> None:
        super().__init__(path, detail)
        self.offset = offset

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        return f"{where}{self.detail} (at byte {self.offset})"

    def at(self, path: str) -> "CodecError":
        return type(self)(self.detail, offset=self.offset, path=path)


@contextmanager
def in_file(path: str) -> Iterator[None]:
    """Adds the file's path to a `CodecError` of the block, unless it has one."""
    try:
        yield
    except CodecError as error:
        raise error if error.path else error.at(path) from error


class WrongKindError(CodecError):
    """A directory where Spark has a file, or a file where it has a directory."""

    def __init__(self, detail: str, *, offset: int = 0, path: str = "") -> None:
        super().__init__(detail, offset=offset, path=path)

    def __str__(self) -> str:
        return f"{self.path}: {self.detail}"


class StaleChecksumError(CheckpointError):
    """A checksum file does not belong to the file beside it; Spark refuses to load that file."""

    code = "STALE_CHECKSUM"

    def __init__(self, path: str, owner: str, why: str = "does not match") -> None:
        super().__init__(path, f"{why} {owner}; Spark refuses to load it")
        self.owner = owner


class SnapshotMismatchError(CheckpointError):
    """A snapshot does not hold the state that the files below it fold to."""

    code = "SNAPSHOT_MISMATCH"

    def __init__(self, path: str, *, found: str, expected: str, why: str = "") -> None:
        detail = f"it holds {found}, the files below it fold to {expected}"
        super().__init__(path, f"{detail}; {why}" if why else detail)
        self.found, self.expected, self.why = found, expected, why

    def because(self, why: str) -> "SnapshotMismatchError":
        return SnapshotMismatchError(
            self.path, found=self.found, expected=self.expected, why=why or self.why
        )


class MissingSstError(CheckpointError):
    """A snapshot names an SST file that does not exist; Spark cannot load the snapshot."""

    code = "MISSING_SST"

    def __init__(self, path: str, sst: str) -> None:
        super().__init__(path, f"{sst}, which belongs to it, does not exist; Spark cannot load it")
        self.sst = sst


class StorageError(_PathError):
    """The storage could not be reached, or refused a request."""

    code = "STORAGE"
    exit_code = 5
    lasting = False
    """Another attempt fails in the same way if access is denied, or there are no keys."""

    @classmethod
    def of_os(cls, path: str, error: OSError) -> "StorageError":
        failure = cls(path, error.strerror or str(error))
        failure.lasting = error.errno in _DENIED
        return failure


class IncompleteListingError(StorageError):
    """Some directories could not be listed; raised after everything else was yielded.

    `refused` has the error of each, with its own path.
    """

    def __init__(self, refused: Sequence[StorageError]) -> None:
        super().__init__(refused[0].path, refused[0].detail)
        self.refused = tuple(refused)
        self.lasting = all(error.lasting for error in refused)

    def __str__(self) -> str:
        more = f" (and {len(self.refused) - 1} more directories)" if self.refused[1:] else ""
        return f"{super().__str__()}{more}"


class NotFoundError(StorageError):
    """The storage answered with certainty that the file does not exist."""

    code = "NOT_FOUND"

    def __init__(self, path: str, detail: str = "no such file") -> None:
        super().__init__(path, detail)


class AlreadyExistsError(StorageError):
    """A file of that name appeared before ours and was left as it is."""

    code = "ALREADY_EXISTS"

    def __init__(self, path: str, detail: str = "a file of that name is already there") -> None:
        super().__init__(path, detail)


class UnreadableError(StorageError):
    """A reader of the files beside a file, possibly the query, might not be able to read it."""

    code = "UNREADABLE_BY_QUERY"


class RefusedLinkError(StorageError):
    """A link that is not followed: one below `_statemaint`, or one that leads out of the root."""

    code = "REFUSED_LINK"
    exit_code = 3
    lasting = True


class LeaseHeldError(StatemaintError):
    """Another run maintains the checkpoint; `until` is in seconds since the epoch.

    If the run has `ended`, its last tasks may not have noticed yet, for a few seconds.
    """

    code = "LEASE_HELD"
    exit_code = 4
    lasting = False

    def __init__(
        self, root: str, owner: str, run: str, until: float, *, ended: bool = False
    ) -> None:
        super().__init__(root, owner, run, until)
        self.root, self.owner, self.run, self.until, self.ended = root, owner, run, until, ended

    def __str__(self) -> str:
        run = f" (run {self.run})" if self.run else ""
        until = f"{moment(self.until)} UTC"
        if self.ended:
            return (
                f"{self.root}: a run of {self.owner}{run} has ended; no other begins before "
                f"{until}, when the last of its tasks has noticed; wait until then"
            )
        return (
            f"{self.root}: {self.owner}{run} maintains it and holds the lease until {until} unless "
            "it renews it; wait until then"
        )


class LeaseLostError(StatemaintError):
    """The lease was ended, or another run took it over, before this run noticed."""

    code = "LEASE_LOST"
    exit_code = 4
    lasting = False

    def __init__(self, root: str, number: int, why: str = "") -> None:
        super().__init__(root, number, why)
        self.root, self.number = root, number
        self.why = why or "its run was ended, or another run has taken it over"

    def __str__(self) -> str:
        return f"{self.root}: lease {self.number} is lost, {self.why}; this run stops here"


class Superseded(_PathError):  # noqa: N818 -- the word that operators see
    """The query (or another maintainer) moved on after the plan was made."""

    code = "SUPERSEDED"
    exit_code = 6

    def __str__(self) -> str:
        return f"{super().__str__()}; plan again"
