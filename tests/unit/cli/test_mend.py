"""`repair` and `rollback` as a person runs them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from statemaint.storage import LocalStorage
from statemaint.wording import moment
from tests.support.checkpoints import snapshot_bytes, state_at, write_checkpoint
from tests.unit.cli.test_program import run, run_json, tree


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Batches 16 to 24 are in the log of two partitions, and a snapshot of one is cut."""
    root = tmp_path / "ck"
    root.mkdir()
    storage = write_checkpoint(LocalStorage(root))
    storage.write("state/0/0/20.snapshot", [snapshot_bytes(state_at(20))[:50]])
    return root


@pytest.fixture
def broken(checkpoint: Path) -> Path:
    """A change is lost as well."""
    (checkpoint / "state/0/1/23.delta").unlink()
    return checkpoint


def test_a_repair_is_shown_before_it_is_done(checkpoint: Path) -> None:
    before = tree(checkpoint)
    shown = run("repair", str(checkpoint))
    assert (shown.returncode, tree(checkpoint)) == (0, before)
    lines = shown.stdout.splitlines()
    goes, kinds, written, bad, rebuilt, remove, write, proof, checked = lines[1:]
    assert re.fullmatch(r"repair .* after batch 24, committed .* UTC; no batch is undone", lines[0])
    assert bad.startswith(
        "because   remove 1 file (50 bytes), operator 0, default: damaged or not equal"
    )
    assert rebuilt.startswith(
        "because   write 1 snapshot, operator 0, default: the existing one is"
    )
    assert (goes, kinds) == ("moves     1 file (50 bytes) to the trash", "          1 snapshot")
    assert written == "written   1 snapshot"
    assert remove == "remove    state/0/0/20.snapshot  (bad snapshot, 50 bytes)"
    assert write == "write     state/0/0/20.snapshot  (version 20 from 20 files)"
    assert proof.startswith(
        "proof     op 0 / part 0 / default: version 20 without them has 15 rows, digest "
    )
    assert checked == "checked   18 versions of stores, read without these files"
    assert shown.stderr == "nothing was written; add --apply to carry it out\n"


def test_a_repair_with_apply_is_carried_out(checkpoint: Path) -> None:
    assert run("verify", str(checkpoint), "--deep").returncode == 3
    done = run("repair", str(checkpoint), "--apply")
    assert done.returncode == 0
    moved, written, undo = done.stdout.splitlines()
    assert moved.startswith("moved     1 file (50 bytes) to the trash of run ")
    assert written == "written   1 snapshot, each read back and equal"
    assert undo.startswith(f"undo      statemaint undo {checkpoint} ")
    assert run("verify", str(checkpoint), "--deep").returncode == 0
    again = run("repair", str(checkpoint), "--apply")
    assert (again.returncode, again.stdout) == (0, "repair: nothing to do\n")


def test_what_was_looked_at_can_be_applied(checkpoint: Path, tmp_path: Path) -> None:
    file = tmp_path / "repair.json"
    file.write_text(run("repair", str(checkpoint), "--json").stdout)
    done: dict[str, Any] = run_json("apply", str(file))
    assert (done["verb"], len(done["removed"]), len(done["written"])) == ("repair", 1, 1)
    assert done["written"][0]["attestation"]["rows"] == 15
    assert run("verify", str(checkpoint), "--deep").returncode == 0
    again = run("apply", str(file))
    assert again.returncode == 6
    assert again.stderr.startswith("statemaint: SUPERSEDED: ")


def test_what_cannot_be_mended_is_told_with_the_reason(broken: Path) -> None:
    (broken / "state/0/0/3.delta").unlink()
    done = run("repair", str(broken), "--apply")
    assert done.returncode == 3
    assert done.stdout == (
        f"repair: of 3 findings of damage it can repair none; `statemaint doctor {broken}` says "
        "what can be done\n"
    )
    lines = done.stderr.splitlines()
    assert lines[0] == (
        "state/0/0/20.snapshot stays: the log does not give version 20: state/0/0: files are "
        "missing; put them back from a copy"
    )
    assert {line.partition(":")[0] for line in lines[1:]} == {"BROKEN_CHAIN", "CORRUPT_FILE"}


