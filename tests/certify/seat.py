"""A maintainer's view of the world: a storage that can be stopped at any point.

Its owner passes a point before each operation, between any two entries of a listing, between a temp
file and its name, and so on; what happens there is up to the gate: nothing, a crash, a failing
storage, or a pause in which all others go on. Several threads of one maintainer take turns: of two
operations one comes after the other, in an order that is the machine's. A pause stops them all, and
so does a crash.
"""

import io
import random
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import RLock, get_ident
from typing import BinaryIO

from statemaint.errors import AlreadyExistsError, StorageError, Superseded
from statemaint.listing import Entry
from statemaint.storage.base import Storage, missing_newline
from statemaint.workers import nothing
from tests.certify.world import Doer, World
from tests.support.faults import Crash

Gate = Callable[[str, str], None]
_NAP = 1e-6
_NAPS = 0.3


class Turn:
    """What a thread holds while it looks at the world or changes it.

    Attributes:
        inside: the threads that are in an operation, at its point or after it.
        all: the threads that have been in one.
    """

    def __init__(self) -> None:
        self._lock, self._dead, self._crowd = RLock(), False, False
        self.inside: set[int] = set()
        self.all: set[int] = set()

    def __enter__(self) -> None:
        me = get_ident()
        if me not in self.all:
            self.all.add(me)
            self._crowd = len(self.all) > 1
        if self._crowd and random.random() < _NAPS:  # noqa: S311 -- lets another thread go first
            time.sleep(_NAP)
        self._lock.acquire()
        if self._dead:
            self._lock.release()
            raise Crash

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, Crash):
            self._dead = True  # of a process that is killed no thread goes on
        self._lock.release()


