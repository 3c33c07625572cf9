"""A query in memory that operators rewind, with the true state of every version beside it."""

import json
from collections.abc import Iterable, Mapping
from itertools import count

from statemaint.audit import verify
from statemaint.model.findings import Finding
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.records.attestations import attestation_path
from statemaint.storage import MemoryStorage
from tests.certify.files import State, applied, decode, encode, split
from tests.support.checkpoints import COMMIT, offsets_bytes
from tests.support.faults import CrashingStorage

HOME = "state/0/0"
TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=10, grace=0, orphan_age=0)


def codes(findings: Iterable[Finding]) -> set[str]:
    return {finding.code.value for finding in findings}


class RewoundQuery:
    """One HDFS-backed store, a batch at a time; every change of a file has a time of its own.

    Attributes:
        storage: its checkpoint.
        truth: the state of each version as the query has last written it.
    """

    def __init__(
        self,
        *,
        tagged: bool = False,
        step: float = 1.5,
        keys: int = 1000,
        first: float = 1_000_000.25,
    ) -> None:
        """Begins a query whose batches write one of so many keys each, and a counter."""
        self.keys = keys
        times = count(first, step)
        self._clock, self._tagged = (lambda: next(times)), tagged
        self.storage: MemoryStorage = MemoryStorage(clock=self._clock, tagged=tagged)
        self.storage.write("metadata", [b'{"id":"11111111-2222-3333-4444-555555555555"}'])
        self.truth: dict[int, State] = {0: {}}

    def run(self, first: int, last: int, *, source: str = "a", backwards: bool = False) -> None:
        """Runs batches of a closed range; what they write depends on the source they read.

        The same rows, written backwards, are other bytes.
        """
        for batch in range(first, last + 1):
            version = batch + 1
            name = f"{source}-{version % self.keys}".encode()
            rows = {b"counter": version.to_bytes(8), name: version.to_bytes(8)}
            self.storage.write(f"offsets/{batch}", [offsets_bytes()], overwrite=True)
            delta = encode(reversed(rows.items()) if backwards else rows.items())
            self.storage.write(f"{HOME}/{version}.delta", [delta], overwrite=True)
            self.truth[version] = {**self.truth[version - 1], **rows}
            self.storage.write(f"commits/{batch}", [COMMIT], overwrite=True)

    def rewind(self, batch: int) -> None:
        """Removes the log entries from a batch on, as everybody does; the state files stay."""
        for path in self.storage.files:
            folder, _, name = path.partition("/")
            if folder in ("commits", "offsets") and int(name) >= batch:
                self.storage.delete(path)

    def purge(self, batch: int) -> None:
        """Purges both logs below a batch."""
        for path in self.storage.files:
            folder, _, name = path.partition("/")
            if folder in ("commits", "offsets") and int(name) < batch:
                self.storage.delete(path)

    def upload(self, version: int, rows: State | None = None) -> None:
        """Writes a snapshot, as an executor does: of a version's true state, or of other rows."""
        content = encode((self.truth[version] if rows is None else rows).items())
        self.storage.write(f"{HOME}/{version}.snapshot", [content], overwrite=True)

    def swap(self, one: int, other: int) -> None:
        """Swaps two deltas; each keeps its time, as `mv` does."""
        first, second = (f"{HOME}/{version}.delta" for version in (one, other))
        for path, to in ((first, "aside"), (second, first), ("aside", second)):
            self.storage.move(path, to)

    def forget_proof(self, name: str) -> None:
        """Leaves the ledger as a run does that is killed before it has proved a snapshot."""
        path = attestation_path(StoreId(0, 0))
        noted = json.loads(self.storage.files[path])
        proofs = [one for one in noted["attestations"] if not one["path"].endswith(f"/{name}")]
        assert len(proofs) == len(noted["attestations"]) - 1
        content = json.dumps(noted | {"attestations": proofs}).encode()
        self.storage.write(path, [content], overwrite=True)

    def crashing(self, whole: MemoryStorage, stop: int) -> CrashingStorage:
        """Returns a copy with its times and no lease, that crashes before or after a change."""
        free = {path: file for path, file in whole._files.items() if "/lease/" not in path}
        found = CrashingStorage({}, at=stop // 2, after=bool(stop % 2), clock=self._clock)
        found._files, found._tagged = free, self._tagged
        return found

    def rebuilt(self, untrue: bytes) -> dict[int, State]:
        """Returns every version that is there once a snapshot of some bytes is moved away."""
        store = self._store
        return loaded({name: store[name] for name in store if store[name] != untrue})

    @property
    def _store(self) -> dict[str, bytes]:
        files, home = self.storage.files, f"{HOME}/"
        names = {path.removeprefix(home): path for path in files if path.startswith(home)}
        return {name: files[path] for name, path in names.items() if "/" not in name}

    @property
    def loaded(self) -> dict[int, State]:
        """Returns every version that Spark loads, by its own rule of choosing a base."""
        return loaded(self._store)

    @property
    def wrong(self) -> list[int]:
        """Returns the retained versions that Spark loads wrongly, or not at all."""
        commits = [int(path[8:]) for path in self.storage.files if path.startswith("commits/")]
        loaded = self.loaded
        return [
            batch + 1 for batch in sorted(commits) if loaded.get(batch + 1) != self.truth[batch + 1]
        ]

    def must_be_right(self) -> None:
        """Every retained version loads as it was written, and a deep check finds nothing."""
        assert self.wrong == []
        assert verify(self.storage, deep=True).findings == ()

    @property
    def names(self) -> set[str]:
        return {path.rpartition("/")[2] for path in self.storage.files if path.startswith(HOME)}


def loaded(store: Mapping[str, bytes]) -> dict[int, State]:
    """Returns every version that Spark loads from a store's files, by name.

    Version v: the newest snapshot at or below it, then each delta up to it. One pass gives all of
    them, since v begins where v - 1 does unless it has a snapshot.
    """
    kinds = {found: name for name in store if (found := split(name))}
    states: dict[int, State] = {0: {}}
    for version in sorted({number for number, _ in kinds}):
        if name := kinds.get((version, "snapshot")):
            states[version] = applied({}, decode(store[name]))
        elif version - 1 in states:
            states[version] = applied(states[version - 1], decode(store[kinds[version, "delta"]]))
    return states
