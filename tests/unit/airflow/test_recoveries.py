from pathlib import Path

import pytest

from statemaint.airflow.recoveries import apply_shown, plan_shown, verified
from statemaint.errors import Superseded
from statemaint.recover import plan_repair, plan_rollback
from statemaint.storage import LocalStorage
from tests.support.checkpoints import write_checkpoint

LAST = 25


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
    assert f"- remove `state/0/1/{LAST}.snapshot` (bad_snapshot, 4 B)" in shown.text
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


def test_a_long_plan_is_cut_and_its_log_has_all(tmp_path: Path) -> None:
    shown = plan_shown(plan_rollback(torn(tmp_path / "c"), 16))
    assert shown.text.count("\n- ") <= 52
    assert shown.document is not None
    assert shown.document["batch"] == 16


def test_nothing_to_do_is_no_plan_and_what_stays_broken_fails(tmp_path: Path) -> None:
    storage = torn(tmp_path / "c")
    for name in (f"{LAST}.snapshot", "7.delta"):
        (tmp_path / f"c/state/0/1/{name}").unlink()
    shown = plan_shown(plan_repair(storage))
    assert shown.document is None
    assert shown.failure is not None
    assert "BROKEN_CHAIN" in shown.failure.reason
