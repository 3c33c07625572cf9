import os
from pathlib import Path

import pytest

from statemaint.airflow.endings import outputs_of
from statemaint.airflow.recoveries import apply_shown, plan_shown, undo_shown, verified
from statemaint.errors import Superseded, UnreadableError
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.recover import plan_repair, plan_rollback
from statemaint.storage import LocalStorage
from statemaint.undo.run import plan_undo
from statemaint.wording import markdown
from tests.support.checkpoints import write_checkpoint

LAST = 25
DAY = 1_795_910_400  # 2026-11-29, in UTC


def torn(folder: Path) -> LocalStorage:
    """Makes a checkpoint with a bad snapshot that the log can replace."""
    folder.mkdir()
    storage = LocalStorage(folder)
    write_checkpoint(storage, last=LAST, batches=range(16, LAST), partitions=2)
    (folder / f"state/0/1/{LAST}.snapshot").write_bytes(b"torn")
    return storage


def test_a_plan_is_shown_with_its_reasons_and_carried_out(tmp_path: Path) -> None:
    storage = torn(tmp_path / "c")
    assert not verified(storage, deep=False, sample=None).json["healthy"]
    shown = plan_shown(plan_repair(storage))
    assert f"- **largest**: `state/0/1/{LAST}.snapshot (bad_snapshot, 4 B)`" in shown.text
    assert shown.document is not None
    done = apply_shown(storage, shown.document)
    assert (len(done.json["removed"]), done.failure) == (1, None)
    assert f"`statemaint undo {storage.root} " in done.log
    assert verified(storage, deep=True, sample=None).failure is None


def test_a_plan_that_would_be_another_one_by_now_is_refused(tmp_path: Path) -> None:
    storage = torn(tmp_path / "c")
    shown = plan_shown(plan_repair(storage))
    assert shown.document is not None
    (tmp_path / f"c/state/0/1/{LAST}.snapshot").write_bytes(b"torn in another way")
    with pytest.raises(Superseded):
        apply_shown(storage, shown.document)
    assert (tmp_path / f"c/state/0/1/{LAST}.snapshot").exists()


def test_a_plan_is_for_the_checkpoint_that_it_was_made_for(tmp_path: Path) -> None:
    shown = plan_shown(plan_repair(torn(tmp_path / "c")))
    assert shown.document is not None
    with pytest.raises(Superseded, match="of another checkpoint"):
        apply_shown(torn(tmp_path / "other"), shown.document)


def test_an_approval_of_a_rollback_says_what_it_undoes(tmp_path: Path) -> None:
    storage = torn(tmp_path / "c")
    for batch in range(16, LAST):
        path = tmp_path / f"c/offsets/{batch}"
        head, _, _ = path.read_text().rpartition("\n")
        path.write_text(f'{head}\n{{"clicks":{{"0":{batch * 10}}}}}')
        os.utime(tmp_path / f"c/commits/{batch}", (DAY + batch * 3600, DAY + batch * 3600))
    shown = plan_shown(plan_rollback(storage, 16), "clicks")
    assert shown.document is not None
    assert (shown.document["batch"], shown.subject) == (16, "roll back to batch 16, 32 steps")
    assert shown.log.splitlines()[1:8] == [
        "rollback  the query continues after batch 16; 8 batches (17 to 24) run again",
        "goes back from batch 24, committed 2026-11-30 00:00:00 UTC",
        "          to batch 16, committed 2026-11-29 16:00:00 UTC",
        'source    0: reads again from {"clicks":{"0":160}} to {"clicks":{"0":240}} (80 records)',
        (
            "sink      may get the rows of batches 17 to 24 twice; one that records batches "
            "(files, Delta) skips them, and loses rows of 18 to 24, as their boundaries change: "
            "see the runbook"
        ),
        f"rows      statemaint diff {storage.root} --from 17 --to 25 counts them, if both load",
        "moves     32 files (3.7 kB) to the trash",
    ]
    assert shown.log.count("\nlargest ") == 10
    assert "**goes back**: from batch 24\\, committed 2026" in shown.text
    assert shown.text.count("\n- ") < 30
    assert shown.plan is not None
    assert (shown.plan["query"], shown.plan["verb"]) == ("clicks", "rollback")
    assert shown.plan["steps"] == len(shown.plan["actions"])


