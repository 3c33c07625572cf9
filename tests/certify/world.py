"""The one set of files, with a clock of its own, and a judge that looks at each change."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import md5
from threading import get_ident
from typing import Protocol

from statemaint.errors import NotFoundError, StorageError
from statemaint.listing import Entry
from statemaint.model.policy import Policy
from statemaint.plan.actions import Request
from tests.certify.index import Index

Change = Mapping[str, bytes | None]
Whose = tuple[int, int]
"""A doer and one of its threads, by their ids."""


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
        workers: how many stores it works on at a time.
    """

    run: str
    policy: Policy
    begun: float
    request: Request = field(default_factory=Request)
    verb: str = "maintain"
    floor: int = 0
    back: int = 0
    knows: frozenset[str] = frozenset()
    workers: int = 1


@dataclass(frozen=True, slots=True)
class Trouble:
    """What a storage refuses from now on, until an operator mends it.

    Attributes:
        error: its words.
        verbs: what it refuses.
        folder: where; everywhere by default.
        all_writers: whether the query cannot write either, and has stopped.
    """

    error: str
    verbs: frozenset[str]
    folder: str = ""
    all_writers: bool = False

    def refuses(self, verb: str, path: str) -> bool:
        inside = path.startswith(self.folder)
        return verb in self.verbs and (inside or (verb == "list" and self.folder.startswith(path)))


class Flaky(Protocol):
    """A storage that fails now and then."""

    def refuse(self, verb: str, path: str) -> None:
        """Raises `StorageError` when a request is refused."""
        ...

    def lose(self, verb: str, path: str) -> None:
        """Raises `StorageError` when the answer to a request is lost."""
        ...


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
        late: the threads that were paused after their last look at the lease, by doer and thread,
            and how many requests each may still begin as such.
        frozen: those that were paused between a file's last byte and its name.
        trouble: what the storage refuses until it is mended.
        flaky: decides which requests fail, and which answers are lost.
        judge: looks at every change.
        blind: the zips that maintenance wrote where it had never seen one of an executor, or was
            paused after its last look, by path: what they are as long as nobody else changes them.
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
    late: dict[Whose, int] = field(default_factory=dict)
    frozen: dict[Whose, int] = field(default_factory=dict)
    trouble: Trouble | None = None
    flaky: Flaky | None = None
    judge: Judge | None = None
    blind: dict[str, bytes] = field(default_factory=dict)
    lost: BaseException | None = None
    log: list[str] | None = None
    _entries: dict[str, tuple[File, Entry]] = field(default_factory=dict)

    def change(
        self, change: Change, doer: Doer | None = None, *, modified: float | None = None
    ) -> None:
        """Carries out a change in one step, and has it judged."""
        before = {path: self.files.get(path) for path in change}
        stamp = self.stamp() if modified is None else modified
        for path, content in change.items():
            if content is not None:
                self.numbers += 1
                if path not in self.files:
                    self.index.add(path)
                self.files[path] = File(content, stamp, self.numbers)
            elif self.files.pop(path, None):
                self.index.drop(path)
        self._changed(before, doer)

    def rename(
        self, path: str, to: str, doer: Doer | None = None, *, modified: float | None = None
    ) -> None:
        """Moves a file; it keeps what it is, and its time unless another one is given."""
        before = {one: self.files.get(one) for one in (path, to)}
        file = self.files.pop(path)
        self.index.drop(path)
        if to not in self.files:
            self.index.add(to)
        self.files[to] = file if modified is None else replace(file, modified=modified)
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
            if doer is not None and file and not self._saw_theirs(path, doer):
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

    def _saw_theirs(self, path: str, doer: Doer) -> bool:
        """Returns whether the writer of a zip could see that executors upload there.

        It looks right before the zip gets its name: not at what comes while it stands still there.
        """
        return path.rpartition("/")[0] in doer.knows and not self.is_frozen(doer)

    def begins(self, doer: Doer) -> None:
        """Notes that a thread begins a request: what it did before no longer excuses it."""
        if not self.late and not self.frozen:
            return
        whose = id(doer), get_ident()
        for stood in (self.late, self.frozen):
            if whose in stood:
                stood[whose] -= 1
                if stood[whose] < 0:
                    del stood[whose]

    def is_late(self, doer: Doer) -> bool:
        """Returns whether this thread of a doer was paused after its last look at the lease."""
        return (id(doer), get_ident()) in self.late

    def is_frozen(self, doer: Doer) -> bool:
        """Returns whether this thread was paused between a file's last byte and its name."""
        return (id(doer), get_ident()) in self.frozen

    def refuse(self, verb: str, path: str) -> None:
        """Fails an operation of maintenance that the storage refuses now.

        Raises:
            StorageError: then.
        """
        if self.trouble and self.trouble.refuses(verb, path):
            raise StorageError(path, self.trouble.error)
        if self.flaky:
            self.flaky.refuse(verb, path)

    def answer(self, verb: str, path: str) -> None:
        """Answers an operation of maintenance that was carried out.

        Raises:
            StorageError: when the answer is lost.
        """
        if self.flaky:
            self.flaky.lose(verb, path)

    def temp_of(self, path: str) -> str:
        """Returns a new temp file's path, of the form that Spark and we use."""
        self.temps += 1
        folder, _, name = path.rpartition("/")
        return f"{folder}/.{name}.{self.temps:08x}-0000-4000-8000-000000000000.tmp"

    def store(self, directory: str) -> dict[str, bytes]:
        """Returns the content of a directory's own files, by name."""
        start = len(directory) + 1
        return {
            path[start:]: self.files[path].content
            for path in self.index.under(f"{directory}/")
            if "/" not in path[start:]
        }

    def entry(self, path: str) -> Entry:
        """Returns a file's entry.

        Raises:
            NotFoundError: when there is none.
        """
        if (file := self.files.get(path)) is None:
            raise NotFoundError(path)
        known = self._entries.get(path)
        if known and known[0] is file:
            return known[1]
        tag = None if self.local else md5(file.content, usedforsecurity=False).hexdigest()
        entry = Entry(path, len(file.content), file.modified, tag)
        self._entries[path] = file, entry
        return entry
