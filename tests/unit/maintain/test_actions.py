"""What a run did, as the ledger has it, whatever else is written there."""

import json

import pytest

from statemaint.maintain import maintain
from statemaint.maintain.runs import list_actions
from statemaint.model.policy import Policy
from statemaint.records.segments import add_segment
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import write_checkpoint

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0)


def line(run: str, **fields: object) -> bytes:
    return json.dumps({"run": run, **fields}).encode() + b"\n"


def test_the_actions_of_a_run_are_those_that_it_reported() -> None:
    storage = write_checkpoint(MemoryStorage(), partitions=2)
    report = maintain(storage, TIGHT)
    actions = list_actions(storage, report.run)
    deleted = [one for one in actions if one["action"] == "delete"]
    assert len(deleted) == sum(report.files_deleted.values()) > 0
    assert [one["time"] for one in actions] == sorted(one["time"] for one in actions)
    assert list_actions(storage, "another") == ()


@pytest.mark.parametrize("time", ["soon", [1], 1e400, None])
def test_a_time_that_is_none_comes_first_and_ends_nothing(time: object) -> None:
    storage = MemoryStorage()
    lines = [line("a", action="delete", path="1", time=5.0), line("a", action="x", time=time)]
    add_segment(storage, "0/0", "a-000000", lines)
    assert [one["action"] for one in list_actions(storage, "a")] == ["x", "delete"]
