from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from statemaint.airflow.figures import FindingRow
from statemaint.airflow.pages.contents import looked_at_now, plan_of_partition
from statemaint.airflow.pages.query import Details, QueryRecord
from statemaint.errors import ConfigError
from statemaint.listing import Entry
from statemaint.model.ids import StoreId, UnitId
from statemaint.model.policy import Policy
from statemaint.planning import plan_checkpoint
from statemaint.scan.handover import Recorder
from statemaint.storage import MemoryStorage, ReadOnly
from tests.support.checkpoints import write_checkpoint

POLICY = Policy(min_batches_to_retain=5, grace=0.0)
RECORD = QueryRecord("statemaint__revenue", "", "revenue")
READ = FindingRow(code="CORRUPT_FILE", detail="1.delta: bad block", damage=True)


class Watched(ReadOnly):
    """A storage that counts its requests."""

    def __init__(self, storage: MemoryStorage) -> None:
        super().__init__(storage)
        self.listed: list[str] = []
        self.entries = 0

    def list(self, prefix: str) -> Iterator[Entry]:
        self.listed.append(prefix)
        for entry in super().list(prefix):
            self.entries += 1
            yield entry


def checkpoint(partitions: int) -> MemoryStorage:
    storage = MemoryStorage(clock=map(float, count()).__next__)
    write_checkpoint(storage, last=25, partitions=partitions)
    return storage


def shared(storage: MemoryStorage) -> str:
    recorder = Recorder(storage)
    return recorder.handover(plan_checkpoint(recorder, POLICY)[0]).to_json()


def test_the_plan_is_that_of_the_whole_checkpoint() -> None:
    storage = checkpoint(4)
    (alone,) = plan_of_partition(storage, POLICY, UnitId(0, 2), shared(storage)).stores
    (*_, whole, _) = plan_checkpoint(storage, POLICY)[1].stores
    assert alone.store.id == whole.store.id == StoreId(0, 2)
    assert [(one.path, one.reason) for one in alone.actions] == [
        (one.path, one.reason) for one in whole.actions
    ]


def test_a_partition_is_listed_alone_however_many_there_are() -> None:
    costs = []
    for partitions in (2, 200):
        storage = checkpoint(partitions)
        watched = Watched(storage)
        plan_of_partition(watched, POLICY, UnitId(0, 1), shared(storage))
        assert "state" not in watched.listed
        costs.append((len(watched.listed), watched.entries))
    assert costs[0] == costs[1]


@pytest.mark.parametrize("text", [None, "", "{", "{}", "[]", "7"])
def test_without_a_handover_of_this_build_everything_is_listed(text: str | None) -> None:
    (found,) = plan_of_partition(checkpoint(4), POLICY, UnitId(0, 2), text).stores
    assert found.store.id == StoreId(0, 2)


def test_a_partition_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError):
        plan_of_partition(checkpoint(2), POLICY, UnitId(0, 7), None)


def test_a_look_takes_the_place_of_the_last_run() -> None:
    record, known = looked_at_now(checkpoint(3), POLICY, RECORD, Details())
    assert record.figures is not None
    assert (record.figures.partitions, record.figures.target, record.figures.longest) == (3, 25, 25)
    assert record.figures.restart
    assert record.figures.restart_least
    assert record.figures.restart > record.figures.restart_least > 0
    assert record.looked is not None
    assert (datetime.now(UTC) - record.looked).total_seconds() < 600
    assert [one.partition for one in known.units] == [0, 1, 2]


def test_what_a_run_has_read_stays_beside_what_a_listing_shows() -> None:
    storage = checkpoint(3)
    storage.write("state/0/0/foo.bar", [b"?"])
    _, known = looked_at_now(storage, POLICY, RECORD, Details(findings=(READ,)))
    assert [one.code for one in known.findings] == ["UNKNOWN_FILE", "CORRUPT_FILE"]
