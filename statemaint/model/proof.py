"""The proof of a snapshot, and the files that it was proved from (S6).

A proof names its inputs. It counts while each input that still exists is the same file: a rewind
writes deltas again under the same names, and a snapshot that was equal to the old ones is stale
from then on, although its own file has not changed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from statemaint.listing import Entry

# On a storage that stamps whole seconds, a file younger than this when it is read may be replaced
# within the same second. The margin includes the tolerated difference between clocks (S19).
_RACY = 302.0
_SHOWN = 3
RECORDS = ("inputs", "parts", "doubted")


class FileRecord(NamedTuple):
    """A file as it was when it was read; a tuple, because there is one for each file of a fleet."""

    path: str
    size: int
    modified: float | None
    tag: str | None = None  # the storage's own mark of its content; `None` if it has none
    sum: int | None = None  # CRC-32C of the stored bytes; `None` if they were not read whole

    @classmethod
    def of(cls, entry: Entry, sums: Mapping[str, int]) -> "FileRecord":
        path = entry.path
        return cls(path, entry.size, entry.modified, entry.tag, sums.get(path))

    def identifies(self, entry: Entry, at: float) -> bool:
        """Returns whether a listed file is certainly this one, by the listing alone.

        `at` is when this record was made, in seconds by the storage's clock.
        """
        if self.size != entry.size:
            return False
        if self.tag is not None and entry.tag is not None:
            return self.tag == entry.tag
        if self.modified is None or self.modified != entry.modified:
            return False
        fine = self.modified % 1 != 0
        return fine or self.modified < at - _RACY

    def listed_as(self, entry: Entry) -> "FileRecord":
        return self._replace(size=entry.size, modified=entry.modified, tag=entry.tag)


@dataclass(frozen=True, slots=True)
class Attestation:
    """Proof that a snapshot was read back whole and equals the fold of what it replaces (S6)."""

    path: str
    version: int
    size: int
    modified: float | None
    digest: str  # 32 hexadecimal digits, order-free over all rows
    rows: int
    bytes: int  # key and value bytes of all rows
    files: int = 0  # the number of files it was compared with; 0 when no file below it was left
    start: int = 0  # the version that their chain starts from, 0 for the empty state
    target: int | None = None  # the target version of the run that read it, if known
    tag: str | None = None
    sum: int | None = None  # CRC-32C of the snapshot's stored bytes
    at: float = 0.0  # when the run that proved it was planned, by the storage's clock
    ours: bool = False
    readable: bool = False  # by every reader of the log beside it, as far as is known for certain
    inputs: tuple[FileRecord, ...] = ()
    parts: tuple[FileRecord, ...] = ()  # the shared files that it refers to, read back with it
    # Files of the log that something other than the query has replaced and no snapshot confirms:
    # the state agrees at this version, but may differ at their versions.
    doubted: tuple[FileRecord, ...] = ()

    @property
    def own(self) -> FileRecord:
        return FileRecord(self.path, self.size, self.modified, self.tag, self.sum)

    @property
    def entry(self) -> Entry:
        return Entry(self.path, self.size, self.modified, self.tag)

    def covers(self, entry: Entry) -> bool:
        return self.entry == entry

    def shown(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _SHOWN_FIELDS}

    def doubting(self, before: "Attestation", doubts: Iterable[FileRecord]) -> "Attestation":
        """Returns the same proof with the files that differ from an earlier proof as doubted.

        Their earlier records stay among the inputs, because the former files may be restored.
        """
        doubted = {record.path: record for record in (*before.doubted, *doubts)}
        old = {record.path: record for record in before.inputs if record.path in doubted}
        inputs = [old.pop(record.path, record) for record in self.inputs]
        inputs += old.values()  # includes those it was not compared with this time
        return replace(self, inputs=tuple(inputs), doubted=tuple(doubted.values()))

    def refreshed(self, same: Mapping[FileRecord, Entry], at: float) -> "Attestation":
        """Returns the same proof with the currently listed identities of the same bytes.

        The readers of the original may not be able to read a copy.
        """

        def refreshed(records: tuple[FileRecord, ...]) -> tuple[FileRecord, ...]:
            return tuple(it.listed_as(same[it]) if it in same else it for it in records)

        (own,) = refreshed((self.own,))
        readable = self.readable and not any(record in same for record in (self.own, *self.parts))
        changed: dict[str, Any] = {name: refreshed(getattr(self, name)) for name in RECORDS}
        changed |= {"size": own.size, "modified": own.modified, "tag": own.tag}
        return replace(self, readable=readable, at=at, **changed)


_SHOWN_FIELDS = tuple(field.name for field in fields(Attestation) if field.name not in RECORDS)


@dataclass(frozen=True, slots=True)
class Outdated:
    """A proof that no longer counts because files of the log were replaced since."""

    proof: Attestation
    replaced: tuple[Entry, ...]  # the inputs that now have other bytes, as they are listed
    swapped: bool = False  # one of them has the bytes of another input, which no query writes

    @property
    def path(self) -> str:
        return self.proof.path

    @property
    def version(self) -> int:
        return self.proof.version

    @property
    def why(self) -> str:
        names = ", ".join(entry.name for entry in self.replaced[:_SHOWN])
        more = len(self.replaced) - _SHOWN
        many = f" and {more} more were" if more > 0 else " were" if self.replaced[1:] else " was"
        return (
            f"{names}{many} replaced after the two were proved equal. Restore the previous files "
            "from a copy; move the snapshot away only if the query itself wrote the log again"
        )
