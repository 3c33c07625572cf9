"""A storage in which the world can be stopped at any point, with a clock of its own.

Every actor has a seat: its own view of the one set of files. A seat's owner passes a point before
each operation, between any two entries of a listing, between a temp file and its name, and so on;
what happens there is up to the gate: nothing, a crash, a failing storage, or a pause in which all
others go on.
"""

import io
import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Protocol

from statemaint.errors import AlreadyExistsError, NotFoundError
from statemaint.listing import Entry
from statemaint.model.policy import Policy
from statemaint.plan import Request
from statemaint.storage.base import nothing
from tests.certify.index import Index
from tests.support.faults import Crash

_TAGGED = "tag" in Entry.__dataclass_fields__
Change = Mapping[str, bytes | None]
Gate = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class File:
    """What is stored under a path.

    Attributes:
        content: its bytes.
        modified: its time.
        number: new with each that is written; a rename keeps it.
    """

    content: bytes
    modified: float
    number: int = 0


@dataclass(frozen=True, slots=True)
class Doer:
    """Who changes files, as the certificate's judge knows it.

    Attributes:
        run: the run's id.
        policy: what it keeps.
        begun: when it began.
        request: what it is restricted to.
        verb: what it does: `maintain`, `undo`, `repair` or `rollback`.
        floor: the oldest version that it must keep, as things were when it began.
        back: the version that a rollback goes back to.
        knows: the directories where it can see that executors upload.
    """

    run: str
    policy: Policy
    begun: float
    request: Request = field(default_factory=Request)
    verb: str = "maintain"
    floor: int = 0
    back: int = 0
    knows: frozenset[str] = frozenset()


class Judge(Protocol):
    """Looks at each change as soon as it has happened."""

    def look(self, before: Mapping[str, File | None], doer: Doer | None) -> None:
        """Raises when the change did harm; `doer` is `None` when the query did it."""
        ...


