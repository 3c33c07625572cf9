"""Storage on any file system that the user's Hadoop configuration reaches."""

import math
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar

from statemaint.errors import (
    AlreadyExistsError,
    IncompleteListingError,
    NotFoundError,
    RefusedLinkError,
    StatemaintError,
    StorageError,
    UnreadableError,
)
from statemaint.listing import Access, Entry
from statemaint.storage.access import USE, of_directory, of_file
from statemaint.storage.address import FORCED
from statemaint.storage.base import (
    PROBES,
    Check,
    Chunks,
    Moved,
    Moves,
    Storage,
    Tally,
    file_time,
    is_ours,
    missing_newline,
    read_small,
)
from statemaint.storage.hadoop.exclusive import obstacle_of
from statemaint.storage.hadoop.files import HadoopFiles, fill, must_serve, temp_file
from statemaint.storage.hadoop.jvm import AppendRefusedError, Jvm, on_this_machine, shared_jvm
from statemaint.storage.hadoop.listing import walk
from statemaint.storage.local.directories import check_path, links_below
from statemaint.workers import nothing

# Until a file has its final rights, only its creator may use it.
_PRIVATE = 0o600
# Before one file of many, a check is made at least this often: a lease is trusted for longer.
_CHECK_SECONDS = 0.5
_T = TypeVar("_T")


