"""Writes the stores of a savepoint, and proves each by reading it back."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial

from statemaint.audit.suspects import check_suspects
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.integrity.digest import StateDigest
from statemaint.errors import AlreadyExistsError
from statemaint.execute.fence import Fence, superseded_if_missing
from statemaint.execute.publish import Published, built, publish, publish_zip, read_back
from statemaint.fold import Engine, Source, engine_for
from statemaint.fold.needs import chains_need, loading
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.plan.actions import WriteSnapshot
from statemaint.records.savepoints import SavedStore, note_stores, read_stores
from statemaint.savepoint.plan import SavepointPlan
from statemaint.savepoint.shuffle import Row, Shuffle, spilled, written
from statemaint.storage import Storage
from statemaint.workers import Job, Workers, as_they_come

_RECORDED_PER_WAITING = 8
# The memory that a shuffle takes: the rows before they are written, and sorted once more.
SPILL = 192 * 1024 * 1024


def in_place(
    dest: Storage,
    folders: Iterable[str],
    noted: Iterable[SavedStore],
    others: tuple[str, ...],
    fence: Fence,
) -> dict[str, SavedStore]:
    """Returns the noted stores that are in place in some folders, by their directories.

    Deletes the files there that are none of theirs and whose paths begin as `others` do.
    """
    there = {entry.path: entry.size for folder in folders for entry in dest.list(folder)}
    done = {store.directory: store for store in noted if store.files.items() <= there.items()}
    kept = {path for store in done.values() for path in store.files}
    left = [path for path in there if path.startswith(others) and path not in kept]
    dest.delete_all(left, before=fence.must_hold)
    return done


@dataclass(frozen=True, slots=True)
class StoreWriter:
    """Writes the stores of a savepoint; `done` are those in place already, by directory."""

    planned: SavepointPlan
    dest: Storage
    fence: Fence
    done: Mapping[str, SavedStore] = field(default_factory=dict)

    @property
    def left(self) -> list[tuple[Store, WriteSnapshot]]:
        """Returns the stores to write whole, each with its file."""
        return [each for each in self.planned.stores if each[0].id.directory not in self.done]

    @property
    def writes_left(self) -> list[WriteSnapshot]:
        """Returns the files to write row by row."""
        targets = (write for shuffle in self.planned.shuffles for write in shuffle.targets)
        return [write for write in targets if write.store.directory not in self.done]

    def continued(self) -> "StoreWriter":
        """Returns the same, after a killed writer of these stores: what it has proved is done."""
        writes = [*(write for _, write in self.left), *self.writes_left]
        own = [(write.path, f"{write.store.directory}/SSTs/") for write in writes]
        folders = [write.store.directory for write in writes]
        others = tuple(path for paths in own for path in paths)
        noted = read_stores(self.dest, self.planned.witness)
        return replace(self, done=in_place(self.dest, folders, noted, others, self.fence))

    def write(self, workers: Workers) -> Iterator[SavedStore]:
        """Yields each store that is left once it is written, proved and recorded.

        Several are recorded at a time: a kill repeats at most a ninth of the stores of this call.
        """
        stores, source, done = self.left, self.planned.storage, self.done.keys()
        shuffles = [each for each in self.planned.shuffles if not each.directories <= done]
        size = sum(write.chain.size for _, write in stores) + sum(each.size for each in shuffles)
        ahead = workers.ahead(source.parallel, len(stores), size)
        provider = self.planned.checkpoint.provider
        engine = engine_for(size, provider)
        again = engine_for(size, self.planned.shape.provider or provider)
        jobs = []
        for store, write in stores:
            start = partial(self._store, engine, ahead, store, write)
            jobs.append(Job(start, partial(self._need, store, write.chain), write.chain.size))
        for shuffle in shuffles:
            start = partial(self._shuffle, engine, again, shuffle)
            need = partial(self._shuffle_need, shuffle)
            jobs.append(Job(start, need, shuffle.size, "operator"))
        threads = workers.threads(max(source.parallel, self.dest.parallel), size)
        budget = workers.budget(loading(size, provider))
        yield from self._recorded(as_they_come(jobs, threads=threads, budget=budget))

    def _recorded(self, written: Iterable[SavedStore]) -> Iterator[SavedStore]:
        recorded, waiting = 0, list[SavedStore]()
        for store in written:
            waiting.append(store)
            if len(waiting) * _RECORDED_PER_WAITING > recorded:
                note_stores(self.dest, waiting)
                yield from waiting
                recorded, waiting = recorded + len(waiting), []
        if waiting:
            note_stores(self.dest, waiting)
            yield from waiting

    def _source(self, store: Store, ahead: int = 1) -> Source:
        return Source.of(self.planned.storage, store, self.planned.checkpoint, ahead=ahead)

    def _as_saved(self, source: Source) -> Source:
        shape = self.planned.shape
        codec = COMPRESSIONS[shape.codec or source.compression.name]
        return replace(source, compression=codec, row_checksums=bool(shape.row_checksums))

    def _need(self, store: Store, chain: Chain) -> int:
        return chains_need((chain,), self._source(store), store, writes=1)

    def _shuffle_need(self, shuffle: Shuffle) -> int:
        return SPILL + self._need(*max(shuffle.sources, key=lambda source: source[1].size))

    def _store(
        self, engine: Engine, ahead: int, store: Store, write: WriteSnapshot
    ) -> Iterator[SavedStore]:
        source = self._source(store, ahead)
        check_rows(self.planned, source, engine, store)
        published = self._published(source, engine, write)
        yield self._proved(self._as_saved(source), engine, write, published)

    def _shuffle(self, engine: Engine, again: Engine, shuffle: Shuffle) -> Iterator[SavedStore]:
        """Yields the stores that are written row by row, but for those that are in place."""
        sources = [self._source(store) for store, _ in shuffle.sources]
        for source, (store, _) in zip(sources, shuffle.sources, strict=True):
            check_rows(self.planned, source, engine, store)
        with ExitStack() as stack:
            with superseded_if_missing():
                spill, digests = stack.enter_context(spilled(shuffle, sources))
            for number, (write, digest) in enumerate(zip(shuffle.targets, digests, strict=True)):
                if write.store.directory not in self.done:
                    yield self.put(again, shuffle, write, spill.rows(number), digest)

    def put(
        self,
        engine: Engine,
        shuffle: Shuffle,
        write: WriteSnapshot,
        rows: Iterator[Row],
        digest: StateDigest,
    ) -> SavedStore:
        """Writes a file of rows that are put apart, in the order of their keys, and proves it."""
        source = self._as_saved(self._source(shuffle.sources[0][0]))
        published = written(self.dest, write, rows, source, digest, self.fence.check)
        return self._proved(source, engine, write, published)

    def _proved(
        self, source: Source, engine: Engine, write: WriteSnapshot, published: Published
    ) -> SavedStore:
        """Reads a file back, and returns its record."""
        if not published.written:  # it was cleared, and no other run may write here
            raise AlreadyExistsError(write.path, "another writer has put a file there")
        copy = replace(source, storage=self.dest, checksums={}, ahead=1)
        copy = copy.beside(write.path) if write.checksum else copy
        state = read_back(engine, copy, write.path, published.digest, self.fence)
        files = (published.entry, published.checksum, *published.parts)
        return SavedStore(
            directory=write.store.directory,
            rows=state.rows,
            digest=state.digest,
            files={entry.path: entry.size for entry in files if entry},
            of=self.planned.witness,
        )

    def _published(self, source: Source, engine: Engine, write: WriteSnapshot) -> Published:
        check = self.fence.check
        if write.path.endswith(".zip"):
            with built(source, (write,)) as (database,):
                return publish_zip(self.dest, write, database, like=None, before=check)
        with superseded_if_missing():
            folding = engine.fold(source, write.chain, (write.version,))
            (published,) = publish(self.dest, (write,), folding, like=None, before=check)
        return published


def check_rows(planned: SavepointPlan, source: Source, engine: Engine, store: Store) -> None:
    """Refuses a version of which a restart may load wrong rows, as its log was replaced."""
    for finding in check_suspects(source, lambda: engine, store, planned.checkpoint):
        if planned.batch in finding.batches:
            raise planned.refusal(finding)
