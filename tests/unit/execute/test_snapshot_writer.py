"""What a proof says of its snapshot, whoever wrote that, and of what it was compared with (S6)."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Any, BinaryIO

import google_crc32c
import pytest

from statemaint.execute.fence import Fence, PinWatch
from statemaint.execute.ledger import Ledger
from statemaint.execute.snapshot_writer import SnapshotWriter, StoreFolds
from statemaint.execute.store_record import RunContext, StoreRecord
from statemaint.execute.stores import StoreExecutor
from statemaint.fold import ClearEngine, Engine, Folding, Source, engine_for
from statemaint.fold.rocksdb import RocksEngine
from statemaint.listing import Entry
from statemaint.maintain import maintain
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.model.files import Snapshot
from statemaint.model.policy import Policy
from statemaint.model.proof import Attestation
from statemaint.model.rocks import Rocks
from statemaint.plan.actions import Attest, WriteSnapshot
from statemaint.planning import plan_checkpoint
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import (
    checkpoint,
    snapshot_bytes,
    state_at,
    store,
    write_checkpoint,
)
from tests.support.faults import Clock
from tests.support.rocks import rocks_store, write_rocks_checkpoint

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0)
HOME = "state/0/0"
PATH, BELOW = f"{HOME}/25.snapshot", f"{HOME}/10.snapshot"


@pytest.fixture
def storage() -> MemoryStorage:
    return write_checkpoint(MemoryStorage(clock=Clock()), partitions=1)


@dataclass(frozen=True)
class Seeing(RocksEngine):
    """Remembers which zip said how a chain is folded."""

    families: list[Snapshot | None] = field(default_factory=list)

    def fold(
        self, source: Source, chain: Chain, versions: tuple[int, ...], *, write: bool = True
    ) -> Folding:
        self.families.append(source.families)
        return super().fold(source, chain, versions, write=write)


def executor(storage: MemoryStorage, engine: Engine | None = None) -> StoreExecutor:
    plan = plan_checkpoint(storage, TIGHT)[1]
    folds = engine or engine_for(0, plan.provider)
    context = RunContext(
        storage, folds, Ledger(storage, "r"), Fence(), PinWatch(storage, None), target=25
    )
    store = plan.stores[0]
    return StoreExecutor.of(store, Source.of(storage, store.store, plan), context)


def newest(run: StoreExecutor) -> WriteSnapshot:
    return next(one for one in run.plan.actions if isinstance(one, WriteSnapshot))


def of(run: StoreExecutor, path: str) -> Snapshot:
    files = (one for one in run.plan.store.files if isinstance(one, Snapshot))
    return next(one for one in files if one.entry.path == path)


def test_a_written_snapshot_is_ours_and_readable(storage: MemoryStorage) -> None:
    run = executor(storage)
    assert run.plan.store.listed > 0
    (written,) = run.writer.write((newest(run),), verify=True)
    proof = written.attestation
    assert proof is not None
    assert (proof.path, proof.target, proof.at) == (PATH, 25, run.plan.store.listed)
    assert (proof.start, proof.files, proof.ours, proof.readable) == (0, 25, True, True)
    assert PATH in run.record.written


def test_a_snapshot_that_spark_wrote_first_is_not_ours(storage: MemoryStorage) -> None:
    run = executor(storage)
    storage.write(PATH, [snapshot_bytes(state_at(25))])
    (written,) = run.writer.write((newest(run),), verify=True)
    proof = written.attestation
    assert proof is not None
    assert (written.bytes, proof.ours, proof.readable) == (0, False, False)
    assert PATH not in run.record.written


class StreamWithEntry(BytesIO):
    entry: Entry


class TimeOnRead(MemoryStorage):
    """Shows the time of a file that is like another one with its content, and not when written."""

    def write(self, path: str, chunks: Iterable[bytes], **how: Any) -> Entry:
        entry = super().write(path, chunks, **how)
        return replace(entry, modified=None) if how.get("like") else entry

    @contextmanager
    def open(self, path: str) -> Iterator[BinaryIO]:
        stream = StreamWithEntry(self.read(path))
        stream.entry = self._entry(path, self._file(path))
        yield stream


def test_a_snapshot_that_was_read_back_is_not_asked_for_its_time() -> None:
    storage = write_checkpoint(TimeOnRead(clock=Clock()), partitions=1)
    run = executor(storage)
    before = storage.requests.get("stat", 0)
    (written,) = run.writer.write((newest(run),), verify=True)
    assert storage.requests.get("stat", 0) == before
    assert written.entry == storage.stat(PATH)


def test_only_a_checksum_file_that_the_query_writes_counts(storage: MemoryStorage) -> None:
    run = executor(storage)
    assert not newest(run).checksum
    storage.write(f"{PATH}.crc", [b"of another file"])
    (written,) = run.writer.write((newest(run),), verify=True)
    assert written.attestation is not None


def test_a_comparison_says_where_its_chain_starts(storage: MemoryStorage) -> None:
    for path, version in ((BELOW, 10), (PATH, 25)):
        storage.write(path, [snapshot_bytes(state_at(version))])
    run = executor(storage)
    snapshot, store = of(run, PATH), run.plan.store
    chain = store.versions.from_log(25, proved=(10,))
    against = run.writer.attest(Attest(store.id, snapshot, chain)).attestation
    assert (against.start, against.files, against.readable) == (10, 16, False)
    alone = run.writer.attest(Attest(store.id, snapshot, None)).attestation
    assert (alone.start, alone.files) == (0, 0)


def test_an_attested_snapshot_of_ours_is_not_readable_for_that(storage: MemoryStorage) -> None:
    maintain(storage, TIGHT)
    run = executor(storage)
    known = run.record.proofs
    known[PATH] = replace(known[PATH], readable=False)
    proof = run.writer.attest(Attest(run.plan.store.id, of(run, PATH), None)).attestation
    assert (proof.ours, proof.readable) == (True, False)


def test_a_file_in_doubt_is_noted_with_its_bytes(storage: MemoryStorage) -> None:
    run = executor(storage)
    entry = storage.stat(f"{HOME}/3.delta")
    (record,) = run.writer._doubted((entry,))
    assert (record.path, record.sum) == (entry.path, google_crc32c.value(storage.read(entry.path)))


def test_a_zip_is_ours_by_its_mark_and_is_proved_with_its_tables() -> None:
    storage = write_rocks_checkpoint(MemoryStorage(clock=Clock()), partitions=1)
    run = executor(storage)
    (written,) = run.writer.write((newest(run),), verify=True)
    path, tables = written.entry.path, sorted(written.refers)
    assert tables
    assert written.attestation is not None
    assert [one.path for one in written.attestation.parts] == tables
    engine = Seeing()
    again = executor(storage, engine)
    store = again.plan.store
    assert store.rocks is not None
    for ours in (frozenset({path}), frozenset[str]()):
        claimed = replace(store, rocks=replace(store.rocks, ours=ours))
        executed = StoreExecutor.of(
            replace(again.plan, store=claimed), again.writer.folds.source, again.writer.context
        )
        attest = Attest(store.id, of(again, path), store.versions.from_log(25, proved=()))
        proof = executed.writer.attest(attest).attestation
        assert proof.ours is bool(ours)
    assert engine.families == [of(again, path)] * 2


# -- what deletions rely on (S22)

SNAPSHOT, ZIP = f"{HOME}/3.snapshot", f"{HOME}/3.zip"
STORED = store("1d 2d 3d 3s")
IN_ROCKS = rocks_store("1c 2c 3c 3z")


class Asked(MemoryStorage):
    """Remembers which files were compared."""

    def __init__(self) -> None:
        super().__init__()
        self.compared: list[tuple[str, str]] = []

    def check_readable(self, path: str, *, like: str) -> None:
        self.compared.append((path, like))


@pytest.mark.parametrize(
    ("found", "path", "ours", "written", "compared"),
    [
        (STORED, SNAPSHOT, True, (), True),
        (STORED, SNAPSHOT, False, (SNAPSHOT,), True),
        (STORED, SNAPSHOT, False, (), False),
        (replace(IN_ROCKS, rocks=Rocks(ours=frozenset({ZIP}))), ZIP, False, (), True),
        (replace(IN_ROCKS, rocks=Rocks()), ZIP, False, (ZIP,), False),
    ],
    ids=["proved as ours", "written", "an executor's", "marked as ours", "an executor's zip"],
)
def test_that_the_query_can_read_a_snapshot_of_ours_is_checked_once(
    found: Store, path: str, written: tuple[str, ...], *, ours: bool, compared: bool
) -> None:
    place = Asked()
    context = RunContext(place, ClearEngine(), Ledger(place, "r"), Fence(), PinWatch(place, None))
    proof = Attestation(path, 3, 1, None, "", 0, 0, ours=ours)
    record = StoreRecord.of(context, replace(found, written=written))
    record.proofs[path] = proof
    source = Source.of(place, found, checkpoint(found, batches=range(3)))
    writer = SnapshotWriter(context, StoreFolds(found, source, context.engine), record)
    for _ in range(2):
        writer.must_be_readable(path)
    assert place.compared == [(path, found.files[2].entry.path)] * compared
    assert record.proofs[path].readable is compared
