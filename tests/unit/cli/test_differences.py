"""Tables show what differs, and reasons are words: codes are for JSON."""

import re
from pathlib import Path

import pytest

from statemaint.cli.main import GROUPS, VERBS
from statemaint.storage import LocalStorage
from tests.support.checkpoints import write_checkpoint
from tests.support.terminal import at_terminal
from tests.unit.cli.test_program import run

TIGHT = ("--min-deltas-for-snapshot", "3", "--min-batches-to-retain", "4", "--grace", "0s")
CODE = re.compile(r"\b[a-z]+_[a-z_]+\b")


@pytest.fixture
def wide(tmp_path: Path) -> str:
    """Returns a checkpoint of forty stores, of which one is damaged."""
    write_checkpoint(LocalStorage(tmp_path), partitions=40)
    (tmp_path / "state/0/17/20.delta").unlink()
    return str(tmp_path)


def test_stores_that_are_alike_are_one_line_before_those_that_stand_out(wide: str) -> None:
    scanned = run("scan", wide).stdout.splitlines()
    assert scanned[-3] == (
        "39 stores alike: versions 1-25, snapshots none, chain 25, files 25; --all shows them"
    )
    assert scanned[-1].split()[:2] == ["0/17", "1-25"]
    planned = run("plan", wide, *TIGHT).stdout
    assert (
        "39 stores alike: chain 25, write 25 (chain too long), 17 (rebase), delete 16; --all"
    ) in planned
    done = run("maintain", wide, *TIGHT).stdout
    assert "39 stores alike: outcome done, chain 25 -> 0, files 25 -> 11; --all shows" in done
    assert len(re.findall(r"^0/\d+ ", done, re.MULTILINE)) == 1


def test_all_stores_are_listed_on_request(wide: str) -> None:
    for verb in ("scan", "plan"):
        printed = run(verb, wide, "--all").stdout
        assert len(re.findall(r"^0/\d+ ", printed, re.MULTILINE)) == 40
        assert "alike" not in printed


def test_the_last_lines_of_a_run_are_before_and_after(checkpoint: Path) -> None:
    *_, before, after = run("maintain", str(checkpoint), *TIGHT).stdout.splitlines()
    assert re.fullmatch(
        r"before  50 files \(.+\); a restart reads 50 files \(.+\), in .+ s", before
    )
    assert re.fullmatch(r"after   22 files \(.+\); a restart reads 2 files \(.+\), in .+ s", after)


def test_a_rollback_lists_stores_and_no_files(tmp_path: Path) -> None:
    write_checkpoint(LocalStorage(tmp_path), partitions=40)
    printed = run("rollback", str(tmp_path), "--to-batch", "22").stdout
    assert "2 batches (23 to 24) run again" in printed
    assert "\nstores    40 stores: 2 deltas each\n" in printed
    assert "\nremove " not in printed
    assert "\nbecause   remove 80 files (" in printed
    everything = run("rollback", str(tmp_path), "--to-batch", "22", "--all").stdout
    assert len(re.findall(r"^remove ", everything, re.MULTILINE)) > 80


def test_a_store_with_many_damaged_files_is_one_line_of_verify(checkpoint: Path) -> None:
    for version in (20, 22, 24):
        (checkpoint / f"state/0/1/{version}.delta").write_bytes(b"LZ4Block")
    lines = run("verify", str(checkpoint)).stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("CORRUPT_FILE: state/0/1/20.delta: ")
    assert lines[0].endswith(" (and 2 more of this store)")


def test_reasons_are_words(wide: str) -> None:
    for words in (("plan", wide, *TIGHT), ("maintain", wide, *TIGHT, "--dry-run")):
        codes = {*CODE.findall(run(*words).stdout.replace(wide, ""))}
        assert codes <= {"min_batches_to_retain", "min_deltas_for_snapshot"}
    assert "below base" in run("plan", wide, *TIGHT).stdout


def test_help_lists_every_verb_once_by_what_it_is_for() -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(VERBS)
    printed = at_terminal("--help", columns=80)
    assert [one for one in GROUPS if f"\n{one}:\n" in printed] == [*GROUPS]
