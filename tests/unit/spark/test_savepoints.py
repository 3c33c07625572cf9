"""Savepoints of a fleet, with the work of executors done in this process."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from statemaint.audit import digest_stores
from statemaint.records.savepoints import read_savepoint
from statemaint.savepoint import savepoint
from statemaint.savepoint.run import UNFINISHED
from statemaint.spark.fleet import Target
from statemaint.spark.reporting import note_savepoints
from statemaint.spark.savepoints import QuerySave, save_unit
from statemaint.spark.units import Piece
from statemaint.storage import LocalStorage
from tests.support.checkpoints import write_checkpoint


@pytest.fixture
def target(tmp_path: Path) -> Target:
    source = tmp_path / "source"
    source.mkdir()
    write_checkpoint(LocalStorage(source), last=9, batches=range(6, 9), partitions=4)
    return Target("query", str(source), savepoint=str(tmp_path / "saved" / "{batch}"))


@pytest.fixture
def save(target: Target) -> Iterator[QuerySave]:
    begun = QuerySave(target, "run", pin=True)
    begun.begin()
    yield begun
    begun.close()


def pieces(save: QuerySave) -> list[str]:
    """Returns the work that is left, in two units of two stores each."""
    return [piece for piece, _ in save.units(2)]


def rows_of(units: list[str]) -> list[dict[str, Any]]:
    return [row for piece in units for row in save_unit(piece)]


def query_row(save: QuerySave) -> dict[str, Any]:
    return list(save.rows())[-1]


def files(root: Path) -> dict[str, bytes]:
    """Returns the files of a savepoint but our own."""
    paths = (path for path in root.rglob("*") if path.is_file() and "_statemaint" not in str(path))
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


def test_units_make_the_savepoint_that_one_process_makes(save: QuerySave, tmp_path: Path) -> None:
    units = pieces(save)
    assert len(units) == 2
    save.go_on(rows_of(units))
    source, alone = LocalStorage(tmp_path / "source"), LocalStorage(tmp_path / "alone")
    expected = savepoint(source, alone)
    note = read_savepoint(LocalStorage(tmp_path / "saved/8"))
    assert note
    assert (note.stores, note.logs) == (expected.note.stores, expected.note.logs)
    assert files(tmp_path / "saved/8") == files(tmp_path / "alone")
    rows = list(save.rows())
    assert [(row["partition"], row["rows"]) for row in rows[:-1]] == [
        (number, store.rows) for number, store in enumerate(note.stores)
    ]
    assert {row["unit"] for row in rows[:-1]} == {
        "op 0 / parts 0-2 (2 of them)",
        "op 0 / parts 1-3 (2 of them)",
    }
    assert {row["savepoint"] for row in rows} == {str(tmp_path / "saved/8")}
    ours = tmp_path / "saved/8/_statemaint"
    left = [str(path.relative_to(ours)) for path in ours.rglob("*") if path.is_file()]
    assert [path for path in left if not path.startswith("lease/")] == ["savepoint.json"]


def test_a_unit_is_as_heavy_as_its_stores(save: QuerySave) -> None:
    """Of heavy units a task saves one at a time (`units.waits`), in the memory of one task."""
    units = list(save.units(2))
    assert [Piece.from_json(piece).options["weight"] for piece, _ in units] == [
        weight for _, weight in units
    ]


@pytest.mark.parametrize("expired", [False, True])
def test_nothing_is_written_once_the_driver_does_not_hold_the_lease(
    save: QuerySave, tmp_path: Path, *, expired: bool
) -> None:
    units = pieces(save)
    save.close()
    for claim in tmp_path.glob("saved/8/_statemaint/lease/*") if expired else ():
        claim.unlink()
    (row, other) = rows_of(units)
    assert "LEASE_LOST" in row["error"]
    assert row["unit"] != other["unit"]
    assert not list(tmp_path.glob("saved/8/state/**/*.snapshot"))


def test_a_unit_runs_once_however_often_spark_starts_it(save: QuerySave, tmp_path: Path) -> None:
    units = pieces(save)
    first = rows_of(units)
    changed = {path: path.stat().st_mtime_ns for path in tmp_path.glob("saved/8/state/0/*/*")}
    assert rows_of(units) == first
    assert {path: path.stat().st_mtime_ns for path in changed} == changed


def test_an_attempt_after_a_killed_one_keeps_what_that_has_proved(
    save: QuerySave, tmp_path: Path
) -> None:
    unit, other = pieces(save)
    rows_of([unit])
    dest = tmp_path / "saved/8"
    next(dest.glob("_statemaint/units/*/*/outcome.json")).unlink()
    proved, unproved = sorted(dest.glob("state/0/*/9.snapshot"))
    next(dest.glob(f"_statemaint/savepoint/state-0-{unproved.parent.name}.json")).unlink()
    before = proved.stat().st_ino, unproved.stat().st_ino
    rows = rows_of([unit, other])
    assert proved.stat().st_ino == before[0]
    assert unproved.stat().st_ino != before[1]
    save.go_on(rows)
    assert save.report
    assert digest_stores(LocalStorage(dest)) == digest_stores(LocalStorage(tmp_path / "source"))


def test_the_next_run_continues_after_a_killed_driver(
    save: QuerySave, target: Target, tmp_path: Path
) -> None:
    unit, _ = pieces(save)
    rows_of([unit])
    save.close()
    for claim in tmp_path.glob("saved/8/_statemaint/lease/*"):
        claim.unlink()  # as if it had expired
    again = QuerySave(target, "another", pin=True)
    again.begin()
    again.go_on(rows_of(pieces(again)))
    assert again.report
    assert again.report.continued == 2
    assert [row["snapshots_written"] for row in list(again.rows())[:-1]] == [0, 1, 0, 1]


def test_a_savepoint_starts_over_when_an_input_is_missing(save: QuerySave, tmp_path: Path) -> None:
    delta, units = tmp_path / "source/state/0/1/3.delta", pieces(save)
    delta.rename(tmp_path / "aside")
    rows = rows_of(units)
    assert {row["exit_code"] for row in rows if row.get("error")} == {6}
    (tmp_path / "aside").rename(delta)
    save.go_on(rows)
    assert save.steps
    save.go_on(rows_of(pieces(save)))
    assert save.report
    assert save.report.starts == 2


def test_a_missing_input_ends_the_third_start_with_its_error(
    save: QuerySave, tmp_path: Path
) -> None:
    delta = tmp_path / "source/state/0/1/3.delta"
    for start in range(3):
        assert save.steps, start
        units = pieces(save)
        delta.rename(tmp_path / "aside")
        rows = rows_of(units)
        (tmp_path / "aside").rename(delta)
        save.go_on(rows)
    row = query_row(save)
    assert (save.steps, row["exit_code"]) == (None, 6)
    assert row["error"].startswith("SUPERSEDED: state/0/1/3.delta: ")


def test_a_damaged_file_fails_its_query_which_does_not_start(
    save: QuerySave, tmp_path: Path
) -> None:
    delta, dest = tmp_path / "source/state/0/1/3.delta", tmp_path / "saved/8"
    delta.write_bytes(delta.read_bytes()[:-3])
    save.go_on(rows_of(pieces(save)))
    row = query_row(save)
    assert (row["outcome"], row["exit_code"]) == ("failed", 3)
    assert "3.delta" in row["error"]
    assert (dest / "metadata").read_bytes() == UNFINISHED
    assert not list((tmp_path / "source/_statemaint/pins").iterdir())


def test_another_attempt_works_on_a_unit_that_failed(save: QuerySave, tmp_path: Path) -> None:
    delta, units = tmp_path / "source/state/0/1/3.delta", pieces(save)
    content = delta.read_bytes()
    delta.write_bytes(content[:-3])
    assert any(row.get("error") for row in rows_of(units))
    delta.write_bytes(content)
    save.go_on(rows_of(units))
    assert save.report


def test_a_unit_without_a_report_fails_its_query(save: QuerySave) -> None:
    unit, _ = pieces(save)
    save.go_on(rows_of([unit]))
    assert "gave no report" in query_row(save)["error"]


def test_a_whole_savepoint_is_left_as_it_is(save: QuerySave, target: Target) -> None:
    save.go_on(rows_of(pieces(save)))
    again = QuerySave(target, "another", pin=True)
    again.begin()
    assert (again.steps, query_row(again)["outcome"]) == (None, "done")
    assert [row["snapshots_written"] for row in list(again.rows())[:-1]] == [0, 0, 0, 0]


def test_the_savepoint_is_in_the_record_of_its_query(save: QuerySave, tmp_path: Path) -> None:
    save.go_on(rows_of(pieces(save)))
    assert save.report
    note_savepoints({save.target: save.report})
    record = json.loads((tmp_path / "source/_statemaint/metrics.json").read_text())
    assert record["savepoint"]["batch"] == 8
