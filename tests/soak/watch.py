"""Who made and deleted which table and zip when: the kernel's own record of a store (Linux)."""

import ctypes
import os
import select
import signal
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from statemaint.codec.rocksdb import snapshot_zip
from statemaint.errors import CodecError

_CREATE, _DELETE, _MOVED_FROM, _MOVED_TO, _NONBLOCK = 0x100, 0x200, 0x40, 0x80, 0o4000
_HEADER = struct.Struct("iIII")
_APPEARS = _CREATE | _MOVED_TO
_POLL = 0.05


@dataclass(frozen=True, slots=True)
class Event:
    """A file that appeared or disappeared; of a zip that appeared, the tables that it names."""

    time: float
    path: str
    appeared: bool
    size: int | None = None
    tables: tuple[str, ...] | None = None
    ours: bool = False

    def json(self) -> dict[str, Any]:
        """Returns it as a line of the record."""
        found: dict[str, Any] = {"time": self.time, "path": self.path, "appeared": self.appeared}
        if self.tables is not None:
            found |= {"tables": self.tables, "ours": self.ours}
        return found | ({} if self.size is None else {"size": self.size})


def tables_of(content: bytes) -> tuple[str, ...] | None:
    """Returns the stored names of the tables that a zip names, `None` where it cannot be read."""
    try:
        return tuple(one.stored for one in snapshot_zip.parse_metadata(content).ssts)
    except CodecError:
        return None


@dataclass
class Watcher:
    """Notes each appearance and disappearance of `*.zip` and `SSTs/*.sst`, in a thread.

    The `victim`, a group of processes, is killed as soon as a file of the kind `omen` disappears.
    """

    checkpoint: Path
    events: list[Event] = field(default_factory=list)
    victim: int | None = None
    omen: str = ".sst"
    _folders: dict[int, Path] = field(default_factory=dict)
    _done: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._handle = self._libc.inotify_init1(_NONBLOCK)
        if self._handle < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._thread = threading.Thread(target=self._loop)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        os.close(self._handle)

    def history(self, name: str) -> list[Event]:
        """Returns all that happened to a file of this name, and the zips that named it."""
        mine = [*self.events]
        return [one for one in mine if one.path.endswith(name) or name in (one.tables or ())]

    def _loop(self) -> None:
        while not self._done.is_set():
            self._find_folders()
            for _ in range(20):
                select.select([self._handle], [], [], _POLL)
                self.events += self._read()
        self.events += self._read()

    def _find_folders(self) -> None:
        known = set(self._folders.values())
        stores = {*self.checkpoint.glob("state/[0-9]*/[0-9]*")}
        for folder in sorted(stores | {one / "SSTs" for one in stores}):
            if folder in known or not folder.is_dir():
                continue
            mask = _APPEARS | _DELETE | _MOVED_FROM
            watch = self._libc.inotify_add_watch(self._handle, os.fsencode(folder), mask)
            self._folders[watch] = folder
            # What was there before the watch began.
            self.events += [
                self._event(folder, one.name, appeared=True) for one in folder.glob("*.*")
                if one.name.endswith((".zip", ".sst"))
            ]  # fmt: skip

    def _read(self) -> list[Event]:
        try:
            content = os.read(self._handle, 1 << 20)
        except BlockingIOError:
            return []
        return [*self._parsed(content)]

    def _parsed(self, content: bytes) -> Iterator[Event]:
        at = 0
        while at < len(content):
            watch, mask, _, length = _HEADER.unpack_from(content, at)
            at += _HEADER.size
            name = content[at : at + length].rstrip(b"\0").decode()
            at += length
            if name.endswith((".zip", ".sst")) and not name.startswith("."):
                if self.victim and mask & _DELETE and name.endswith(self.omen):
                    os.killpg(self.victim, signal.SIGKILL)
                    self.victim = None
                yield self._event(self._folders[watch], name, appeared=bool(mask & _APPEARS))

    def _event(self, folder: Path, name: str, *, appeared: bool) -> Event:
        file, now = folder / name, time.time()
        path = file.relative_to(self.checkpoint).as_posix()
        if not appeared:
            return Event(now, path, appeared=False)
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            return Event(now, path, appeared=True)
        if not name.endswith(".zip"):
            return Event(now, path, appeared=True, size=len(content))
        tables, ours = tables_of(content), snapshot_zip.marked(content)
        return Event(now, path, True, len(content), tables, ours)
