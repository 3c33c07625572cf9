"""Spark's own repartition: a batch without input that changes the number of partitions.

What state and output must be is arithmetic (`tests.support.summing`); Spark's reader says what the
state is.
"""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from statemaint.audit import doctor, verify
from statemaint.errors import ConfigError
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.planning import scan_checkpoint
from statemaint.recover import plan_repair, rollback
from statemaint.state import diff_state, read_state
from statemaint.storage import LocalStorage
from tests.support.summing import PROVIDERS, RETAINED, Job, States, rows

TIGHT = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=RETAINED, grace=0, orphan_age=0)
# `make test-recovery` rolls back from each number of partitions by each number of batches.
_ALL = os.environ.get("STATEMAINT_RECOVERY") == "all"
# Batches, and the number of partitions that follows on them; two at first.
STEPS: Sequence[tuple[int, int]] = ((6, 3), (4, 1), (3, 3), (13, 2))


@dataclass
class Repartitioned:
    """A query on RocksDB, and which of its batches changed the number of its partitions."""

    job: Job
    changes: set[int] = field(default_factory=set)

    @property
    def storage(self) -> LocalStorage:
        return LocalStorage(self.job.checkpoint)

    def go_on(self, batches: int) -> None:
        begun = self.job.batches[-1] + 1 if self.job.checkpoint.exists() else 0
        self.job.go_on(begun + batches)

    def to(self, count: int) -> None:
        """Runs Spark's own repartition."""
        self.changes.add(self.job.batches[-1] + 1)
        self.job._session()._streamingCheckpointManager.repartition(self.job.uri, count)
        assert self.job.batches[-1] in self.changes

    def states(self) -> States:
        """Returns what each batch there ever was must leave behind."""
        sums: dict[str, tuple[int, int]] = {}
        found: States = {}
        for batch in range(self.job.batches[-1] + 1):
            for key, amount in rows(batch, range(0)) if batch not in self.changes else ():
                number, total = sums.get(key, (0, 0))
                sums[key] = number + 1, total + amount
            found[batch] = dict(sums)
        return found

    def must_be_right(self) -> None:
        """Asks Spark for the state of every retained batch, and ourselves for a verdict."""
        states = self.states()
        truth = {batch: states[batch] for batch in self.job.batches}
        assert self.job.read() == truth
        newest = self.job.batches[-1]
        for batch in (self.job.batches[0], newest):
            ours = {
                row.key["key"]: row.value for row in read_state(self.storage, version=batch + 1)
            }
            assert len(ours) == len(truth[batch])
        found = verify(self.storage, deep=True)
        assert [one for one in found.findings if one.damage] == []
        looked = doctor(self.storage, deep=True)
        assert looked.restarts
        assert looked.loadable == tuple(self.job.batches)
        assert plan_repair(self.storage).actions == ()

    def partitions(self) -> set[str]:
        """Returns the partitions that have files of state."""
        found = (self.job.checkpoint / "state" / "0").glob("[0-9]*/*.*")
        return {path.parent.name for path in found if not path.name.startswith(".")}


@pytest.fixture(params=["rocks", "rocks-ids"])
def query(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Repartitioned:
    return Repartitioned(Job(spark, PROVIDERS[request.param], tmp_path))


def test_a_query_goes_on_through_every_repartition(query: Repartitioned) -> None:
    for batches, count in STEPS:
        query.go_on(batches)
        assert maintain(query.storage, TIGHT).exit_code == 0
        query.to(count)
        assert maintain(query.storage, TIGHT).exit_code == 0
        query.must_be_right()  # the batches before it, too, as they are retained
    query.go_on(RETAINED + 3)
    assert maintain(query.storage, TIGHT).exit_code == 0
    query.must_be_right()
    assert maintain(query.storage, TIGHT).plan.actions == ()
    assert query.partitions() == {"0", "1"}
    assert scan_checkpoint(query.storage).counts == {}
    states = query.states()
    for batch, sums in query.job.output.items():
        assert sums == {key: states[batch][key] for key, _ in rows(batch, range(0))}


@pytest.mark.parametrize("query", ["rocks-ids"], indirect=True)
def test_what_lies_between_two_numbers_of_partitions_is_not_compared(query: Repartitioned) -> None:
    query.go_on(4)
    query.to(3)
    query.go_on(3)
    with pytest.raises(ConfigError, match="repartitioned between versions 4 and 6"):
        diff_state(query.storage, (4, 6))
    assert diff_state(query.storage, (6, 8)).compare().total.added > 0
    assert diff_state(query.storage, (3, 4)).compare().total.added > 0
    with pytest.raises(ConfigError, match="version 4 has no partition 2"):
        list(read_state(query.storage, partition=2, version=4))


@pytest.mark.parametrize(("batch", "count"), [(3, 1), (2, 3), *((3, 3), (2, 1))[: 2 * _ALL]])
def test_a_rollback_leads_back_to_the_old_number(
    query: Repartitioned, count: int, batch: int
) -> None:
    query.go_on(4)
    query.to(count)
    query.go_on(2)
    rollback(query.storage, batch, trash_for=3600)
    query.job.take_back(range(4, 20))  # of the log of its source, which no rollback looks at
    query.changes.clear()
    query.must_be_right()
    query.go_on(6 - batch)  # what was read before, too
    query.must_be_right()
    assert query.partitions() == {"0", "1"}


def test_nothing_is_touched_while_one_is_unfinished(query: Repartitioned) -> None:
    query.go_on(6)
    query.to(3)
    (query.job.checkpoint / "commits" / "6").unlink()
    with contextlib.suppress(FileNotFoundError):
        (query.job.checkpoint / "commits" / ".6.crc").unlink()
    report = maintain(query.storage, TIGHT)
    assert {one.code.value for one in report.findings} == {"UNFINISHED_REPARTITION"}
    assert report.plan.actions == ()
    assert not doctor(query.storage).restarts
    query.to(3)
    query.must_be_right()
