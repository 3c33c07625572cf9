"""Files that links lead to outside the checkpoint halt their store (S24)."""

from dataclasses import replace

from statemaint.model.files import StateFile
from statemaint.model.findings import FindingCode
from statemaint.model.policy import Policy
from statemaint.plan.findings.health import diagnose
from statemaint.plan.planner import plan
from tests.support.checkpoints import NOW, STORE, checkpoint, store, versions

DELTAS = versions("d", 1, 30)
TIGHT = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=2, grace=0)


def elsewhere(file: StateFile) -> StateFile:
    return replace(file, entry=replace(file.entry, outside=True))


def test_one_file_outside_halts_its_store() -> None:
    inside = store(f"{DELTAS} x:foo")
    [first, *rest] = inside.files
    sound, linked = (
        checkpoint(inside, batches=[28, 29]),
        replace(inside, files=(*rest, elsewhere(first))),
    )
    halted = checkpoint(linked, batches=[28, 29])
    assert plan(sound, TIGHT, NOW).stores[0].actions
    assert plan(halted, TIGHT, NOW).stores[0].actions == ()
    [finding] = [one for one in diagnose(linked, halted) if one.damage]
    assert (finding.code, finding.store) == (FindingCode.REFUSED_LINK, STORE)
    assert finding.path == "state/0/0/1.delta"
    assert "state/0/0/1.delta is outside the checkpoint" in finding.detail
    assert finding.batches == ()


def test_the_finding_counts_the_files() -> None:
    linked = store(DELTAS)
    linked = replace(linked, files=tuple(map(elsewhere, linked.files)))
    [finding] = [
        one for one in diagnose(linked, checkpoint(linked, batches=[28, 29])) if one.damage
    ]
    assert "state/0/0/1.delta and 29 more of its files are outside" in finding.detail