@dataclass(slots=True)
class World:
    """All files, by path.

    Attributes:
        local: whether an atomic write shows as a temp file first, as on disk; else as in S3.
        clock: seconds; every change is stamped with it.
        coarse: whether files have times of whole seconds.
        skew: seconds by which the times of files are ahead of the clock.
        slow_rename: whether a file keeps the time of its last byte, however long its writer then
            waits with the rename (a disk does so; a second switch, since S4 does not cover it).
        turn: counts the changes.
        salt: makes every listing's order another one.
        temps: counts the temp files.
        garble: the next snapshot that maintenance writes is stored with this content.
        late: who was paused after the last look at the lease, by id; one request is theirs.
        frozen: who was paused between a file's last byte and its name, by id.
        judge: looks at every change.
        blind: the zips that maintenance wrote where it had never seen one of an executor, by path:
            what they are as long as nobody else changes them.
        lost: what the judge has raised, which whoever is judged may take its time to let through.
        log: what happened, for a person.
    """

    local: bool = True
    coarse: bool = False
    skew: float = 0.0
    slow_rename: bool = False
    clock: float = 1_000_000.0
    files: dict[str, File] = field(default_factory=dict)
    index: Index = field(default_factory=Index)
    turn: int = 0
    numbers: int = 0
    salt: int = 0
    temps: int = 0
    garble: bytes | None = None
    late: set[int] = field(default_factory=set)
    frozen: set[int] = field(default_factory=set)
    judge: Judge | None = None
    blind: dict[str, bytes] = field(default_factory=dict)
    lost: BaseException | None = None
    log: list[str] | None = None

    def change(
        self, change: Change, doer: Doer | None = None, *, modified: float | None = None
    ) -> None:
        """Carries out a change in one step, and has it judged."""
        before = {path: self.files.get(path) for path in change}
        stamp = self.stamp() if modified is None else modified
        for path, content in change.items():
            if content is None:
                self.files.pop(path, None)
                self.index.drop(path)
            else:
                self.numbers += 1
                self.files[path] = File(content, stamp, self.numbers)
                self.index.add(path)
        self._changed(before, doer)

    def rename(
        self, path: str, to: str, doer: Doer | None = None, *, modified: float | None = None
    ) -> None:
        """Moves a file; it keeps what it is, and its time unless another one is given."""
        before = {one: self.files.get(one) for one in (path, to)}
        file = self.files.pop(path)
        self.index.drop(path)
        self.files[to] = file if modified is None else replace(file, modified=modified)
        self.index.add(to)
        self._changed(before, doer)

    def stamp(self) -> float:
        """Returns the time that a file gets which is written now."""
        self.clock += 0.0 if self.coarse else 0.001
        found = self.clock + self.skew
        return float(math.floor(found)) if self.coarse else found

    def _changed(self, before: Mapping[str, File | None], doer: Doer | None) -> None:
        self.turn += 1
        for path in (one for one in before if one.endswith(".zip")):
            file = self.files.get(path)
            if doer is not None and file and path.rpartition("/")[0] not in doer.knows:
                self.blind[path] = file.content
            elif doer is not None:
                self.blind.pop(path, None)
        if self.log is not None:
            who = f"{doer.run} ({doer.verb})" if doer else "query"
            verbs = ((path, "puts" if path in self.files else "removes") for path in before)
            self.log += [f"    {who} {verb} {path}" for path, verb in verbs]
        if self.judge:
            try:
                self.judge.look(before, doer)
            except BaseException as error:
                self.lost = self.lost or error
                raise

    def temp_of(self, path: str) -> str:
        """Returns a new temp file's path, of the form that Spark and we use."""
        self.temps += 1
        folder, _, name = path.rpartition("/")
        return f"{folder}/.{name}.{self.temps:08x}-0000-4000-8000-000000000000.tmp"

    def store(self, directory: str) -> dict[str, bytes]:
        """Returns the content of a directory's own files, by name."""
        under, start = f"{directory}/", len(directory) + 1
        return {
            path[start:]: file.content
            for path, file in self.files.items()
            if path.startswith(under) and "/" not in path[start:]
        }

    def entry(self, path: str) -> Entry:
        """Returns a file's entry.

        Raises:
            NotFoundError: when there is none.
        """
        if (file := self.files.get(path)) is None:
            raise NotFoundError(path, "no such file")
        if _TAGGED:  # as S3 does, and no disk
            tag = None if self.local else str(zlib.crc32(file.content))
            fields: dict[str, Any] = {"tag": tag}
            return Entry(path, len(file.content), file.modified, **fields)
        return Entry(path, len(file.content), file.modified)


