"""Storages that fail, or end the world, at a chosen operation."""

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import _GeneratorContextManager
from fnmatch import fnmatchcase
from pathlib import Path
from threading import Lock
from typing import BinaryIO, TypeVar

from statemaint.errors import AlreadyExistsError, LeaseLostError, StorageError
from statemaint.execute.fence import Fence
from statemaint.listing import Entry
from statemaint.storage import LocalStorage, MemoryStorage, Storage
from tests.support.checkpoints import NOW

_T = TypeVar("_T")


class Crash(BaseException):
    """The process is gone: nothing catches this."""


class CrashingStorage(MemoryStorage):
    """Crashes before or after the n-th change, counted from 0; nothing changes after that.

    A move is two changes: in between the file has both names. Where it `copies`, as in an object
    store, the new name has the time of the move.
    """

    def __init__(
        self,
        files: dict[str, bytes],
        *,
        at: int,
        after: bool,
        clock: Callable[[], float] = lambda: 0.0,
        copies: bool = False,
    ) -> None:
        super().__init__(files, clock=clock)
        self._at, self._after, self._copies = at, after, copies
        self.changes = 0

    def write(
        self,
        path: str,
        chunks: Iterable[bytes],
        *,
        overwrite: bool = False,
        like: str | None = None,
    ) -> Entry:
        write = super().write
        return self._step(lambda: write(path, chunks, overwrite=overwrite, like=like))

    def append(self, path: str, lines: bytes) -> None:
        append = super().append
        self._step(lambda: append(path, lines))

    def delete(self, path: str) -> None:
        delete = super().delete
        self._step(lambda: delete(path))

    def move(self, path: str, to: str, *, like: str | None = None) -> None:
        file = self._file(path)
        if like is not None:
            self._file(like)
        if to in self._files:
            raise AlreadyExistsError(to)
        moved = (file[0], self._clock()) if self._copies else file
        self._step(lambda: self._files.update({to: moved}))
        self._step(lambda: self._files.pop(path))

    def _step(self, change: Callable[[], _T]) -> _T:
        number, self.changes = self.changes, self.changes + 1
        if number > self._at or (number == self._at and not self._after):
            raise Crash
        result = change()
        if number == self._at:
            raise Crash
        return result


class FailingStorage(CrashingStorage):
    """Fails once, at the n-th change, which was made (its answer is lost) or was not (refused)."""

    def _step(self, change: Callable[[], _T]) -> _T:
        number, self.changes = self.changes, self.changes + 1
        if number != self._at:
            return change()
        if self._after:
            change()
        raise StorageError("", "503: Slow Down")


class CopyingStorage(MemoryStorage):
    """Moves as an object store does: by a copy, which has the time at which it was made."""

    def move(self, path: str, to: str, *, like: str | None = None) -> None:
        super().move(path, to, like=like)
        self._files[to] = (self._files[to][0], self._clock())


def survived(
    crashed: MemoryStorage,
    clock: Callable[[], float],
    kind: type[MemoryStorage] = MemoryStorage,
) -> MemoryStorage:
    """Returns what a crash leaves: the same files, each with the time that it had."""
    found = kind(clock=clock)
    found._files = dict(crashed._files)
    return found


def each_crash(
    whole: MemoryStorage,
    clock: "Clock | Ticking",
    act: Callable[[MemoryStorage], object],
    *,
    after: bool = True,
    copies: bool = False,
    pause: float = 120,
) -> Iterator[tuple[int, MemoryStorage]]:
    """Yields what an act leaves that is killed at each change, with its number, until it ends."""
    for at in range(200):
        crashing = CrashingStorage({}, at=at, after=after, clock=clock, copies=copies)
        crashing._files = dict(whole._files)  # with their times
        try:
            act(crashing)
        except Crash:
            clock.now += pause
            yield at, survived(crashing, clock, CopyingStorage if copies else MemoryStorage)
        else:
            return
    raise AssertionError("it never got through")


class Clock:
    """A clock that stands still unless it is moved."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Ticking:
    """A clock that goes on by a millisecond whenever it is read."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        self.now += 1e-3
        return self.now


Hook = Callable[[str, str], object]
"""Called with the verb and the path of a request."""


def on(verb: str, pattern: str, act: Callable[[], object], *, once: bool = False) -> Hook:
    """Returns a hook that acts at the requests of one kind for paths that match a pattern."""
    left = [act]

    def hook(asked: str, path: str) -> None:
        if asked == verb and left and fnmatchcase(path, pattern):
            if once:
                left.clear()
            act()

    return hook


def refuse(verb: str, pattern: str = "*", error: Exception | str = "Permission denied") -> Hook:
    """Returns a hook that raises an error at the requests that `on` would act at."""

    def hook(asked: str, path: str) -> None:
        if asked == verb and fnmatchcase(path, pattern):
            raise StorageError(path, error) if isinstance(error, str) else error

    return hook


