"""What an approval of a rollback says of its input and its output."""

import json
from dataclasses import replace
from typing import Any

import pytest

from statemaint.listing import Entry
from statemaint.model.ids import RecoveryVerb
from statemaint.plan.recovery.recovery_plan import RecoveryPlan, Remove, RemoveReason, Rewind
from statemaint.report.summary import decision

BATCHES = (23, 24)
REWIND = Rewind(24, (2000.0, 1000.0), (), repeated=True)


def facts(rewind: Rewind) -> dict[str, str]:
    """Returns what a rollback from batch 24 to 22 says, by its labels."""
    removes = tuple(
        Remove(Entry(f"commits/{batch}", 9, 0.0), RemoveReason.ABOVE_TARGET) for batch in BATCHES
    )
    plan = RecoveryPlan(RecoveryVerb.ROLLBACK, "c", "id", 22, removes=removes, rewind=rewind)
    return dict(decision(plan, lambda size: f"{size} B"))


def source(before: Any, after: Any) -> str:
    return facts(replace(REWIND, sources=(("kafka", json.dumps(before), json.dumps(after)),)))[
        "source"
    ]


def test_the_records_of_all_partitions_of_kafka_are_counted() -> None:
    text = source({"t": {"0": 5, "1": 7}}, {"t": {"0": 9, "1": 8}})
    assert text.endswith("(5 records)")


@pytest.mark.parametrize(
    ("before", "after"),
    [(1.5, 10**400), (0, 2**63), (0, True), (5, 4), (0.5, 1.5), ("1", "2"), (0, None)],
)
def test_offsets_that_are_none_of_kafka_are_not_counted(before: Any, after: Any) -> None:
    assert "record" not in source({"t": {"0": before}}, {"t": {"0": after}})


def test_a_sink_that_records_batches_loses_those_whose_input_is_planned_again() -> None:
    assert "loses rows of 24," in facts(REWIND)["sink"]
    assert "loses rows of 23 to 24," in facts(replace(REWIND, repeated=False))["sink"]