class Seat:
    """One maintainer's view of the world: a `Storage`."""

    def __init__(self, world: World, doer: Doer, gate: Gate) -> None:
        self._world, self._doer, self._gate = world, doer, gate
        self._requests: Counter[str] = Counter()

    @property
    def root(self) -> str:
        return "certificate:"

    @property
    def requests(self) -> Mapping[str, int]:
        return dict(self._requests)

    @property
    def parallel(self) -> int:
        return 1

    @property
    def exclusive(self) -> bool:
        return True

    def now(self) -> float:
        return self._world.clock

    def _point(self, verb: str, path: str) -> None:
        self._requests[verb] += 1
        self._world.late.discard(id(self._doer))
        self._world.frozen.discard(id(self._doer))
        self._gate(verb, path)

    def list(self, prefix: str) -> Iterator[Entry]:
        """Yields in an order of no meaning, each entry as it is when its turn comes."""
        world = self._world
        self._point("list", prefix)
        world.salt += 1
        under, order, at = f"{prefix}/" if prefix else "", _Order(world.salt), (-1, "")
        turn, left = -1, iter(list[tuple[int, str]]())
        while True:
            if turn != world.turn:
                turn = world.turn
                left = iter(order.after(at, (one for one in world.files if one.startswith(under))))
            if (found := next(left, None)) is None:
                return
            at = found
            yield world.entry(found[1])
            self._gate("entry", found[1])

    def stat(self, path: str) -> Entry:
        self._point("stat", path)
        return self._world.entry(path)

    def read(self, path: str) -> bytes:
        self._point("read", path)
        return self._content(path)

    def _content(self, path: str) -> bytes:
        return self._world.files[self._world.entry(path).path].content

    @contextmanager
    def open(self, path: str) -> Iterator[BinaryIO]:
        self._point("open", path)
        yield io.BytesIO(self._content(path))

    def write(
        self,
        path: str,
        chunks: Iterable[bytes],
        *,
        overwrite: bool = False,
        like: str | None = None,
    ) -> Entry:
        world = self._world
        self._point("write", path)
        if like is not None:
            world.entry(like)
        if not world.local:
            self._refuse_taken(path, overwrite=overwrite)
            content = self._garbled(path, b"".join(chunks))
            self._gate("publish", path)
            self._refuse_taken(path, overwrite=overwrite)
            world.change({path: content}, self._doer)
        else:
            self._write_by_rename(path, chunks, overwrite=overwrite)
        written = world.entry(path)
        self._gate("written", path)
        return written

    def _write_by_rename(self, path: str, chunks: Iterable[bytes], *, overwrite: bool) -> None:
        # A crash leaves the temp file; every other end takes it away.
        world, temp = self._world, self._world.temp_of(path)
        world.change({temp: b""}, self._doer)
        try:
            content, filled = self._garbled(path, b"".join(chunks)), world.clock
            if temp in world.files:  # who deletes an open file does not stop its writer
                world.change({temp: content}, self._doer)
            self._gate("publish", path)
            world.entry(temp)
            self._refuse_taken(path, overwrite=overwrite)
        except Exception:
            world.change({temp: None}, self._doer)
            raise
        modified = filled if world.slow_rename else None
        world.change({temp: None, path: content}, self._doer, modified=modified)

    def _refuse_taken(self, path: str, *, overwrite: bool) -> None:
        if path in self._world.files and not overwrite:
            raise AlreadyExistsError(path, "a file of that name is already there")

    def _garbled(self, path: str, content: bytes) -> bytes:
        garbled = self._world.garble
        if garbled is None or not path.endswith(".snapshot"):
            return content
        self._world.garble = None
        return garbled

    def replace(self, path: str, chunks: Iterable[bytes]) -> None:
        self.write(path, chunks, overwrite=True)

    def append(self, path: str, lines: bytes) -> None:
        self._point("append", path)
        try:
            self._gate("tear", path)
        except Crash:
            self._append(path, lines[: len(lines) // 2])
            raise
        self._append(path, lines)

    def _append(self, path: str, lines: bytes) -> None:
        file = self._world.files.get(path)
        before = file.content if file else b""
        cut = b"" if before.endswith(b"\n") or not before else b"\n"
        self._world.change({path: before + cut + lines}, self._doer)

    def delete(self, path: str) -> None:
        self._point("delete", path)
        if path in self._world.files:
            self._world.change({path: None}, self._doer)
        self._gate("deleted", path)

    def delete_all(self, paths: Sequence[str], *, before: Callable[[], object] = nothing) -> None:
        """Deletes one after the other; where there are no temp files, in any order (as S3 does)."""
        if self._world.local:
            for path in paths:
                before()
                self.delete(path)
            return
        if not paths:
            return
        before()
        self._point("delete", paths[0])
        for _, path in _Order(self._world.salt).after((-1, ""), paths):
            if path in self._world.files:
                self._world.change({path: None}, self._doer)
        self._gate("deleted", paths[-1])

    def move(self, path: str, to: str, *, like: str | None = None) -> None:
        """Links the new name first: a crash in between leaves both."""
        self._point("move", path)
        content = self._content(path)
        if like is not None:
            self._world.entry(like)
        self._refuse_taken(to, overwrite=False)
        old = self._world.files[path].modified if self._world.local else None
        self._world.change({to: content}, self._doer, modified=old)
        self._gate("linked", to)
        self._world.change({path: None}, self._doer)

    def check_readable(self, path: str, *, like: str) -> None:
        self._point("stat", path)
        for one in (path, like):
            self._world.entry(one)


class _Order:
    """An order of paths that has a place for every path there could be."""

    def __init__(self, salt: int) -> None:
        self._salt = salt

    def after(self, place: tuple[int, str], paths: Iterable[str]) -> list[tuple[int, str]]:
        places = ((zlib.crc32(path.encode(), self._salt), path) for path in paths)
        return sorted(one for one in places if one > place)
