"""What an approval of a rollback says of its input and its output."""

import json
from dataclasses import replace
from typing import Any

import pytest

from statemaint.listing import Entry
from statemaint.model.ids import RecoveryVerb, StoreId
from statemaint.plan.recovery.recovery_plan import RecoveryPlan, Remove, RemoveReason, Rewind
from statemaint.report.summary import decision

BATCHES = (23, 24)
REWIND = Rewind(24, (2000.0, 1000.0), (), repeated=True)


def removing(path: str, store: StoreId | None = None) -> Remove:
    return Remove(Entry(path, 9, 0.0), RemoveReason.ABOVE_TARGET, store)


def said(plan: RecoveryPlan) -> list[tuple[str, str]]:
    return [*decision(plan, lambda size: f"{size} B")]


def rollback(rewind: Rewind | None, *more: Remove) -> RecoveryPlan:
    """Returns a rollback from batch 24 to 22."""
    removes = (*(removing(f"commits/{batch}") for batch in BATCHES), *more)
    return RecoveryPlan(RecoveryVerb.ROLLBACK, "c", "id", 22, removes=removes, rewind=rewind)


def facts(rewind: Rewind) -> dict[str, str]:
    """Returns what that rollback says, by its labels."""
    return dict(said(rollback(rewind)))


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


def test_five_sources_are_named_and_others_counted() -> None:
    sources = tuple((f"source-{number}", "1", "2") for number in range(7))
    told = said(rollback(replace(REWIND, sources=sources)))
    assert [text for label, text in told if label == "source"][-1].startswith("source-4: ")
    assert ("", "and 2 more sources") in told


def test_forty_reasons_are_named_and_others_counted() -> None:
    stores = [StoreId(operator, 0) for operator in range(41)]
    told = said(rollback(REWIND, *(removing(f"{it.directory}/9.delta", it) for it in stores)))
    assert sum(label == "because" for label, _ in told) == 40
    assert told[-1] == ("", "and 2 more reasons")


@pytest.mark.parametrize("verb", RecoveryVerb)
def test_without_a_committed_batch_no_batch_is_named(verb: RecoveryVerb) -> None:
    told = said(RecoveryPlan(verb, "c", "id", None))
    assert [label for label, _ in told] == ["rollback"] * (verb is RecoveryVerb.ROLLBACK)
