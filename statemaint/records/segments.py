"""The segments that hold the lines of the ledger, each of which is written once.

    _statemaint/ledger/<ledger>/<run>-<number>-<digest>.jsonl   one page of a run
    _statemaint/ledger/<ledger>/merged-<digest>.jsonl           several, merged by `compaction`
    _statemaint/ledger/<ledger>.jsonl                           of earlier builds, appended to
    _statemaint/ledger/bootstrap.jsonl                          the added batches, appended to

A ledger belongs to a partition (`<op>/<partition>`) or to a verb (`undo`, `repair`, `rollback`). A
segment's name contains the digest of its content, so that no two writers share one. A line may be
in several segments, with the same content in each.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

from statemaint.errors import CodecError, NotFoundError, StorageError
from statemaint.listing import Entry
from statemaint.model.ids import UnitId, run_folder
from statemaint.storage import Storage

FOLDER = "_statemaint/ledger"
BOOTSTRAP = f"{FOLDER}/bootstrap.jsonl"
UNDO = "undo"
_MERGED = "merged"
_PATH = re.compile(rf"{FOLDER}/(?P<ledger>[0-9]+/[0-9]+|undo|repair|rollback)(?:/[^/]+)?\.jsonl")
_PAGE = re.compile(r"(?P<run>.+)-[0-9]{6}-[0-9a-f]{24}\.jsonl")
_MOST_LOOKS = 10
_LONGEST_LINE = 1 << 26  # the world of a store of a million files


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a ledger."""

    content: bytes  # as it is stored, without its end
    fields: Mapping[str, Any]

    @property
    def run(self) -> str:
        return run_folder(str(self.fields.get("run")))

    @property
    def fence(self) -> int:
        fence = self.fields.get("fence")
        return fence if isinstance(fence, int) else 0

    @property
    def time(self) -> float | None:
        time = self.fields.get("time")
        return time if isinstance(time, int | float) and math.isfinite(time) else None

    @property
    def path(self) -> str:
        return str(self.fields.get("path"))

    @property
    def removes(self) -> bool:
        return self.fields.get("action") in ("delete", "remove")

    @property
    def restored_of(self) -> str:
        return run_folder(str(self.fields.get("of")))


def ledger_of(unit: UnitId) -> str:
    return f"{unit.operator}/{unit.partition}"


def add_segment(storage: Storage, ledger: str, page: str, lines: Sequence[bytes]) -> None:
    """Adds lines with their ends to a ledger, durable on return; one request if the storage is S3.

    The names of the pages of a run sort in the order of their writing.
    """
    content = b"".join(lines)
    storage.append(_segment(ledger, page, content), content)


def page_of(run: str, number: int) -> str:
    return f"{run_folder(run)}-{number:06}"


def run_of_page(path: str) -> str | None:
    page = _PAGE.fullmatch(path.rpartition("/")[2])
    return page["run"] if page else None


def write_merged(storage: Storage, ledger: str, lines: Iterable[Line]) -> str:
    content = b"".join(line.content + b"\n" for line in lines)
    path = _segment(ledger, _MERGED, content)
    storage.replace(path, [content])
    return path


def _segment(ledger: str, name: str, content: bytes) -> str:
    return f"{FOLDER}/{ledger}/{name}-{hashlib.sha256(content).hexdigest()[:24]}.jsonl"


def ledgers(storage: Storage) -> dict[str, list[Entry]]:
    by_ledger: dict[str, list[Entry]] = {}
    for entry in storage.list(FOLDER):
        if named := _PATH.fullmatch(entry.path):
            by_ledger.setdefault(named["ledger"], []).append(entry)
    return by_ledger


def read_ledger(storage: Storage, ledger: str) -> list[Line]:
    """Returns the lines of a ledger in the order of their times, each once."""
    for _ in range(_MOST_LOOKS):
        listed = sorted(entry.path for entry in storage.list(f"{FOLDER}/{ledger}"))
        segments = [path for path in listed if _PATH.fullmatch(path)]
        try:
            lines = [line for path in segments for line in read_segment(storage, path)]
        except NotFoundError:  # merged since it was listed: its lines are in another one now
            continue
        with suppress(NotFoundError):
            lines += read_segment(storage, f"{FOLDER}/{ledger}.jsonl")
        return in_order(lines)
    raise StorageError(f"{FOLDER}/{ledger}", "its segments are being merged repeatedly")


def read_segment(storage: Storage, path: str) -> Iterator[Line]:
    """Yields the lines of a segment, without one that a crash cut short."""
    with storage.open(path) as stream:
        for content, fields in stored_lines(stream, path):
            yield Line(content, fields)


def in_order(lines: Iterable[Line]) -> list[Line]:
    different = {line.content: line for line in lines}
    return sorted(different.values(), key=lambda line: line.time or 0.0)


def read_lines(storage: Storage, path: str) -> list[dict[str, Any]]:
    """Returns the lines of a file, without one that a crash cut short; none if it is missing."""
    try:
        with storage.open(path) as stream:
            return [fields for _, fields in stored_lines(stream, path)]
    except NotFoundError:
        return []


def stored_lines(stream: BinaryIO, path: str) -> Iterator[tuple[bytes, dict[str, Any]]]:
    for line in iter(lambda: stream.readline(_LONGEST_LINE), b""):
        if len(line) == _LONGEST_LINE:
            detail = f"a line has more than {_LONGEST_LINE >> 20} MiB, more than any of our lines"
            raise CodecError(detail, offset=0, path=path)
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(fields, dict):
            yield line.rstrip(b"\r\n"), fields
