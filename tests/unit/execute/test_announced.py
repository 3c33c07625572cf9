"""What a run announces for all of its stores, and what becomes of it after a crash."""

import json
from collections.abc import Iterable

import pytest

from statemaint.errors import StorageError
from statemaint.execute.fence import Fence
from statemaint.execute.store_record import adopt_announcements
from statemaint.maintain import maintain
from statemaint.maintain.run import reserve
from statemaint.model.findings import FindingCode
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.records.attestations import (
    ANNOUNCED,
    StoreNotes,
    attestation_path,
    parse_announcement,
    parse_attestations,
    render_announcement,
)
from statemaint.records.claims import Holder
from statemaint.report.run import Report
from statemaint.scan.scanner import scan
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import NOW, write_checkpoint
from tests.support.faults import Crash

TIGHT = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=4, grace=0)
STORES = [StoreId(0, partition) for partition in range(3)]
SNAPSHOT = "state/0/0/17.snapshot"


class Recording(MemoryStorage):
    """Remembers the paths of the records that are replaced; dies, or refuses, at one of them."""

    def __init__(self, dies_at: str = "", refuses: str = "") -> None:
        super().__init__(clock=lambda: NOW)
        self.dies_at, self.refuses = dies_at, refuses
        self.replaced: list[str] = []

    def replace(self, path: str, chunks: Iterable[bytes]) -> None:
        if self.dies_at and self.dies_at in path:
            raise Crash
        if self.refuses and self.refuses in path:
            raise StorageError(path, "access denied")
        super().replace(path, chunks)
        self.replaced.append(path)

    @property
    def announcements(self) -> list[str]:
        return [one.path for one in self.list(ANNOUNCED)]


def neglected(storage: Recording, partitions: int = 3) -> Recording:
    write_checkpoint(storage, partitions=partitions)
    return storage


def killed() -> Recording:
    """Returns what a run leaves that was killed between its snapshots and their proofs."""
    storage = neglected(Recording(dies_at="attestations/0/"))
    with pytest.raises(Crash):
        maintain(storage, TIGHT, workers=1)
    storage.dies_at = ""
    # its lease ends by itself
    storage._files = {path: file for path, file in storage._files.items() if "/lease/" not in path}
    return storage


def records(storage: Recording) -> list[str]:
    return [one for one in storage.replaced if one.startswith("_statemaint/attestations/")]


def codes(report: Report) -> set[FindingCode]:
    return {one.code for one in report.findings}


@pytest.mark.parametrize("partitions", [2, 3])
def test_one_file_announces_the_snapshots_of_all_stores_and_is_deleted(partitions: int) -> None:
    storage = neglected(Recording(), partitions)
    report = maintain(storage, TIGHT)
    assert report.snapshots_written == 2 * partitions
    first, *others = records(storage)
    assert first == f"{ANNOUNCED}/{report.run}.json"
    assert sorted(others) == [attestation_path(one) for one in STORES[:partitions]]
    assert storage.announcements == []


def test_a_single_store_announces_its_own_snapshots() -> None:
    storage = neglected(Recording(), 1)
    maintain(storage, TIGHT)
    assert records(storage) == [attestation_path(STORES[0])] * 2


def test_the_tasks_of_a_run_announce_their_own_snapshots() -> None:
    storage, holder = neglected(Recording()), Holder("run")
    reserve(storage, holder)
    maintain(storage, TIGHT, run="run", holder=holder)
    assert len(records(storage)) == 2 * len(STORES)


def test_where_it_cannot_be_written_each_store_announces_its_own_snapshots() -> None:
    storage = neglected(Recording(refuses=ANNOUNCED))
    assert maintain(storage, TIGHT).snapshots_written == 6
    assert len(records(storage)) == 2 * len(STORES)


def test_the_snapshots_of_a_killed_run_are_known_as_ours() -> None:
    storage = killed()
    assert storage.announcements
    (store, *_) = scan(storage).stores
    assert not store.attestations
    assert store.since == 25  # the target of the killed run, whatever a later one has
    assert {one for one in store.written if one in storage.files} == {
        one.path for one in storage.list("state/0/0") if "snapshot" in one.path
    }


