"""Each sentence that the program prints is true: it changes when what it is about changes."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from statemaint.storage import LocalStorage
from tests.support.checkpoints import snapshot_bytes, state_at, write_checkpoint
from tests.support.program import run
from tests.unit.cli.test_show import AGGREGATION, unpacked

TIGHT = ("--min-deltas-for-snapshot", "5", "--min-batches-to-retain", "8", "--grace", "0s")


def run_json(*args: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*args, "--json").stdout)
    return found


def line_of(text: str, label: str) -> str:
    """Returns the only line that begins with a label, without it."""
    (line,) = (one for one in text.splitlines() if one.startswith(label))
    return line.removeprefix(label).strip()


# -- plan: the floor


def test_a_floor_below_missing_versions_counts_those_that_load(checkpoint: Path) -> None:
    """Versions 1 to 20 are gone, as after maintenance with a smaller window."""
    for partition in range(2):
        storage = LocalStorage(checkpoint)
        storage.write(f"state/0/{partition}/20.snapshot", [snapshot_bytes(state_at(20))])
        for version in range(1, 21):
            storage.delete(f"state/0/{partition}/{version}.delta")
    for batch in range(16, 20):
        (checkpoint / f"commits/{batch}").unlink()
    assert line_of(run("plan", str(checkpoint)).stdout, "floor") == (
        "version 1: 6 of the 25 versions from it on load in every store, and stay loadable"
    )
    dry = run("maintain", str(checkpoint), "--dry-run").stdout
    assert "6 of the 25 versions" in line_of(dry, "floor")


def test_a_floor_of_which_every_version_loads_stays_loadable(checkpoint: Path) -> None:
    floor = line_of(run("plan", str(checkpoint)).stdout, "floor")
    assert floor == "version 1: it and all above stay loadable"


def test_a_version_that_one_store_lacks_is_not_counted(checkpoint: Path) -> None:
    (checkpoint / "state/0/1/23.delta").unlink()
    floor = line_of(run("plan", str(checkpoint), *TIGHT).stdout, "floor")
    assert floor == (
        "version 17: 6 of the 9 versions from it on load in every store, and stay loadable"
    )


def test_a_plan_of_some_stores_counts_the_versions_that_load_in_these(checkpoint: Path) -> None:
    (checkpoint / "state/0/1/23.delta").unlink()
    other, broken = (
        line_of(run("plan", str(checkpoint), *TIGHT, "--partition", one).stdout, "floor")
        for one in ("0", "1")
    )
    assert other == "version 17: it and all above stay loadable"
    assert "6 of the 9 versions from it on load in every requested store" in broken


def test_a_checkpoint_without_a_commit_has_no_version_none(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint / "commits")
    assert "None" not in run("scan", str(checkpoint)).stdout


# -- undo: what happens next


def test_the_undo_of_a_rollback_says_where_the_query_continues(checkpoint: Path) -> None:
    uri = str(checkpoint)
    rolled = run_json("rollback", uri, "--to-batch", "21", "--apply")
    done = run("undo", uri, rolled["run"])
    assert done.stdout.splitlines()[1:] == [
        "the query continues after batch 24, as before the rollback"
    ]
    before = {*(checkpoint / "state").rglob("*")}
    assert run_json("maintain", uri)["files_deleted"] == 0
    assert before <= {*(checkpoint / "state").rglob("*")}


def test_the_undo_of_a_maintenance_says_that_the_next_one_deletes_again(checkpoint: Path) -> None:
    uri = str(checkpoint)
    deleted = run_json("maintain", uri, *TIGHT, "--trash-for", "1h")
    done = run("undo", uri, deleted["run"])
    assert done.stdout.splitlines()[1:] == [
        "the next maintain deletes them again unless its policy retains more"
    ]
    assert run_json("maintain", uri, *TIGHT)["files_deleted"] == 32


def test_the_undo_of_a_repair_says_that_the_damage_is_back(checkpoint: Path) -> None:
    uri = str(checkpoint)
    above = checkpoint / "state/0/0/28.snapshot"
    above.write_bytes(snapshot_bytes(state_at(25)))
    repaired = run_json("repair", uri, "--apply")
    done = run("undo", uri, repaired["run"])
    assert done.stdout.splitlines()[1:] == [
        f"the repair had moved them away as damage: see `statemaint doctor {uri}`"
    ]
    assert (above.exists(), run("doctor", uri).returncode) == (True, 3)
    run("maintain", uri, *TIGHT)
    assert above.exists()


# -- a folder of checkpoints: how deep it was looked


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("scan", "by the logs, and the names and sizes of files"),
        ("verify", "by the beginning and end of every needed file"),
        ("verify --deep", "by every file, and the rows of the newest version"),
        ("doctor", "by every needed file"),
        ("doctor --deep", "by every file, and the rows of the newest version"),
    ],
)
def test_a_fleet_says_how_deep_it_looked(
    tmp_path: Path, checkpoint: Path, words: str, sentence: str
) -> None:
    verb, *flags = words.split()
    first = run(verb, str(tmp_path), *flags).stdout.splitlines()[0]
    assert first.endswith(f", 1 healthy, {sentence}")
    for batch in range(16, 25):
        (checkpoint / f"offsets/{batch}").write_bytes(b"cut")
    first = run(verb, str(tmp_path), *flags).stdout.splitlines()[0]
    assert first.endswith(f", 1 broken, {sentence}")


def test_the_stats_of_a_fleet_say_what_was_read_and_nothing_about_damage(tmp_path: Path) -> None:
    unpacked(AGGREGATION, tmp_path / "one")
    assert run("stats", str(tmp_path)).stdout.splitlines()[0].endswith(", all of them read")
    next((tmp_path / "one/state/0/0").glob("9.*")).write_bytes(b"cut")
    done = run("stats", str(tmp_path))
    assert (done.returncode, done.stdout.splitlines()[0][-12:]) == (3, ", 1 not read")


def test_a_fleet_counts_what_is_damaged_and_what_was_not_read(
    tmp_path: Path, checkpoint: Path
) -> None:
    (checkpoint / "state/0/0/23.delta").unlink()
    other = tmp_path / "other"
    shutil.copytree(checkpoint, other)
    for file in (other / "offsets").iterdir():
        file.write_bytes(file.read_bytes().replace(b"HDFSBackedState", b"UnheardOfState"))
        text = file.read_bytes()
        if b"providerClass" not in text:
            file.write_bytes(
                text.replace(
                    b'"conf":{', b'"conf":{"spark.sql.streaming.stateStore.providerClass":"x.Odd",'
                )
            )
    done = run("scan", str(tmp_path))
    assert ", 1 broken, 1 unknown, by " in done.stdout.splitlines()[0]


# -- verify: of how many versions


def test_a_damaged_verification_counts_the_versions_that_passed_and_all(checkpoint: Path) -> None:
    uri = str(checkpoint)
    assert run("verify", uri).stdout == (
        "healthy: 18 versions checked in 2 stores, counted in each"
        "; files not read whole (see --deep)\n"
    )
    (checkpoint / "state/0/1/23.delta").unlink()
    assert run("verify", uri).stdout == (
        "broken: 15 of 18 versions passed in 2 stores, counted in each"
        "; files not read whole (see --deep)\n"
    )
    found = run_json("verify", uri)
    assert (found["versions_checked"], found["versions"]) == (15, 18)
    row = run("verify", str(checkpoint.parent)).stdout.splitlines()[2]
    assert row.split()[:6] == ["ck", "broken", "2", "15", "of", "18"]


def test_a_damaged_log_lets_every_version_pass(checkpoint: Path) -> None:
    (checkpoint / "offsets/20").unlink()
    assert run("verify", str(checkpoint)).stdout == (
        "degraded: 18 of 18 versions passed in 2 stores, counted in each"
        "; files not read whole (see --deep)\n"
    )


# -- repair: nothing to do


def test_a_repair_that_helps_nothing_says_what_remains(checkpoint: Path) -> None:
    uri = str(checkpoint)
    assert run("repair", uri).stdout == "repair: nothing to do\n"
    (checkpoint / "state/0/1/23.delta").unlink()
    for flags in ([], ["--apply"]):
        done = run("repair", uri, *flags)
        assert done.returncode == 3
        assert done.stdout == (
            "repair: of 1 finding of damage it can repair none; "
            f"`statemaint doctor {uri}` says what can be done\n"
        )
    assert "rollback --to-batch 21" in run("doctor", uri).stdout


# -- doctor: the longest chain


def test_the_longest_chain_has_a_snapshot_only_if_there_is_one(checkpoint: Path) -> None:
    uri = str(checkpoint)
    chain = line_of(run("doctor", uri).stdout, "chain:")
    assert chain.startswith("at most 25 files of changes, without a snapshot (op 0 / part ")
    run("maintain", uri, *TIGHT)
    chain = line_of(run("doctor", uri).stdout, "chain:")
    assert chain.startswith("at most 0 files of changes after a snapshot (op 0 / part ")


# -- doctor --deep: how many rows


def test_a_deep_look_counts_the_stores_whose_rows_it_checked(checkpoint: Path) -> None:
    uri = str(checkpoint)

    def looked() -> str:
        return line_of(run("doctor", uri, "--deep").stdout, "looked:").partition(";")[0]

    assert looked() == "every file and every row of the newest version"
    (checkpoint / "state/0/1/25.delta").write_bytes(b"cut")
    assert looked() == "every file, and the rows of the newest version in 1 of 2 stores"
    (checkpoint / "state/0/0/23.delta").unlink()
    assert looked() == "every file, and the rows of the newest version in 0 of 2 stores"


def test_a_deep_look_beside_damaged_logs_checks_no_row(checkpoint: Path) -> None:
    (checkpoint / "offsets/24").write_bytes(b"cut")
    looked = line_of(run("doctor", str(checkpoint), "--deep").stdout, "looked:")
    assert looked.startswith("every file, and the rows of the newest version in 0 of 2 stores;")


# -- maintain: why nothing was deleted


def test_a_run_that_deletes_nothing_counts_what_it_keeps_and_why(checkpoint: Path) -> None:
    (checkpoint / "state/0/1/foo.bar").write_bytes(b"")
    done = run("maintain", str(checkpoint), "--min-batches-to-retain", "8").stdout
    assert line_of(done, "nothing was deleted:") == (
        "every file is kept: 32 base within grace, 18 needed by retained version, 1 unknown file"
    )


def test_a_plan_of_a_query_without_state_halts_no_store(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint / "state")
    printed = run("plan", str(checkpoint)).stdout
    assert line_of(printed, "to do") == "nothing: there is no state"
    assert line_of(printed, "floor") == "version 1"


# -- maintain --dry-run --json


def test_the_json_of_a_dry_run_has_the_actions_of_the_plan(checkpoint: Path) -> None:
    uri = str(checkpoint)
    dry = run_json("maintain", uri, *TIGHT, "--dry-run")
    actions = run_json("plan", uri, *TIGHT)["actions"]
    assert (dry["actions"], len(actions)) == (actions, 36)
    assert (dry["dry_run"], dry["snapshots_written"]) == (True, 0)
    done = run_json("maintain", uri, *TIGHT)
    assert (done["snapshots_written"], "actions" in done) == (4, False)


# -- apply --at


def test_a_plan_of_another_query_is_refused_by_its_id(checkpoint: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(run("plan", str(checkpoint), *TIGHT, "--json").stdout)
    other = tmp_path / "other"
    other.mkdir()
    write_checkpoint(LocalStorage(other), last=12)
    theirs = "99999999-2222-3333-4444-555555555555"
    (other / "metadata").write_text(json.dumps({"id": theirs}))
    before = {*other.rglob("*")}
    done = run("apply", str(plan), "--at", str(other))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"statemaint: CONFIG: {other}: holds query {theirs}, but the plan is of query "
        f"11111111-2222-3333-4444-555555555555 in {checkpoint}; use a plan of this checkpoint\n"
    )
    assert {*other.rglob("*")} == before


@pytest.mark.parametrize("words", ["repair", "rollback --to-batch 20"])
def test_a_recovery_of_another_query_is_refused_by_its_id(
    checkpoint: Path, tmp_path: Path, words: str
) -> None:
    (checkpoint / "state/0/0/28.snapshot").write_bytes(snapshot_bytes(state_at(25)))
    other = tmp_path / "other"
    shutil.copytree(checkpoint, other)
    theirs = "99999999-2222-3333-4444-555555555555"
    (other / "metadata").write_text(json.dumps({"id": theirs}))
    verb, *flags = words.split()
    plan = tmp_path / "plan.json"
    plan.write_text(run(verb, str(checkpoint), *flags, "--json").stdout)
    done = run("apply", str(plan), "--at", str(other))
    assert done.returncode == 2
    assert f"holds query {theirs}, but the plan is of query 11111111-2222-" in done.stderr
    assert not (other / "_statemaint").exists()
