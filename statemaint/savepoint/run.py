"""Writes a savepoint: begun, continued or started over, and whole once its `metadata` is true."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from uuid import uuid4

from statemaint import __version__
from statemaint.errors import (
    ConfigError,
    DamagedError,
    MissingSstError,
    NotFoundError,
    StorageError,
    Superseded,
)
from statemaint.execute.attempts import forget_units
from statemaint.execute.fence import Fence, superseded_if_missing
from statemaint.execute.lease import Lease, leased
from statemaint.maintain.pins import pinned
from statemaint.records import savepoints as records
from statemaint.records.claims import Holder
from statemaint.records.runs import new_run_id
from statemaint.records.savepoints import SAME, SavedStore, SavepointNote, Shape
from statemaint.savepoint.compactible import check_sink_empty, write_sink_log
from statemaint.savepoint.forecast import forecast
from statemaint.savepoint.plan import (
    SavepointPlan,
    check_not_rewound,
    committed_batches,
    plan_savepoint,
    witness_of,
)
from statemaint.savepoint.report import SavepointReport
from statemaint.savepoint.stores import StoreWriter, in_place
from statemaint.storage import ReadOnly, Storage
from statemaint.storage.address import overlaps
from statemaint.storage.base import is_ours
from statemaint.workers import Workers

UNFINISHED = (
    b"this savepoint is not complete: run the same command of statemaint again to complete it\n"
)
"""The `metadata` of a savepoint until it is whole: no Spark can read it, so none starts."""
_MOST_STARTS = 3
_ADVICE = (
    "the query cleans up faster than this reads: let it keep more batches "
    "(spark.sql.streaming.minBatchesToRetain), or save a newer batch"
)
_NO_PIN = (
    "a savepoint pins its batch in the checkpoint; without the right to write there, leave that "
    "away (--no-pin): then it starts over if maintenance deletes what it reads"
)


def savepoint(  # noqa: PLR0913 -- each is a choice of its own
    source: Storage,
    dest: Storage,
    *,
    batch: int | None = None,
    new_id: bool = False,
    shape: Shape = SAME,
    sink: Storage | None = None,
    pin: bool = True,
    dry_run: bool = False,
    count_rows: bool = False,
    workers: Workers | int | None = None,
) -> SavepointReport:
    """Makes a storage's root a checkpoint from which the query continues after a batch.

    The query may run, and so may maintenance. Safe to kill: no Spark starts from what is there
    then, and the same call completes it.

    Args:
        source: where the checkpoint lives; it is only read, but for a pin.
        dest: where the savepoint will live: an empty folder, or the same savepoint, unfinished.
        batch: a committed batch; by default the newest. If what is being read is cleaned up, the
            savepoint starts over, three times at most, and from a newer batch if none was given.
        new_id: give the query that starts from it an id of its own.
        shape: what is to be other than in the checkpoint, such as the number of partitions.
        sink: the empty folder that its file sink will write to; gets the log that the sink reads.
        pin: keep maintenance from deleting what the batch needs, which takes the right to write to
            the checkpoint. Spark's own clean-up heeds no pin.
        dry_run: plan it, and write nothing.
        count_rows: in a dry run, read all rows, as it does for another shape in any case.
        workers: the number of stores at a time; by default what suits the storages.

    Raises:
        ConfigError: when the batch is not committed, or `dest` or `sink` has other files, or is
            inside of the checkpoint or of the other.
        DamagedError: when a restart after the batch would fail, or load wrong rows.
        Superseded: when a file that is needed was deleted in the meantime.
        LeaseHeldError: when another run writes or maintains `dest`.
    """
    workers = Workers.of(workers)
    if dry_run:
        run = _Run(ReadOnly(source), dest, batch, new_id, shape, sink)
        return run.forecast(workers if count_rows or shape != SAME else None)
    steps = saving(source, dest, batch, new_id=new_id, shape=shape, sink=sink, pin=pin)
    return driven(steps, lambda writer: tuple(writer.write(workers)))


Saving = Generator[StoreWriter, Sequence[SavedStore], SavepointReport]


def driven(steps: Saving, write: Callable[[StoreWriter], Sequence[SavedStore]]) -> SavepointReport:
    """Carries out a savepoint; `write` writes its stores, and is called again if it starts over.

    No Spark can start from the savepoint before `write` returns, nor after it has failed.
    """
    try:
        writer = next(steps)
        while True:
            try:
                stores = write(writer)
            except (Superseded, MissingSstError) as error:
                writer = steps.throw(error)
            else:
                writer = steps.send(stores)
    except StopIteration as end:
        report: SavepointReport = end.value
        return report
    finally:
        steps.close()


def saving(  # noqa: PLR0913 -- each is a choice of its own
    source: Storage,
    dest: Storage,
    batch: int | None = None,
    *,
    new_id: bool = False,
    shape: Shape = SAME,
    sink: Storage | None = None,
    pin: bool = True,
    shared: Holder | None = None,
) -> Saving:
    """Makes a savepoint as `savepoint` does, but for its stores, which the caller writes.

    Yields the writer of the stores that are left, and is sent these, or is thrown the error of a
    missing input and yields again if the savepoint starts over. Lease and pin are held until it
    ends. Other processes may write the stores if they are handed the holder of the lease, `shared`.
    """
    run = _Run(ReadOnly(source), dest, batch, new_id, shape, sink)
    begun = run.begun()
    if begun and is_whole(dest, begun) and batch == begun.batch:
        return run.whole(begun)
    planned = run.checked(begun)  # what is refused leaves no trace
    dest.create_root()
    with _leased(dest, shared) as lease:
        for starts in range(1, _MOST_STARTS + 1):
            planned = planned if starts == 1 else run.planned(run.begun())
            try:
                with _held(source, planned.batch, dest.root) if pin else nullcontext():
                    report = yield from run.write(planned, lease)
                    if shared:
                        forget_units(dest, before=lease.must_hold)
                    return replace(report, starts=starts)
            except (Superseded, MissingSstError) as error:
                if starts == _MOST_STARTS:
                    error.add_note(_ADVICE)
                    raise
    raise AssertionError("unreachable")


@contextmanager
def _leased(dest: Storage, shared: Holder | None) -> Iterator[Lease]:
    holder = shared or Holder(new_run_id(dest.now()))
    with leased(dest, holder, keep=shared is not None) as lease:
        try:
            yield lease
        finally:
            if shared:  # a process that has it may still be at work
                lease.end()


@contextmanager
def _held(source: Storage, batch: int, dest: str) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            stack.enter_context(pinned(source, batch, by=f"savepoint to {dest}"))
        except StorageError as error:
            error.add_note(_NO_PIN)
            raise
        yield


def is_whole(dest: Storage, note: SavepointNote) -> bool:
    """Returns whether a query can start from a savepoint of this record, or has."""
    return note.ended is not None and _metadata(dest) not in (None, UNFINISHED)


def _metadata(dest: Storage) -> bytes | None:
    try:
        return dest.read(records.METADATA)
    except NotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class _Run:
    """One call of `savepoint`; the arguments are its own, with `source` read-only."""

    source: Storage
    dest: Storage
    batch: int | None
    new_id: bool
    shape: Shape
    sink: Storage | None

    def __post_init__(self) -> None:
        places = {"the checkpoint": self.source.root, "the savepoint": self.dest.root}
        if self.sink:
            places["the sink"] = self.sink.root
        for outer, inner in overlaps(places):
            raise ConfigError(
                f"{places[inner]}: {inner} cannot be in the folder of {outer} ({places[outer]}); "
                "give a folder of its own"
            )

    def forecast(self, workers: Workers | None) -> SavepointReport:
        """Returns the report of a dry run; with workers it reads all rows."""
        begun = self.begun()
        planned = self.checked(begun)
        report = self.report(planned, self.note(planned, begun))
        return replace(report, operators=forecast(planned, workers)) if workers else report

    def checked(self, begun: SavepointNote | None) -> SavepointPlan:
        planned = self.planned(begun)
        if self.sink:
            batches = (planned.batch, begun.batch if begun else planned.batch)
            # The sink would skip the batches up to the newest of its log, without a word.
            check_sink_empty(self.sink, (batch for batch in batches if batch <= planned.batch))
        return planned

    def begun(self) -> SavepointNote | None:
        """Returns the record of this savepoint if it was begun; `None` if the folder is empty."""
        note = records.read_savepoint(self.dest)
        if note is None:
            others = (each.path for each in self.dest.list("") if not is_ours(each.path))
            if path := next(others, None):
                raise ConfigError(f"{self.dest.root}: not empty, it has {path}; give a new folder")
            return None
        other: str | None = None
        whole, chosen = is_whole(self.dest, note), (self.batch, self.shape, self.new_id)
        if note.expired is not None:
            other = "a savepoint that is being deleted"
        elif whole and chosen != (note.batch, note.shape, note.forked):
            other = f"{'a fork' if note.forked else 'the savepoint'} of batch {note.batch} already"
        elif not whole:
            self._check_untouched()
        if other is None and note.source != self.source.root:
            other = f"a savepoint of {note.source}"
        if other:
            raise ConfigError(f"{self.dest.root}: it has {other}; give a new folder")
        return note

    def _check_untouched(self) -> None:
        """Refuses an unfinished savepoint that was made startable: it may be in use."""
        metadata = _metadata(self.dest)
        if metadata == UNFINISHED:
            return
        there = (entry.path for entry in self.dest.list(""))
        if metadata is not None or any(path.startswith(records.OF_A_QUERY) for path in there):
            what = "was removed" if metadata is None else "is another one"
            raise ConfigError(
                f"{self.dest.root}: the metadata of its unfinished savepoint {what}, so a query "
                "may have run from it; nothing is deleted, give a new folder"
            )

    def planned(self, begun: SavepointNote | None) -> SavepointPlan:
        """Returns the savepoint to write: of the batch that was begun, as long as it can be."""
        plan = partial(plan_savepoint, self.source, to=self.dest.root, shape=self.shape)
        if self.batch is not None:
            return plan(self.batch)
        batches = committed_batches(self.source)
        if begun and begun.batch in batches:
            with suppress(DamagedError):  # its state was cleaned up
                return plan(begun.batch)
        return plan(max(batches, default=0))

    def note(self, planned: SavepointPlan, begun: SavepointNote | None) -> SavepointNote:
        """Returns the record of a savepoint that begins, or continues if it is the same."""
        checkpoint, batch = planned.checkpoint, planned.batch
        note = SavepointNote(
            source=self.source.root,
            query_id=checkpoint.query_id,
            id=str(uuid4()) if self.new_id else checkpoint.query_id,
            batch=batch,
            witness=planned.witness,
            build=__version__,
            begun=self.dest.now(),
            before=Shape.of(checkpoint),
            shape=self.shape,
        )
        if begun is None or self.new_id != begun.forked:
            return note
        same = replace(note, id=begun.id, begun=begun.begun)
        return same if replace(begun, ended=None, stores=(), logs={}) == same else note

    def whole(self, note: SavepointNote) -> SavepointReport:
        """Returns the report of a savepoint that was whole before; a query may have started."""
        with suppress(NotFoundError):  # its log may be gone
            if witness_of(self.source, note.batch) != note.witness:
                raise ConfigError(
                    f"{self.dest.root}: it has batch {note.batch} as it was before the query was "
                    "rewound and wrote that batch again; give a new folder, or save a newer batch"
                )
        if self.sink:
            check_sink_empty(self.sink, (note.batch,))
            write_sink_log(self.sink, note.batch)
        stores = len(note.stores)
        return SavepointReport(self.dest.root, note, stores, continued=stores, found=True)

    def report(
        self, planned: SavepointPlan, note: SavepointNote, continued: int = 0
    ) -> SavepointReport:
        return SavepointReport(
            self.dest.root,
            note,
            len(planned.paths),
            planned.size,
            continued,
            dry_run=note.ended is None,
            unchecked=planned.unchecked,
        )

    def write(self, planned: SavepointPlan, fence: Fence) -> Saving:
        """Writes the savepoint, or what is left of it, but for the stores."""
        begun = self.begun()
        if begun and is_whole(self.dest, begun):
            return self.whole(begun)  # another run has completed it since this was planned
        with superseded_if_missing("this was planned"):
            note = self.note(planned, begun)
        done = {} if begun is None else self._cleared(begun, note, planned.paths, fence)
        self._note(note, UNFINISHED, fence)
        logs = {}
        with superseded_if_missing("this was planned"):
            for path, chunks in planned.logs:
                fence.check()
                logs[path] = self.dest.write(path, chunks, overwrite=True).size
        written = yield StoreWriter(planned, self.dest, fence, done)
        stores = done | {store.directory: store for store in written}
        saved = tuple(stores[directory] for directory in planned.paths)
        note = replace(note, ended=self.dest.now(), stores=saved, logs=logs)
        self._check_whole(note)
        check_not_rewound(self.source, planned.batch, planned.witness)
        if self.sink:
            write_sink_log(self.sink, planned.batch)
        self._note(note, records.true_metadata(note), fence)
        records.forget_stores(self.dest)
        return self.report(planned, note, len(done))

    def _note(self, note: SavepointNote, metadata: bytes, fence: Fence) -> None:
        """Writes the record, and the `metadata` that go with it.

        A run that slept before either may find a savepoint of another run, or a query, there.
        """
        fence.must_hold()
        records.write_savepoint(self.dest, note)
        fence.must_hold()
        self.dest.replace(records.METADATA, [metadata])

    def _cleared(
        self, begun: SavepointNote, note: SavepointNote, paths: Mapping[str, str], fence: Fence
    ) -> dict[str, SavedStore]:
        """Returns the stores that are in place by their directories; deletes what else there is.

        The folder was empty when the savepoint was begun, and no query can have run from it. A file
        with a unique id has another of the `paths` where the folder's address is written otherwise.
        """
        names = ("batch", "witness", "id", "shape")
        same = all(getattr(begun, name) == getattr(note, name) for name in names)
        there = (*begun.stores, *records.read_stores(self.dest, note.witness)) if same else ()
        noted = (store for store in there if paths.get(store.directory) in store.files)
        done = in_place(self.dest, [""], noted, records.OF_A_QUERY, fence)
        if not done:
            records.forget_stores(self.dest)
        return done

    def _check_whole(self, note: SavepointNote) -> None:
        there = {entry.path: entry.size for entry in self.dest.list("")}
        for path, size in note.files.items():
            if there.get(path) != size:
                raise Superseded(f"{self.dest.root}/{path}", "was changed while it was written")