def test_the_next_run_takes_over_what_a_killed_one_has_announced() -> None:
    storage = killed()
    strange = f"{ANNOUNCED}/0.json"  # of another build: what is listed after it counts
    storage._files = {strange: (b"?", 0.0), **storage._files}
    report = maintain(storage, TIGHT)
    assert FindingCode.FOREIGN_MAINTAINER not in codes(report)
    assert report.exit_code == 0
    assert storage.announcements == [strange]
    assert not any(store.uploads.newest for store in scan(storage).stores)


def test_what_is_announced_of_a_store_that_was_moved_away_is_forgotten() -> None:
    storage = killed()
    left = f"{STORES[2].directory}/"
    storage._files = {path: one for path, one in storage._files.items() if left not in path}
    adopt_announcements(storage, Fence())
    assert storage.announcements == []
    there = [attestation_path(one) in storage.files for one in STORES]
    assert there == [True, True, False]


def test_a_run_of_tasks_takes_it_over_before_its_tasks_begin() -> None:
    storage = killed()
    reserve(storage, Holder("run"))
    assert storage.announcements == []
    notes = parse_attestations(storage.read(attestation_path(STORES[0])))
    assert set(notes.written) >= {one for one in storage.files if "state/0/0/" in one
                                  and one.endswith(".snapshot")}  # fmt: skip


def test_an_announcement_stays_while_a_record_cannot_be_written() -> None:
    storage = killed()
    storage.refuses = "attestations/0/1"
    adopt_announcements(storage, Fence())
    assert storage.announcements
    storage.refuses = ""
    adopt_announcements(storage, Fence())
    assert storage.announcements == []


def test_an_announcement_stays_while_a_store_relies_on_it() -> None:
    storage = neglected(Recording(refuses="attestations/0/1"))
    report = maintain(storage, TIGHT)
    assert codes(report) == {FindingCode.STORAGE_FAILED}
    assert storage.announcements
    assert all(store.written for store in scan(storage).stores)


def test_an_announcement_adds_to_a_record_and_changes_nothing_that_it_has() -> None:
    own = StoreNotes(written=(SNAPSHOT,), since=3)
    more = StoreNotes(written=(SNAPSHOT, "state/0/0/9.snapshot"), since=9)
    assert own.announcing(more) == StoreNotes(written=more.written, since=3)
    assert StoreNotes(since=2).announcing(more) == more
    assert own.announcing(StoreNotes(written=(SNAPSHOT,), since=9)) is own


def test_an_announcement_is_read_as_it_was_written() -> None:
    stores = {
        STORES[1]: StoreNotes(written=(SNAPSHOT,), since=4),
        STORES[0]: StoreNotes(since=None),
        StoreId(0, 1, "left-keyToNumValues"): StoreNotes(since=5),
    }
    assert parse_announcement(render_announcement(stores)) == stores


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"stores": None},
        {"stores": [[0, 0, "default", ["state/0/0/x"], 1]]},
        {"stores": [[0, 0, "../..", [], 1]]},
        {"stores": [[0, -1, "default", [], 1]]},
        {"stores": [[0, 0, "default", [], "1"]]},
        {"stores": [[0, 0]]},
    ],
    ids=str,
)
def test_a_strange_announcement_announces_nothing(change: dict[str, object]) -> None:
    stored = json.loads(render_announcement({STORES[0]: StoreNotes(written=(SNAPSHOT,), since=4)}))
    content = json.dumps({**stored, **change}).encode()
    assert parse_announcement(content) is None
    assert parse_announcement(b"{]") is None
    storage = neglected(Recording())
    storage.write(f"{ANNOUNCED}/earlier.json", [content])
    assert maintain(storage, TIGHT).exit_code == 0
    assert storage.files[f"{ANNOUNCED}/earlier.json"] == content
