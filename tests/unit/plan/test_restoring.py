"""What follows an undo depends on what it undoes."""

from dataclasses import replace

import pytest

from statemaint.listing import Entry
from statemaint.model.ids import RecoveryVerb
from statemaint.plan.recovery.recovery_plan import PutBack, UndoPlan

BACK = PutBack("state/0/0/2.delta", Entry("_statemaint/trash/R/state/0/0/2.delta", 46, 5.0))


@pytest.mark.parametrize(
    ("verb", "batch", "sequel"),
    [
        (None, None, "the next maintain deletes them again unless its policy retains more"),
        (RecoveryVerb.ROLLBACK, 7, "the query continues after batch 7, as before the rollback"),
        (RecoveryVerb.ROLLBACK, None, "the query continues, as before the rollback"),
        (
            RecoveryVerb.REPAIR,
            None,
            "the repair had moved them away as damage: see `statemaint doctor /ck`",
        ),
    ],
)
def test_an_undo_says_what_follows(
    verb: RecoveryVerb | None, batch: int | None, sequel: str
) -> None:
    plan = UndoPlan("/ck", "R", verb, (BACK,), batch)
    assert plan.sequel == sequel
    assert replace(plan, files=(replace(BACK, reason="it stays"),)).sequel == ""