class HadoopStorage(Storage):
    """A directory that Java reaches. A write is a temp file beside its target, then a rename."""

    # Java starts at the first request. Files are passed through local temp files, never through the
    # connection to Java, which would take ten times as long.

    parallel = 8  # each takes a thread of the JVM

    def __init__(
        self, uri: str, *, jvm: Jvm | None = None, exclusive_on: Collection[str] = ()
    ) -> None:
        self._root = uri
        self._jvm = jvm
        self._exclusive_on = frozenset(exclusive_on)
        self._obstacle: str | None = None
        self._creates = False  # whether our records get their final names when they are created
        self._probing = threading.Lock()
        self._connected: HadoopFiles | None = None
        self._connecting = threading.Lock()
        self._root_access: Access | None = None
        self._requests = Tally()

    @property
    def requests(self) -> Mapping[str, int]:
        return self._requests.counts()

    @property
    def exclusive(self) -> bool:
        with self._probing:
            if self._obstacle is None:
                self._obstacle = self._tried()
        return not self._obstacle

    @property
    def obstacle(self) -> str:
        return self._obstacle or ""

    def _tried(self) -> str:
        if self._files.renames_exclusively():
            return ""
        self._make_directory(PROBES, serve=False)
        why = obstacle_of(self._files, self.read, self._exclusive_on)
        self._creates = not why
        return why

    def list(self, prefix: str) -> Iterator[Entry]:
        files = self._files
        self._check_ours(prefix)
        try:
            for status in walk(files.full(prefix), files.list):
                path = status.path[len(files.root) + 1 :]
                self._check_ours(path)
                if status.is_directory:
                    yield Entry(f"{path}/", 0, None)
                else:
                    time, outside = file_time(status.modified), self._is_outside(path)
                    yield Entry(path, status.size, time, access=status.access, outside=outside)
        except IncompleteListingError as error:
            refused = []
            for refusal in error.refused:
                path = refusal.path.removeprefix(files.root).strip("/")
                refused.append(StorageError(path or self._root, refusal.detail))
                refused[-1].lasting = refusal.lasting
            raise IncompleteListingError(refused) from error

    def folders(self, prefix: str) -> Iterator[str]:
        self._check_ours(prefix)
        try:
            statuses = self._files.list([self._files.full(prefix)])
        except NotFoundError:
            return
        for name in (status.path.rpartition("/")[2] for status in statuses if status.is_directory):
            self._check_ours(f"{prefix}/{name}")
            yield name

    def links(self, folder: str) -> tuple[str, ...]:
        top = self._local_top
        return tuple(sorted(links_below(top, folder))) if top is not None else ()

    # HDFS refuses links, and other file systems have none. Hadoop follows those of a local disk.

    @property
    def _local_top(self) -> str | None:
        return self._files.root if self._files.scheme == "file" else None

    def _check(self, path: str) -> None:
        if self._local_top is not None:
            check_path(self._local_top, path)

    def _check_ours(self, path: str) -> None:
        if is_ours(path):
            self._check(path)

    def _is_outside(self, path: str) -> bool:
        try:
            self._check(path)
        except RefusedLinkError:
            return True
        return False

    def stat(self, path: str) -> Entry:
        self._check_ours(path)
        status = self._files.status(path)
        if status.is_directory:
            raise NotFoundError(path, "a directory, not a file")
        return Entry(path, status.size, file_time(status.modified))

    def read(self, path: str) -> bytes:
        with self.open(path) as stream:
            return read_small(stream, path)

    @contextmanager
    def open(self, path: str) -> Iterator[BinaryIO]:
        self._check_ours(path)
        with temp_file(path) as local:
            self._files.copy_out(path, local.name)
            # By its name: Java may have created another file under it.
            with on_this_machine(path):
                stream = Path(local.name).open("rb")  # noqa: SIM115 -- closed on the next line
            with stream:
                yield stream

    def write(
        self, path: str, chunks: Chunks, *, overwrite: bool = False, like: str | None = None
    ) -> Entry:
        self._write(path, chunks, overwrite=overwrite, like=like)
        return self.stat(path)

    def replace(self, path: str, chunks: Chunks) -> None:
        self._write(path, chunks, overwrite=True, like=None)

    def _write(self, path: str, chunks: Chunks, *, overwrite: bool, like: str | None) -> None:
        self._check(path)
        created = like is None and is_ours(path) and self.exclusive and self._creates
        with temp_file(path) as local:
            fill(local, chunks, path)
            if created:
                self._create(local.name, path, overwrite=overwrite)
            else:
                self._publish(local.name, path, overwrite=overwrite, like=like)

    def _create(self, local: str, path: str, *, overwrite: bool) -> None:
        """Makes one of our records under its final name, as no rename refuses an existing one."""
        # Of a file system whose files appear when they are opened, a crash leaves a record that is
        # cut, which counts as unreadable.
        mode = of_file(self._shared_root).mode
        make = partial(self._files.copy_in, local, path, of=path, mode=mode, overwrite=overwrite)
        try:
            self._in_its_directory(path, make, serve=False)
        except AlreadyExistsError:
            raise
        except StorageError as error:
            # The loser of two writers may be refused by any error, when it closes the file.
            if overwrite or not self._files.exists(path):
                raise
            if self.read(path) != Path(local).read_bytes():
                raise AlreadyExistsError(path) from error

    def _publish(self, local: str, path: str, *, overwrite: bool, like: str | None) -> None:
        parent, _, name = path.rpartition("/")
        temp = f"{parent}/.{name}.{uuid.uuid4()}.tmp".lstrip("/")
        wanted = of_file(self._shared_root) if like is None else self._files.access(like)
        # With ACL entries, the mode shows more than the owning group may do.
        mode = wanted.mode if wanted.group_bits is None else _PRIVATE
        make = partial(self._files.copy_in, local, temp, of=path, mode=mode)
        try:
            self._in_its_directory(temp, make, serve=like is not None)
            if like is not None:
                must_serve(path, self._files.give(temp, wanted), like, wanted)
            elif mode != wanted.mode:
                self._files.give(temp, wanted)
            self._files.rename(temp, path, of=path, overwrite=overwrite)
        except BaseException:
            with suppress(StatemaintError):  # the first failure is the one to report
                self._files.delete(temp)
            raise

    @property
    def _shared_root(self) -> Access:
        if self._root_access is None:
            try:
                self._root_access = self._files.access("")
            except NotFoundError:
                raise self._no_root() from None
        return self._root_access

    def _no_root(self) -> NotFoundError:
        return NotFoundError(self._root, "no such directory, and it is not created")

    def append(self, path: str, lines: bytes) -> None:
        self._check(path)
        try:
            size = self.stat(path).size
        except NotFoundError:
            self.write(path, [lines])
            return
        try:
            last = bytes([self._files.last_byte(path, size)]) if size else b""
            with temp_file(path) as local:
                fill(local, [missing_newline(last), lines], path)
                self._files.append(local.name, path)
        except AppendRefusedError:
            # Not only if appending is unsupported: HDFS refuses appends for a minute or more
            # after a writer was killed. The data that it had closed can be read, and a rename
            # takes the file from it. Only one maintainer appends to one file.
            before = self.read(path)
            self.write(path, [before, missing_newline(before), lines], overwrite=True)

    def delete(self, path: str) -> None:
        self._check(path)
        self._files.delete(path)

    def create_root(self) -> None:
        self._files.create_root()

    def delete_folders(self, folder: str) -> None:
        for name in self.folders(folder):
            self.delete_folders(f"{folder}/{name}")
        with suppress(StorageError):  # it is not empty
            self.delete(folder)

    def delete_all(self, paths: Sequence[str], *, before: Check = nothing) -> None:
        for path in _checked(paths, before):
            self.delete(path)

    def move(self, path: str, to: str, *, like: str | None = None) -> None:
        self._check(path)
        self._check(to)
        if like is not None:
            self._serve(path, to, like)
        try:
            self._files.rename(path, to, of=path)
        except NotFoundError:
            if not self._files.exists(path):  # else the new name's directory is missing
                raise NotFoundError(path) from None
            self._make_directory(to.rpartition("/")[0], serve=like is not None)
            self._files.rename(path, to, of=path)

    def move_all(self, moves: Moves, *, before: Check = nothing, after: Moved = nothing) -> None:
        for move in _checked(moves, before):
            super().move_all([move], after=after)

    def _serve(self, path: str, to: str, like: str) -> None:
        # The rights change only if they must.
        wanted = self._files.access(like)
        try:
            must_serve(to, self._files.access(path), like, wanted)
        except UnreadableError:
            must_serve(to, self._files.give(path, wanted), like, wanted)

    def check_readable(self, path: str, *, like: str) -> None:
        must_serve(path, self._files.access(path), like, self._files.access(like))

    def now(self) -> float:
        # Hadoop cannot report the NameNode's time. If the clocks differ, so do ages: the holder of
        # a lease detects this by the time of the lease's file.
        return time.time()  # noqa: TID251 -- the one clock of this storage

    @property
    def _files(self) -> HadoopFiles:
        with self._connecting:
            if self._connected is None:
                uri = self._root.removeprefix(FORCED)
                self._connected = HadoopFiles(self._jvm or shared_jvm(), uri, self._requests)
            return self._connected

    def _in_its_directory(self, path: str, step: Callable[[], None], *, serve: bool) -> None:
        try:
            step()
        except NotFoundError:
            if not self._files.exists(""):
                raise self._no_root() from None
            self._make_directory(path.rpartition("/")[0], serve=serve)
            step()

    def _make_directory(self, path: str, *, serve: bool) -> None:
        """Creates a directory for the users of its parent; `serve` fails rather than omit one."""
        if not path or self._files.exists(path):
            return
        parent = path.rpartition("/")[0]
        self._make_directory(parent, serve=serve)
        above = self._files.access(parent) if parent else self._shared_root
        wanted = of_directory(above)
        with suppress(AlreadyExistsError):  # another thread's
            self._files.make_directory(path, wanted.mode)
        if serve:
            try:
                must_serve(path, self._files.give(path, wanted), parent, wanted, bits=USE)
            except UnreadableError:
                with suppress(StatemaintError):
                    self._files.delete(path)
                raise


def _checked(files: Iterable[_T], before: Check) -> Iterator[_T]:
    """Yields files that take a short request each, and calls a check now and then before."""
    last = -math.inf
    for file in files:
        if (now := time.monotonic()) - last >= _CHECK_SECONDS:
            last = now
            before()
        yield file