class HookedStorage(MemoryStorage):
    """Has something happen before or after each request, as hooks decide.

    What `before` raises is the answer. `calls` has all requests; to open a file is to read it, too.
    """

    parallel = 1

    def __init__(
        self,
        files: Mapping[str, bytes] | MemoryStorage | None = None,
        *,
        before: Hook = lambda _verb, _path: None,
        after: Hook = lambda _verb, _path: None,
        clock: Callable[[], float] = lambda: 0.0,
        tagged: bool = True,
        parallel: int = 1,
    ) -> None:
        """Begins with copies of some files, or shares those of another storage, and its clock."""
        if isinstance(files, MemoryStorage):
            super().__init__(clock=files._clock, tagged=files._tagged)
            self._files = files._files
        else:
            super().__init__(files, clock=clock, tagged=tagged)
        self.before, self.after, self.parallel = before, after, parallel
        self.calls: list[tuple[str, str]] = []

    def paths(self, *verbs: str) -> list[str]:
        """Returns the paths of all requests of some kinds, in order."""
        return [path for called, path in self.calls if called in verbs]

    def works_again(self) -> None:
        """Has nothing happen before a request from now on."""
        self.before = lambda _verb, _path: None

    def _point(self, verb: str, path: str) -> None:
        self.calls.append((verb, path))
        self.before(verb, path)

    def list(self, prefix: str) -> Iterator[Entry]:
        self._point("list", prefix)
        listed = [*super().list(prefix)]
        self.after("list", prefix)
        return iter(listed)

    def stat(self, path: str) -> Entry:
        self._point("stat", path)
        return super().stat(path)

    def read(self, path: str) -> bytes:
        self._point("read", path)
        return super().read(path)

    def open(self, path: str) -> "_GeneratorContextManager[BinaryIO]":
        self._point("open", path)
        return super().open(path)

    def write(
        self,
        path: str,
        chunks: Iterable[bytes],
        *,
        overwrite: bool = False,
        like: str | None = None,
    ) -> Entry:
        content = [*chunks]
        self._point("write", path)
        entry = super().write(path, content, overwrite=overwrite, like=like)
        self.after("write", path)
        return entry

    def append(self, path: str, lines: bytes) -> None:
        self._point("append", path)
        super().append(path, lines)
        self.after("append", path)

    def delete(self, path: str) -> None:
        self._point("delete", path)
        super().delete(path)
        self.after("delete", path)

    def move(self, path: str, to: str, *, like: str | None = None) -> None:
        self._point("move", path)
        super().move(path, to, like=like)
        self.after("move", path)


class LateStorage(HookedStorage):
    """Its first listings of a folder each miss the files whose paths end in a certain way."""

    def __init__(self, files: MemoryStorage, folder: str, *missed: str | tuple[str, ...]) -> None:
        super().__init__(files)
        self._folder, self._missed = folder, [*missed]

    def list(self, prefix: str) -> Iterator[Entry]:
        listed = super().list(prefix)
        if prefix != self._folder or not self._missed:
            return listed
        missed = self._missed.pop(0)
        return (entry for entry in listed if not entry.path.endswith(missed))


class PausingStorage(HookedStorage):
    """Is paused before chosen requests, counted from 0, and remembers what was done after.

    What happens in a pause goes through `beside`: the same files, as others see them.
    """

    def __init__(
        self,
        files: dict[str, bytes],
        *,
        clock: Callable[[], float],
        pauses: Mapping[int, Callable[[Storage], None]],
    ) -> None:
        super().__init__(files, clock=clock, before=self._pause)
        self.beside = MemoryStorage(clock=clock)
        self.beside._files = self._files
        self._pauses = pauses

    def open(self, path: str) -> "_GeneratorContextManager[BinaryIO]":
        """Reads it, which is one request."""
        return MemoryStorage.open(self, path)

    def _pause(self, _verb: str, _path: str) -> None:
        if pause := self._pauses.get(len(self.calls) - 1):
            pause(self.beside)


class SlowStorage(PausingStorage):
    """Is paused while it takes a file's first bytes, and not after its last."""

    def write(
        self,
        path: str,
        chunks: Iterable[bytes],
        *,
        overwrite: bool = False,
        like: str | None = None,
    ) -> Entry:
        self._point("write", path)
        return MemoryStorage.write(self, path, chunks, overwrite=overwrite, like=like)


class HalfMovingStorage(LocalStorage):
    """Refuses to delete the old name of the n-th file that it moves, once."""

    def __init__(self, root: Path, *, at: int) -> None:
        super().__init__(root)
        self._folder, self._left = root, at

    def move(self, path: str, to: str, *, like: str | None = None) -> None:
        super().move(path, to, like=like)
        self._left -= 1
        if self._left == 0:
            os.link(self._folder / to, self._folder / path)
            raise StorageError(path, "Permission denied")


class KilledStorage(LocalStorage):
    """Kills its own process with SIGKILL at the n-th point: two in a write, one elsewhere."""

    def __init__(self, root: str, *, at: int) -> None:
        super().__init__(root)
        self._left = at

    def _point(self) -> None:
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1

    def write(
        self,
        path: str,
        chunks: Iterable[bytes],
        *,
        overwrite: bool = False,
        like: str | None = None,
    ) -> Entry:
        self._point()
        return super().write(path, self._dying(chunks), overwrite=overwrite, like=like)

    def _dying(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        yield from chunks
        self._point()  # a temp file is there and full, the file itself is not

    def append(self, path: str, lines: bytes) -> None:
        self._point()
        super().append(path, lines)

    def delete(self, path: str) -> None:
        self._point()
        super().delete(path)

    def move(self, path: str, to: str, *, like: str | None = None) -> None:
        self._point()
        super().move(path, to, like=like)


class ShakyFence(Fence):
    """A lease that is lost after some looks at it."""

    def __init__(self, looks: int) -> None:
        self._left, self._lock = looks, Lock()
        self.lost = False

    @property
    def is_fresh(self) -> bool:
        return False

    def must_hold(self) -> None:
        with self._lock:
            self._left -= 1
            self.lost = self.lost or self._left < 0
        if self.lost:
            raise LeaseLostError("memory:", 1)
