"""The logs of file sources, by their names: whether a restart finds the entries that it reads.

    sources/<i>/<n>[.compact]      the files that source i has seen; a compact entry replaces all
                                   before it as well

Mirrors `FileStreamSource.getBatch` and `CompactibleFileStreamLog.allFiles`. Only file sources need
their own log to restart.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from statemaint.codec.metadata import logs
from statemaint.errors import CodecError, NotFoundError
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.findings import Finding, FindingCode
from statemaint.storage import Storage

ADVICE = (
    "it records which files the file source has read: a restart fails, or rereads or skips files; "
    "put it back from a copy"
)
_ENTRY = re.compile(r"(0|[1-9][0-9]{0,17})(\.compact)?")


@dataclass(frozen=True, slots=True)
class SourceLog:
    """The log of one file source."""

    folder: str
    entries: Mapping[int, str]  # the names by their numbers
    base: int  # the newest compact entry; 0 if there is none

    @classmethod
    def listed(cls, storage: Storage, source: str) -> "SourceLog":
        folder = f"sources/{source}"
        names = (one.path.removeprefix(f"{folder}/") for one in storage.list(folder))
        listed = {int(one[1]): one for name in names if (one := _ENTRY.fullmatch(name))}
        base = max((number for number, one in listed.items() if one[2]), default=0)
        return cls(folder, {number: one[0] for number, one in listed.items()}, base)

    def missing(self, first: int, last: int) -> Finding | None:
        newest = max(self.entries, default=-1)
        number = self._absent(min(self.base, first + 1), max(newest, last))
        if number is None:
            return None
        path = self.folder if not self.entries else f"{self.folder}/{number}"
        return Finding(FindingCode.MISSING_SOURCE_LOG, f"{path} is missing: {ADVICE}", path=path)

    def _absent(self, first: int, last: int) -> int | None:
        """Returns the highest missing number of a closed range, if any."""
        there = sorted((one for one in self.entries if first <= one <= last), reverse=True)
        expected = last
        for number in there:
            if number != expected:
                break
            expected -= 1
        return expected if expected >= first else None


def missing_source_logs(storage: Storage, checkpoint: Checkpoint) -> Iterator[Finding]:
    """Yields the findings of the logs of file sources that their names alone show."""
    if not checkpoint.file_sources:
        return
    before = _before(storage, checkpoint.offsets[-1])
    for source, last in checkpoint.file_sources.items():
        first = before.get(source, last if checkpoint.offsets[-1] else -1)
        if finding := SourceLog.listed(storage, source).missing(first, last):
            yield finding


def _before(storage: Storage, newest: int) -> Mapping[str, int]:
    with suppress(NotFoundError, CodecError):  # `verify` reports them
        return logs.parse_offsets(storage.read(f"offsets/{newest - 1}")).file_sources
    return {}