def test_a_name_in_an_approval_is_not_markdown(tmp_path: Path) -> None:
    folder = tmp_path / "a`](http:evil) *b*"
    shown = undo_shown(plan_undo(*maintained(folder)))
    assert "](" not in shown.text
    plan = plan_shown(plan_rollback(torn(tmp_path / "c`[x](y)"), 16))
    assert f"- **rows**: `` statemaint diff '{tmp_path}/c`[x](y)' --from" in plan.text
    assert "c\\`\\[x\\]\\(y\\)" in plan.text.splitlines()[0]
    assert markdown("[x](y) *b* <i>") == r"\[x\]\(y\) \*b\* \<i\>"


def test_nothing_to_do_is_no_plan_and_what_stays_broken_fails(tmp_path: Path) -> None:
    storage = torn(tmp_path / "c")
    for name in (f"{LAST}.snapshot", "7.delta"):
        (tmp_path / f"c/state/0/1/{name}").unlink()
    shown = plan_shown(plan_repair(storage))
    assert shown.document is None
    assert shown.failure is not None
    assert "BROKEN_CHAIN" in shown.failure.reason


def maintained(folder: Path) -> tuple[LocalStorage, str]:
    """Makes a checkpoint of which a run has moved files to the trash, and returns the run."""
    folder.mkdir()
    storage = LocalStorage(folder)
    write_checkpoint(storage, last=LAST, batches=range(16, LAST), partitions=2)
    policy = Policy(min_batches_to_retain=4, grace=0.0, trash_for=3600.0)
    return storage, maintain(storage, policy).run


def test_an_undo_is_shown_and_carried_out(tmp_path: Path) -> None:
    storage, run = maintained(tmp_path / "c")
    shown = undo_shown(plan_undo(storage, run))
    assert f"undo of run {run} of {storage.root}: it brings back 32 files (" in shown.log
    assert shown.text.count("- **largest**: `state/0/") == 10
    assert shown.subject == f"undo run {run}"
    assert (shown.document is not None, shown.failure) == (True, None)
    done = apply_shown(storage, shown.document or {})
    assert (done.json["files"], done.json["left"], done.failure) == (32, {}, None)
    assert outputs_of(done.json) == [storage.root]
    assert (tmp_path / "c/state/0/0/1.delta").exists()


def test_an_undo_that_would_be_another_one_by_now_is_refused(tmp_path: Path) -> None:
    storage, run = maintained(tmp_path / "c")
    shown = undo_shown(plan_undo(storage, run))
    (tmp_path / "c/state/0/0/3.delta").write_bytes(b"another")
    with pytest.raises(Superseded, match="has changed since it was planned"):
        apply_shown(storage, shown.document or {})
    assert not (tmp_path / "c/state/0/1/1.delta").exists()
    other, _ = maintained(tmp_path / "other")
    with pytest.raises(Superseded, match="of another checkpoint"):
        apply_shown(other, shown.document or {})


def test_an_undo_shows_what_stays_and_fails_only_where_nothing_comes_back(tmp_path: Path) -> None:
    storage, run = maintained(tmp_path / "c")
    (tmp_path / "c/state/0/0/3.delta").write_bytes(b"another")
    shown = undo_shown(plan_undo(storage, run))
    assert "stays     state/0/0/16.delta: state/0/0/3.delta was written" in shown.log
    assert shown.document is not None
    done = apply_shown(storage, shown.document)
    assert (done.failure, len(done.json["left"])) == (None, 16)
    nothing = undo_shown(plan_undo(storage, run))
    assert nothing.document is None
    assert nothing.failure is not None
    assert nothing.failure.reason.startswith("UNDO_INCOMPLETE: state/0/0/16.delta stays in the")
    assert nothing.failure.reason.endswith("; and 15 more")


class Refusing(LocalStorage):
    """A disk on which one file of the trash cannot be given to the query's readers."""

    def move(self, source: str, target: str, *, like: str | None = None) -> None:
        if target == "state/0/1/2.delta":
            raise UnreadableError(target, "the query might be unable to read it")
        super().move(source, target, like=like)


def test_an_undo_fails_where_more_stays_than_was_shown(tmp_path: Path) -> None:
    storage, run = maintained(tmp_path / "c")
    document = undo_shown(plan_undo(storage, run)).document or {}
    done = apply_shown(Refusing(tmp_path / "c"), document)
    assert (done.json["files"], [*done.json["left"]]) == (31, ["state/0/1/2.delta"])
    assert done.failure is not None
    assert "state/0/1/2.delta stays in the trash: the query might" in done.failure.reason