class Seat(Storage):
    """One maintainer's view of the world: a `Storage`."""

    def __init__(self, world: World, doer: Doer, gate: Gate, root: str = "certificate:") -> None:
        self._world, self._doer, self._gate, self._root = world, doer, gate, root
        self._requests: Counter[str] = Counter()
        self._worlds = [world]  # that one gate stops it in
        self.turn = Turn()

    @property
    def root(self) -> str:
        return self._root

    @property
    def requests(self) -> Mapping[str, int]:
        return dict(self._requests)

    @property
    def exclusive(self) -> bool:
        return True

    @property
    def obstacle(self) -> str:
        return ""

    def now(self) -> float:
        return self._world.clock

    def passes(self, seconds: float) -> None:
        """Lets time pass, in which nobody else does anything."""
        self._world.clock += seconds

    def beside(self, world: World, root: str) -> "Seat":
        """Returns the same maintainer's view of another world, in which the same gate stops it."""
        other = Seat(world, self._doer, self._gate, root)
        other.turn = self.turn
        self._worlds.append(world)
        return other

    def _operation(self, verb: str, path: str) -> "_Operation":
        """Returns an operation, up to its point and beyond, in one turn."""
        return _Operation(self, verb, path)

    def begin(self) -> None:
        """Notes that this thread begins an operation."""
        self._world.begins(self._doer)
        self.turn.inside.add(get_ident())

    def pass_point(self, verb: str, path: str) -> None:
        """Counts an operation, and passes the point at its beginning."""
        self._requests[verb] += 1
        self._gate(verb, path)
        self._world.refuse(verb, path)

    def answer(self, verb: str, path: str) -> None:
        """Answers an operation, unless its answer is lost."""
        self._world.answer(verb, path)

    def stood_still(self, *, late: bool, frozen: bool) -> None:
        """Notes that all threads were paused, one of them at its gate; `late` and `frozen` are its.

        The others may be anywhere in an operation, or have looked for the last time before one.
        """
        whose, alone = id(self._doer), len(self.turn.all) == 1
        for thread in self.turn.all:
            begins = 0 if thread in self.turn.inside else 1
            if frozen or not alone:
                self._world.frozen[whose, thread] = begins
            for world in self._worlds:  # in a savepoint's folder it has looked before any write
                if late or not alone or world is not self._world:
                    world.late[whose, thread] = begins

    def list(self, prefix: str) -> Iterator[Entry]:
        """Yields in an order of no meaning, each entry as it is when its turn comes."""
        world = self._world
        with self._operation("list", prefix):
            world.salt += 1
            order = _Order(world.salt)
        under, at = f"{prefix}/" if prefix else "", (-1, "")
        turn, left = -1, iter(list[tuple[int, str]]())
        while True:
            with self.turn:
                if at[1]:
                    self._gate("entry", at[1])
                if turn != world.turn:
                    turn = world.turn
                    left = iter(order.after(at, world.index.under(under)))
                if (found := next(left, None)) is None:
                    return
                at = found
                entry = world.entry(found[1])
            yield entry

    def folders(self, prefix: str) -> Iterator[str]:
        with self._operation("list", prefix):
            under = f"{prefix}/" if prefix else ""
            rests = [path[len(under) :] for path in self._world.index.under(under)]
        yield from sorted({rest.partition("/")[0] for rest in rests if "/" in rest})

    def stat(self, path: str) -> Entry:
        with self._operation("stat", path):
            return self._world.entry(path)

    def read(self, path: str) -> bytes:
        with self._operation("read", path):
            return self._content(path)

    def _content(self, path: str) -> bytes:
        return self._world.files[self._world.entry(path).path].content

    @contextmanager
    def open(self, path: str) -> Iterator[BinaryIO]:
        with self._operation("open", path):
            content = self._content(path)
        yield io.BytesIO(content)

    def write(
        self,
        path: str,
        chunks: Iterable[bytes],
        *,
        overwrite: bool = False,
        like: str | None = None,
    ) -> Entry:
        with self._operation("write", path):
            if like is not None:
                self._world.entry(like)
        # What gives the chunks reads files itself, and waits for other threads: in no turn.
        if self._world.local:
            self._write_by_rename(path, chunks, overwrite=overwrite)
        else:
            self._write_at_once(path, chunks, overwrite=overwrite)
        with self.turn:
            written = self._world.entry(path)
            self._gate("written", path)
            self._world.answer("write", path)
        return written

    def _write_at_once(self, path: str, chunks: Iterable[bytes], *, overwrite: bool) -> None:
        with self.turn:
            self._refuse_taken(path, overwrite=overwrite)
        content = b"".join(chunks)
        with self.turn:
            content = self._garbled(path, content)
            self._gate("publish", path)
            self._world.refuse("write", path)
            self._refuse_taken(path, overwrite=overwrite)
            self._world.change({path: content}, self._doer)

    def _write_by_rename(self, path: str, chunks: Iterable[bytes], *, overwrite: bool) -> None:
        # A crash leaves the temp file; every other end takes it away.
        world = self._world
        with self.turn:
            temp = world.temp_of(path)
            world.change({temp: b""}, self._doer)
        try:
            content = b"".join(chunks)
            with self.turn:
                content, filled = self._garbled(path, content), world.clock
                if temp in world.files:  # who deletes an open file does not stop its writer
                    world.change({temp: content}, self._doer)
                self._gate("publish", path)
                world.refuse("write", path)
                world.entry(temp)
                self._refuse_taken(path, overwrite=overwrite)
                modified = filled if world.slow_rename else None
                world.change({temp: None, path: content}, self._doer, modified=modified)
        except Exception:
            with self.turn:
                if not (world.trouble and world.trouble.refuses("delete", temp)):
                    world.change({temp: None}, self._doer)
            raise

    def _refuse_taken(self, path: str, *, overwrite: bool) -> None:
        if path in self._world.files and not overwrite:
            raise AlreadyExistsError(path)

    def _garbled(self, path: str, content: bytes) -> bytes:
        garbled = self._world.garble
        if garbled is None or not path.endswith(".snapshot"):
            return content
        self._world.garble = None
        return garbled

    def append(self, path: str, lines: bytes) -> None:
        with self._operation("append", path):
            try:
                self._gate("tear", path)
                self._world.refuse("append", path)
            except (Crash, StorageError):
                self._append(path, lines[: len(lines) // 2])
                raise
            self._append(path, lines)

    def _append(self, path: str, lines: bytes) -> None:
        file = self._world.files.get(path)
        before = file.content if file else b""
        self._world.change({path: before + missing_newline(before) + lines}, self._doer)

    def delete(self, path: str) -> None:
        with self._operation("delete", path):
            if path in self._world.files:
                self._world.change({path: None}, self._doer)
            self._gate("deleted", path)

    def delete_all(self, paths: Sequence[str], *, before: Callable[[], object] = nothing) -> None:
        """Deletes one after the other; where there are no temp files, in any order (as S3 does)."""
        if self._world.local:
            super().delete_all(paths, before=before)
            return
        if not paths:
            return
        before()
        with self._operation("delete", paths[0]):
            refused = None
            for _, path in _Order(self._world.salt).after((-1, ""), paths):
                if self._world.trouble and self._world.trouble.refuses("delete", path):
                    refused = path  # of a page some go, and some do not
                elif path in self._world.files:
                    self._world.change({path: None}, self._doer)
            if refused:
                self._world.refuse("delete", refused)
            self._gate("deleted", paths[-1])

    def move(self, path: str, to: str, *, like: str | None = None) -> None:
        """Links the new name first: a crash in between leaves both."""
        with self._operation("move", path):
            content = self._content(path)
            if like is not None:
                self._world.entry(like)
            self._refuse_taken(to, overwrite=False)
            self._world.refuse("move", to)
            old = self._world.files[path].modified if self._world.local else None
            self._world.change({to: content}, self._doer, modified=old)
            self._gate("linked", to)
            self._world.refuse("move", path)
            self._world.change({path: None}, self._doer)

    def move_all(
        self,
        moves: Sequence[tuple[Entry, str]],
        *,
        before: Callable[[], object] = nothing,
        after: Callable[[Entry], object] = nothing,
    ) -> None:
        """Moves one after the other; where there are no temp files, copies all before (as on S3).

        A crash in between leaves all copies. What was copied before a refusal is still deleted.
        """
        if self._world.local:
            super().move_all(moves, before=before, after=after)
            return
        copied: list[Entry] = []
        try:
            for entry, to in moves:
                if self._copy(entry, to):
                    copied.append(entry)
        except StorageError:
            with suppress(StorageError):
                self.delete_all([one.path for one in copied], before=before)
            raise
        self.delete_all([one.path for one in copied], before=before)
        for entry, _ in moves:
            after(entry)

    def _copy(self, entry: Entry, to: str) -> bool:
        """Copies a file if it is the listed one, and returns whether there is one."""
        with self._operation("move", entry.path):
            if entry.path not in self._world.files:
                return False
            if entry.tag not in (None, self._world.entry(entry.path).tag):
                raise Superseded(entry.path, "was replaced since it was listed")
            self._world.refuse("move", to)
            self._world.change({to: self._content(entry.path)}, self._doer)
            self._gate("linked", to)
        return True

    def check_readable(self, path: str, *, like: str) -> None:
        with self._operation("stat", path):
            for one in (path, like):
                self._world.entry(one)


class _Operation:
    """A block in one turn that begins with a point."""

    __slots__ = ("_path", "_seat", "_verb")

    def __init__(self, seat: Seat, verb: str, path: str) -> None:
        self._seat, self._verb, self._path = seat, verb, path

    def __enter__(self) -> None:
        seat = self._seat
        seat.begin()
        try:
            seat.turn.__enter__()
            try:
                seat.pass_point(self._verb, self._path)
            except BaseException as error:
                seat.turn.__exit__(type(error))
                raise
        except BaseException:
            seat.turn.inside.discard(get_ident())
            raise

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._seat.turn.__exit__(kind)
        self._seat.turn.inside.discard(get_ident())
        if kind is None and self._verb != "write":  # which is not yet done here
            self._seat.answer(self._verb, self._path)


class _Order:
    """An order of paths that has a place for every path there could be."""

    def __init__(self, salt: int) -> None:
        self._salt = salt

    def after(self, place: tuple[int, str], paths: Iterable[str]) -> list[tuple[int, str]]:
        places = ((zlib.crc32(path.encode(), self._salt), path) for path in paths)
        return sorted(one for one in places if one > place)
