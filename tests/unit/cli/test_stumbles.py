"""What people stumbled over at a terminal, case by case, on real checkpoints and many stores.

Cases that are about a mistyped address, errors as JSON, endings and streams are in
`test_first_hour.py`, progress in `test_progress.py`.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from statemaint.cli.show import _print_counts
from statemaint.model.ids import StoreId
from statemaint.state.diff import Counts, StateDiff, StoreDiff
from statemaint.storage import LocalStorage
from tests.support.checkpoints import write_checkpoint
from tests.support.fifty import CUT, FLIPPED, MISSING, write_fifty
from tests.support.program import run
from tests.support.terminal import at_terminal
from tests.unit.cli.test_show import unpacked

TIGHT = ("--min-deltas-for-snapshot", "5", "--min-batches-to-retain", "2", "--grace", "0s")
STORE = re.compile(r"^\d+/\d+(/[\w-]+)? ")


@pytest.fixture(scope="module")
def join(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Returns a join, whose stores have long names."""
    return str(unpacked("join2", tmp_path_factory.mktemp("join")))


@pytest.fixture(scope="module")
def fifty(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("fifty")
    write_fifty(root)
    return str(root)


@pytest.mark.parametrize("verb", ["scan", "plan", "maintain --dry-run", "digest", "stats", "diff"])
def test_a_store_of_a_join_is_one_line_of_80_columns(join: str, verb: str) -> None:
    name, *flags = verb.split()
    lines = at_terminal(name, join, *flags, NO_COLOR="1").splitlines()
    rows = [line for line in lines if STORE.match(line)]
    assert len(rows) >= 8
    assert max(len(line) for line in rows) <= 80
    assert any(line.startswith("0/0/left-keyToNumValues ") for line in rows)


@pytest.mark.parametrize("verb", ["show", "diff"])
def test_rows_that_are_too_wide_are_a_line_for_each_column(join: str, verb: str) -> None:
    printed = at_terminal(verb, join, "--all", NO_COLOR="1", columns=60)
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:00\.000000Z"
    whole = rf"^value\.at +{time}$" if verb == "show" else rf'^before +{{.*"at": "{time}".*}}$'
    assert re.search(whole, printed, re.MULTILINE)
    wide = at_terminal(verb, join, NO_COLOR="1", columns=200)
    assert re.search(r"^partition +(change +)?key\.field0 +key\.index ", wide, re.MULTILINE)


def test_a_digest_is_whole_on_80_columns(join: str) -> None:
    found: Any = json.loads(run("digest", join, "--json").stdout)
    digests = {one["digest"] for one in found["stores"]}
    lines = at_terminal("digest", join, NO_COLOR="1").splitlines()
    assert {line.split()[-1] for line in lines if STORE.match(line)} == digests


def test_numbers_end_in_one_column(join: str) -> None:
    for printed in (run("scan", join).stdout, at_terminal("scan", join, NO_COLOR="1", columns=160)):
        head, *_ = (line for line in printed.splitlines() if line.startswith("store "))
        rows = [line for line in printed.splitlines() if STORE.match(line)]
        for column in ("chain", "files", "bytes"):
            end = head.index(column) + len(column)
            assert all(row[end - 1] != " " and row[end : end + 1] in ("", " ") for row in rows)


def test_one_of_a_thing_is_singular(tmp_path: Path) -> None:
    write_checkpoint(LocalStorage(tmp_path), partitions=1)
    root = str(tmp_path)
    assert re.search(r"^in all +1 store, \d\d files ", run("scan", root).stdout, re.MULTILINE)
    assert run("verify", root).stdout.startswith("healthy: 9 versions checked in 1 store, ")
    assert " in 1 store\n" in run("digest", root).stdout
    printed = "".join(run(verb, root).stdout for verb in ("scan", "plan", "maintain", "digest"))
    assert not re.search(r"\b1 (stores|files|snapshots|rows|versions)\b", printed)


def test_a_rollback_is_its_batches_files_bytes_and_where_its_rows_are(tmp_path: Path) -> None:
    root = str(unpacked("join2", tmp_path))
    printed = run("rollback", root, "--to-batch", "9").stdout.splitlines()
    assert printed[0] == (
        "rollback  the query continues after batch 9; 3 batches (10 to 12) run again"
    )
    rows, moves, kinds = printed[6:9]
    assert re.fullmatch(r"moves     \d+ files \(\d+\.\d kB\) to the trash", moves)
    assert re.fullmatch(r" {10}\d+ checksums, \d+ deltas, 3 commits, 2 offsets", kinds)
    command = re.fullmatch(r"rows      statemaint (diff .*) counts them, if both load", rows)
    assert command is not None
    assert not any(line.startswith("remove ") for line in printed)
    assert "stores    8 stores: 3 checksums, 3 deltas each" in printed
    assert run(*command[1].split()).stdout.startswith("from version 10 to version 13\n")


def test_a_rollback_of_one_batch_is_singular(tmp_path: Path) -> None:
    root = str(unpacked("join2", tmp_path))
    first = run("rollback", root, "--to-batch", "11").stdout.splitlines()[0]
    assert first == "rollback  the query continues after batch 11; batch 12 runs again"


def test_a_run_that_is_unknown_is_an_error_and_a_near_one_is_named(tmp_path: Path) -> None:
    write_checkpoint(LocalStorage(tmp_path))
    run("maintain", str(tmp_path), *TIGHT)
    (one,) = json.loads(run("runs", str(tmp_path), "--json").stdout)["runs"]
    unknown = run("runs", str(tmp_path), "nosuch")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "there is no run 'nosuch'; `statemaint runs` lists them" in unknown.stderr
    assert f"did you mean '{one['run']}'?" in run("runs", str(tmp_path), one["run"][:-1]).stderr


def test_a_run_is_shown_file_by_file(tmp_path: Path) -> None:
    write_checkpoint(LocalStorage(tmp_path))
    root = str(tmp_path)
    tight = (*TIGHT[:3], "8", *TIGHT[4:])
    planned: Any = json.loads(run("plan", root, *tight, "--json").stdout)
    run("maintain", root, *tight, "--trash-for", "1d")
    (one,) = json.loads(run("runs", root, "--json").stdout)["runs"]
    found: Any = json.loads(run("runs", root, one["run"], "--json").stdout)
    fields = ("action", "path", "reason")
    did = [[action[name] for name in fields] for action in found["actions"]]
    assert sorted(did) == sorted([action[name] for name in fields] for action in planned["actions"])
    assert {name: found[name] for name in one} == one
    printed = run("runs", root, one["run"])
    assert f"statemaint undo {root} {one['run']}\n" in printed.stdout
    assert re.search(r"^ +32 delete below base$", printed.stdout, re.MULTILINE)
    run("undo", root, one["run"])
    assert f"{one['run']} was undone " in run("runs", root, one["run"]).stdout


@pytest.fixture(scope="module")
def many_stores(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("many")
    write_checkpoint(LocalStorage(root), partitions=30)
    return str(root)


def test_a_table_of_stores_has_the_first_ones(many_stores: str) -> None:
    printed = run("digest", many_stores).stdout.splitlines()
    assert sum(bool(STORE.match(line)) for line in printed) == 20
    assert "and 10 more stores; --all shows them" in printed
    everything = run("digest", many_stores, "--all").stdout.splitlines()
    assert sum(bool(STORE.match(line)) for line in everything) == 30
    assert not any("--all" in line for line in everything)


def test_a_diff_of_many_stores_has_those_with_most_changes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    counts = [Counts(added=one % 7, removed=one) for one in range(30)]
    stores = [StoreDiff(StoreId(0, at), None, one) for at, one in enumerate(counts)]
    _print_counts(StateDiff(1, 2, tuple(stores), ()))
    _, first, *_, total, more = capsys.readouterr().out.splitlines()
    assert first.split() == ["0/27", "6", "0", "27", "0"]
    assert total.split() == ["total", "85", "0", "435", "0"]
    assert more == "and 10 more stores, also in the total; --all shows them"


@pytest.mark.parametrize("verb", ["scan", "doctor"])
def test_fifty_checkpoints_are_one_screen(fifty: str, verb: str) -> None:
    printed = at_terminal(verb, fifty, "--quiet", NO_COLOR="1")
    first, head, *rows = printed.splitlines()
    damaged = {"scan": [MISSING, CUT], "doctor": [FLIPPED, MISSING, CUT]}[verb]
    assert re.match(rf"{re.escape(fifty)}: 50 checkpoints, .*, {len(damaged)} broken, ", first)
    assert head.split()[0] == "checkpoint"
    names = [row.split()[0] for row in rows if row.startswith("team_")]
    assert sorted(names[: len(damaged)]) == sorted(damaged)
    assert len(names) == len(set(names)) == 50
    assert max(len(row) for row in rows) <= 80
    assert len(printed.splitlines()) <= 54


def test_the_doctor_of_fifty_says_which_restart(fifty: str) -> None:
    found: Any = json.loads(run("doctor", fifty, "--json").stdout)
    restarts = {
        one["checkpoint"].removeprefix(f"{fifty}/"): one["restarts"] for one in found["checkpoints"]
    }
    assert {name for name, able in restarts.items() if not able} == {MISSING, FLIPPED, CUT}
    assert len(restarts) == 50
