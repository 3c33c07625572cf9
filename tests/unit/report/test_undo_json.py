from dataclasses import replace

from statemaint.listing import Entry
from statemaint.plan.recovery.recovery_plan import PutBack, UndoPlan
from statemaint.report.to_json import undo_fingerprint, undo_plan_json

BACK = PutBack("state/0/0/2.delta", Entry("_statemaint/trash/R/state/0/0/2.delta", 46, 5.0))
STAYS = PutBack("state/0/0/1.delta", Entry("_statemaint/trash/R/state/0/0/1.delta", 40, 5.0), "why")
PLAN = UndoPlan("/ck", "R", verb=None, files=(BACK, STAYS))


def test_the_document_has_what_comes_back_and_why_the_rest_stays() -> None:
    assert undo_plan_json(PLAN) == {
        "verb": "undo",
        "checkpoint": "/ck",
        "run": "R",
        "actions": [{"action": "restore", "path": "state/0/0/2.delta", "bytes": 46}],
        "files": 1,
        "bytes": 46,
        "left": ["state/0/0/1.delta"],
        "reasons": {"state/0/0/1.delta": "why"},
        "fingerprint": undo_fingerprint(PLAN),
    }


def test_the_fingerprint_tells_files_times_and_fates_apart() -> None:
    later = replace(BACK, entry=replace(BACK.entry, modified=6.0))
    others = (
        replace(PLAN, files=(later, STAYS)),
        replace(PLAN, files=(replace(BACK, reason="now it stays"), STAYS)),
        replace(PLAN, files=(BACK,)),
        replace(PLAN, run="Q"),
    )
    assert undo_fingerprint(replace(PLAN, root="/copy")) == undo_fingerprint(PLAN)
    assert len({undo_fingerprint(one) for one in (PLAN, *others)}) == 5
