"""The parts of a checkpoint that the plan of a run read, handed to the tasks of the run.

A task then lists its own partitions and the two logs, and reads no file of the logs that the plan
has read: an entry counts as long as the listing still shows that very file.
"""

import json
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field
from functools import partial
from typing import Any

from statemaint.listing import Entry
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.ids import StoreId, UnitId
from statemaint.records.attestations import ATTESTATIONS, store_of
from statemaint.records.remembered import Remembering
from statemaint.scan.layout import Refused
from statemaint.scan.query_logs import partition_counts
from statemaint.storage import ReadOnly, Storage
from statemaint.workers import in_order

_LOGS = ("offsets", "commits")
_OF_OPERATORS = re.compile(r"state/\d+/(_metadata|_stateSchema|0(/[^/]+)?/_metadata)/.*")
# Commits with unique ids are large. Airflow's database would keep every one of them for each run.
_MOST_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Handover:
    """The parts of a scan that all partitions share."""

    entries: tuple[Entry, ...] = ()  # those under `state/` that describe operators and schemas
    contents: Mapping[Entry, bytes] = field(default_factory=dict)  # of the small files read
    stores: frozenset[StoreId] = frozenset()
    noted: frozenset[StoreId] = frozenset()  # in the ledger, of operators that the query has
    pinned: int | None = None
    counts: Mapping[int, int] = field(default_factory=dict)
    commit: Entry | None = None

    def to_json(self) -> str:
        fields = {
            "entries": [_row(entry) for entry in self.entries],
            "stores": [astuple(store) for store in sorted(self.stores)],
            "noted": [astuple(store) for store in sorted(self.noted)],
            "pinned": self.pinned,
            "counts": list(self.counts.items()),
            "commit": _row(self.commit) if self.commit else None,
        }
        contents = [[*_row(it), b64encode(of).decode()] for it, of in self.contents.items()]
        packed = _packed({**fields, "contents": contents})
        return packed if len(packed) <= _MOST_BYTES else _packed({**fields, "contents": []})

    @classmethod
    def from_json(cls, text: str) -> "Handover":
        fields: dict[str, Any] = json.loads(zlib.decompress(b64decode(text)))
        return cls(
            entries=tuple(Entry(*row) for row in fields["entries"]),
            contents={Entry(*row[:-1]): b64decode(row[-1]) for row in fields["contents"]},
            stores=frozenset(StoreId(*row) for row in fields["stores"]),
            noted=frozenset(StoreId(*row) for row in fields["noted"]),
            pinned=fields["pinned"],
            counts=dict(fields["counts"]),
            commit=Entry(*fields["commit"]) if fields["commit"] else None,
        )


@dataclass(frozen=True, slots=True)
class ScanPart:
    """The partitions that a task reads, and the handover for the rest."""

    handover: Handover
    units: frozenset[UnitId]

    def state(self, storage: Storage, refused: Refused) -> Iterator[Entry]:
        """Yields the files of the task's own partitions, and those that describe operators."""
        own = {entry.path: entry for entry in self.listed(storage, "state", refused)}
        yield from own.values()
        yield from (entry for entry in self.handover.entries if entry.path not in own)

    def listed(self, storage: Storage, folder: str, refused: Refused) -> Iterator[Entry]:
        def of_unit(unit: UnitId) -> list[Entry]:
            entries = storage.list(f"{folder}/{unit.operator}/{unit.partition}")
            return [*refused.listed(entries)]

        jobs = (partial(of_unit, unit) for unit in sorted(self.units))
        for entries in in_order(jobs, threads=storage.parallel):
            yield from entries

    def others(self, stores: Collection[StoreId]) -> frozenset[StoreId]:
        return frozenset(store for store in stores if store.unit not in self.units)

    def added(self, batches: Iterable[int]) -> list[int]:
        newest = self.handover.commit
        return sorted(batch for batch in batches if newest and batch > int(newest.name))

    def still_holds(
        self, storage: Storage, commits: Mapping[int, Entry], pinned: int | None
    ) -> bool:
        # The commit log may only have grown at its end, or been purged: after a rewind, or a
        # repartition, everything has to be read again.
        newest = self.handover.commit
        if newest is None or pinned != self.handover.pinned:
            return False
        if commits.get(int(newest.name)) != newest:
            return False
        return set(partition_counts(storage, self.added(commits)).values()) <= {pinned}


class Recorder(Remembering):
    """A storage that is only read, and notes the content of a scan's handover."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self._seen: dict[str, Entry] = {}
        self._read: dict[str, bytes] = {}
        self._operators: dict[str, Entry] = {}
        self._noted: set[StoreId] = set()

    def list(self, prefix: str) -> Iterator[Entry]:
        for entry in super().list(prefix):
            of_operators = prefix == "state" and _OF_OPERATORS.fullmatch(entry.path)
            if of_operators:
                self._operators[entry.path] = entry
            if of_operators or prefix in _LOGS:
                if self._seen.get(entry.path) != entry:
                    self._read.pop(entry.path, None)  # the content of its predecessor
                self._seen[entry.path] = entry
            elif prefix == ATTESTATIONS and (store := store_of(entry.path)):
                self._noted.add(store)
            yield entry

    def read(self, path: str) -> bytes:
        content = super().read(path)
        if path in self._seen:
            self._read[path] = content
        return content

    def handover(self, checkpoint: Checkpoint) -> Handover:
        return Handover(
            entries=tuple(self._operators.values()),
            contents={self._seen[path]: content for path, content in self._read.items()},
            stores=frozenset(store.id for store in checkpoint.stores if store.files),
            noted=frozenset(id_ for id_ in self._noted if id_.operator in checkpoint.partitions),
            pinned=checkpoint.pinned,
            counts=checkpoint.counts,
            commit=checkpoint.commit,
        )


class Recalling(ReadOnly):
    """A storage that is only read, and answers from a handover if a file is still the same."""

    def __init__(self, storage: Storage, handover: Handover) -> None:
        super().__init__(storage)
        self._contents = handover.contents
        self._seen = {entry.path: entry for entry in handover.entries}

    def list(self, prefix: str) -> Iterator[Entry]:
        for entry in self._storage.list(prefix):
            if prefix in _LOGS:
                self._seen[entry.path] = entry
            yield entry

    def read(self, path: str) -> bytes:
        entry = self._seen.get(path)
        content = self._contents.get(entry) if entry else None
        return self._storage.read(path) if content is None else content


def _packed(fields: Mapping[str, Any]) -> str:
    return b64encode(zlib.compress(json.dumps(fields).encode())).decode()


def _row(entry: Entry) -> list[Any]:
    return [entry.path, entry.size, entry.modified, entry.tag]
