"""Storage in memory, for tests and for trials of a plan."""

import hashlib
import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import BinaryIO

from statemaint.errors import AlreadyExistsError, NotFoundError, Superseded
from statemaint.listing import Entry
from statemaint.storage.base import (
    Check,
    Chunks,
    Moved,
    Moves,
    Storage,
    Tally,
    missing_newline,
    must_be_small,
)
from statemaint.workers import nothing


class MemoryStorage(Storage):
    """A dictionary of files, stamped by the given clock (always 0 by default).

    Entries carry a tag of their content, as in S3, unless `tagged` is false.
    """

    _root = "memory:"
    exclusive = True

    def __init__(
        self,
        files: Mapping[str, bytes] | None = None,
        *,
        clock: Callable[[], float] = lambda: 0.0,
        tagged: bool = True,
    ) -> None:
        self._clock, self._tagged = clock, tagged
        self._requests = Tally()
        self._files = {path: (content, clock()) for path, content in (files or {}).items()}

    @property
    def files(self) -> dict[str, bytes]:
        return {path: content for path, (content, _) in self._files.items()}

    @property
    def requests(self) -> Mapping[str, int]:
        return self._requests.counts()

    def list(self, prefix: str) -> Iterator[Entry]:
        self._requests.add("list")
        under = f"{prefix.rstrip('/')}/" if prefix else ""
        files = list(self._files.items())  # a copy in one step: other threads write meanwhile
        yield from [self._entry(path, file) for path, file in files if path.startswith(under)]

    def folders(self, prefix: str) -> Iterator[str]:
        self._requests.add("list")
        under = f"{prefix}/" if prefix else ""
        rests = [path[len(under) :] for path in list(self._files) if path.startswith(under)]
        yield from sorted({rest.partition("/")[0] for rest in rests if "/" in rest})

    def stat(self, path: str) -> Entry:
        self._requests.add("stat")
        return self._entry(path, self._file(path))

    def read(self, path: str) -> bytes:
        self._requests.add("read")
        content = self._file(path)[0]
        must_be_small(len(content), path)
        return content

    @contextmanager
    def open(self, path: str) -> Iterator[BinaryIO]:
        yield io.BytesIO(self.read(path))

    def write(
        self, path: str, chunks: Chunks, *, overwrite: bool = False, like: str | None = None
    ) -> Entry:
        self._requests.add("write")
        if like is not None:
            self._file(like)
        file = (b"".join(chunks), self._clock())
        if overwrite:
            self._files[path] = file
        elif self._files.setdefault(path, file) is not file:
            raise AlreadyExistsError(path)
        return self._entry(path, file)

    def append(self, path: str, lines: bytes) -> None:
        self._requests.add("append")
        before = self._files[path][0] if path in self._files else b""
        self._files[path] = (before + missing_newline(before) + lines, self._clock())

    def delete(self, path: str) -> None:
        self._requests.add("delete")
        self._files.pop(path, None)

    def move(self, path: str, to: str, *, like: str | None = None) -> None:
        self._requests.add("move")
        if like is not None:
            self._file(like)
        file = self._file(path)
        if self._files.setdefault(to, file) is not file or path == to:
            raise AlreadyExistsError(to)
        self._files.pop(path, None)

    def move_all(self, moves: Moves, *, before: Check = nothing, after: Moved = nothing) -> None:
        for entry, to in moves:
            before()
            file = self._files.get(entry.path)
            if file and entry.tag not in (None, self._entry(entry.path, file).tag):
                raise Superseded(entry.path, "was replaced since it was listed")
            super().move_all([(entry, to)], after=after)

    def check_readable(self, path: str, *, like: str) -> None:
        self._requests.add("stat", 2)
        self._file(path)
        self._file(like)

    def now(self) -> float:
        return self._clock()

    def _file(self, path: str) -> tuple[bytes, float]:
        file = self._files.get(path)
        if file is None:
            raise NotFoundError(path)
        return file

    def _entry(self, path: str, file: tuple[bytes, float]) -> Entry:
        content, modified = file
        tag = hashlib.md5(content, usedforsecurity=False).hexdigest() if self._tagged else None
        return Entry(path, len(content), modified, tag)