def test_doctor_names_what_rollback_then_does(broken: Path, tmp_path: Path) -> None:
    run("repair", str(broken), "--apply")
    named = run_json("doctor", str(broken))
    assert (named["restarts"], named["goes_back_to"]) == (False, 21)
    before = tree(broken)
    shown = run("rollback", str(broken), "--to-batch", "21")
    assert (shown.returncode, tree(broken)) == (0, before)
    summary, left, stays, source, sink, rows, goes, kinds, *reasons = shown.stdout.splitlines()
    assert summary.endswith(" continues after batch 21; 3 batches (22 to 24) run again")
    newest, kept = (moment((broken / f"commits/{batch}").stat().st_mtime) for batch in (24, 21))
    assert left == f"goes back from batch 24, committed {newest} UTC"
    assert stays == f"          to batch 21, committed {kept} UTC"
    assert source == "source    0: reads again nothing"
    assert "may get the rows of batches 22 to 24 twice; one that records" in sink
    assert goes == "moves     10 files (1.1 kB) to the trash"
    assert kinds == "          5 deltas, 3 commits, 2 offsets"
    assert " --from 22 --to 25 counts them" in rows
    assert [re.sub(r" \(.*\)|: .*", "", line) for line in reasons[:2]] == [
        "because   remove 5 files, logs and metadata",
        "because   remove 5 files, operator 0, default",
    ]
    assert reasons[2].startswith("remove    state/0/0/25.delta  (rolled back, ")
    file = tmp_path / "rollback.json"
    file.write_text(run("rollback", str(broken), "--to-batch", "21", "--json").stdout)
    plan = json.loads(file.read_text())
    assert (plan["batch"], plan["trash_for"], plan["findings"]) == (21, 2_592_000.0, [])
    done = run("apply", str(file))
    assert done.returncode == 0
    assert run_json("doctor", str(broken))["restarts"] is True
    back = run("undo", str(broken), done.stdout.split()[-1])
    assert back.returncode == 0
    assert run_json("doctor", str(broken))["restarts"] is False


@pytest.mark.parametrize(
    ("batch", "code", "text"),
    [
        ("23", 3, "BROKEN_CHAIN: {}: cannot roll back to batch 23: state/0/1/23.delta"),
        ("25", 2, "CONFIG: {}: batch 25 is not committed, the commit log has batches 16 to 24"),
        ("x", 2, "CONFIG: Invalid value for '--to-batch': 'x' is not a valid integer"),
    ],
)  # fmt: skip
def test_a_rollback_that_cannot_be_is_refused_in_one_line(
    broken: Path, batch: str, code: int, text: str
) -> None:
    run("repair", str(broken), "--apply")
    before = tree(broken)
    done = run("rollback", str(broken), "--to-batch", batch, "--apply")
    assert (done.returncode, done.stdout, tree(broken)) == (code, "", before)
    assert done.stderr.startswith(f"statemaint: {text.format(broken)}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ('{"verb": "repair"}', "not the plan of a repair or rollback (checkpoint: Field required)"),
        ('{"verb": "forget"}', "not the plan of a repair or rollback (verb: Input should be"),
        ("[" * 100_000, "not a plan (the file: "),
    ],
)
def test_a_file_that_is_no_plan_is_refused(tmp_path: Path, content: str, text: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(content)
    done = run("apply", str(file))
    assert done.returncode == 2
    assert text in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_rollback_to_nothing_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    plan = {"verb": "rollback", "checkpoint": str(checkpoint), "batch": None, "trash_for": 1,
            "fingerprint": ""}  # fmt: skip
    file.write_text(json.dumps(plan))
    done = run("apply", str(file))
    assert (done.returncode, done.stderr) == (
        2, "statemaint: CONFIG: a rollback needs the batch to roll back to\n"
    )  # fmt: skip
