import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from statemaint.errors import ConfigError, StorageError
from statemaint.spark.frames import OUTCOMES, VERIFIED, arrow_schema
from statemaint.spark.history import History
from statemaint.storage import MemoryStorage
from tests.support.faults import HookedStorage, refuse

NOON = 1_795_521_600.0  # 2026-11-24T12:00:00Z
DAY = 86400.0


def table(*rows: dict[str, Any]) -> Any:
    return pa.Table.from_pylist(list(rows), schema=arrow_schema(OUTCOMES))


def row(run: str, seconds: float, partition: int = 0, **fields: Any) -> dict[str, Any]:
    place = {"query": "q", "operator": 0, "partition": partition, "store": "default"}
    return {"run": run, **place, "unit": "u", "weight": 10.0, "seconds": seconds, **fields}


def test_a_run_is_one_file_of_its_day(tmp_path: Path) -> None:
    path = History.at(str(tmp_path / "history")).add("a:1", table(row("a:1", 1.0)), NOON)
    assert path == "date=2026-11-24/a-1.parquet"
    found = pq.read_table(tmp_path / "history").to_pylist()
    assert [(one["run"], str(one["date"])) for one in found] == [("a:1", "2026-11-24")]


def test_a_later_attempt_replaces_the_file_even_on_the_next_day(tmp_path: Path) -> None:
    history = History.at(str(tmp_path))
    history.add("a", table(row("a", 1.0)), NOON)
    assert history.add("a", table(row("a", 2.0)), NOON + DAY) == "date=2026-11-24/a.parquet"
    assert [one["seconds"] for one in pq.read_table(tmp_path).to_pylist()] == [2.0]


def test_an_attempt_that_ends_after_a_later_one_replaces_nothing(tmp_path: Path) -> None:
    history = History.at(str(tmp_path))
    history.add("a", table(row("a", 2.0)), NOON, attempt=2)
    assert history.add("a", table(row("a", 1.0)), NOON + DAY) == "date=2026-11-24/a.parquet"
    assert [one["seconds"] for one in pq.read_table(tmp_path).to_pylist()] == [2.0]


def test_a_file_that_cannot_be_read_is_replaced(tmp_path: Path) -> None:
    history = History.at(str(tmp_path))
    (tmp_path / history.add("a", table(row("a", 1.0)), NOON, attempt=2)).write_bytes(b"no")
    history.add("a", table(row("a", 1.0)), NOON)
    assert [one["seconds"] for one in pq.read_table(tmp_path).to_pylist()] == [1.0]


def test_no_damage_to_a_file_stops_the_next_run() -> None:
    storage = MemoryStorage()
    history = History(storage)
    path = history.add("a", table(row("a", 1.0)), NOON)
    sound = storage.read(path)
    for at in range(4, len(sound), 50):
        storage.write(path, [sound[:at], b"\xff" * 6, sound[at + 6 :]], overwrite=True)
        history.costs()
        history.add("a", table(row("a", 1.0)), NOON, attempt=2)
        assert history.costs() == {"q": {"op 0 / part 0": 0.1}}


def test_a_file_that_the_storage_does_not_give_is_not_replaced() -> None:
    storage = MemoryStorage()
    path = History(storage).add("a", table(row("a", 2.0)), NOON, attempt=2)
    with pytest.raises(StorageError):
        History(HookedStorage(storage, before=refuse("read"))).add("a", table(row("a", 1.0)), NOON)
    assert pq.read_table(pa.BufferReader(storage.read(path))).to_pylist()[0]["seconds"] == 2.0


def test_days_that_ended_too_long_ago_are_deleted(tmp_path: Path) -> None:
    (tmp_path / "date=2026-11-01").mkdir()
    (tmp_path / "date=2026-11-01/notes.txt").write_text("")
    history = History.at(str(tmp_path), keep=2 * DAY)
    for number, verb in enumerate(("maintain", "verify", "maintain", "verify")):
        history.add(f"run-{number}", table(), NOON + number * DAY, verb=verb)
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")}
    assert found == {
        "date=2026-11-01/notes.txt",
        "date=2026-11-25/verify-run-1.parquet",
        "date=2026-11-26/run-2.parquet",
        "date=2026-11-27/verify-run-3.parquet",
    }
    assert not (tmp_path / "date=2026-11-24").exists()


def test_the_days_of_another_table_at_the_address_are_kept(tmp_path: Path) -> None:
    (tmp_path / "date=2026-11-01").mkdir()
    pq.write_table(table(row("a", 1.0)), tmp_path / "date=2026-11-01/part-0.parquet")
    (tmp_path / "date=2026-11-01/part-1.parquet").write_bytes(b"no")
    History.at(str(tmp_path), keep=0.0).add("a", table(), NOON)
    assert {one.name for one in tmp_path.glob("date=2026-11-01/*")} == {
        "part-0.parquet",
        "part-1.parquet",
    }


def test_a_run_that_takes_longer_than_the_history_is_kept_is_in_it(tmp_path: Path) -> None:
    history = History.at(str(tmp_path), keep=1e12)
    history.add("a", table(row("a", 1.0)), NOON)
    history = History.at(str(tmp_path), keep=0.0)
    history.add("a", table(row("a", 2.0)), NOON + 3 * DAY, attempt=2)
    assert [one["seconds"] for one in pq.read_table(tmp_path).to_pylist()] == [2.0]


def test_days_that_cannot_be_deleted_do_not_fail_the_run(caplog: pytest.LogCaptureFixture) -> None:
    storage = MemoryStorage()
    History(storage).add("a", table(), NOON)
    refusing = HookedStorage(storage, before=refuse("delete"))
    assert History(refusing, keep=0.0).add("b", table(), NOON + DAY) in storage.files
    assert len(storage.files) == 2
    assert "the history keeps days that are too old" in caplog.text


def test_a_row_has_the_columns_of_its_verb_and_no_others() -> None:
    storage = MemoryStorage()
    checked = {"query": "q", "share": 1, "verdict": "healthy", "versions_checked": 3}
    verified = pa.Table.from_pylist([checked], schema=arrow_schema(VERIFIED))
    path = History(storage).add("a", verified, NOON, verb="verify")
    assert path == "date=2026-11-24/verify-a.parquet"
    (found,) = pq.read_table(pa.BufferReader(storage.read(path))).to_pylist()
    told = {name: value for name, value in found.items() if value is not None}
    assert told == {"verb": "verify", "run": "a", **checked}


def test_a_run_that_dies_while_it_writes_leaves_nothing_that_a_reader_sees() -> None:
    class Dying(MemoryStorage):
        def replace(self, path: str, chunks: Iterable[bytes]) -> None:
            def half() -> Iterable[bytes]:
                yield b"".join(chunks)[:10]
                raise StorageError(path, "the driver is gone")

            super().replace(path, half())

    storage = Dying()
    with pytest.raises(StorageError):
        History(storage).add("a", table(row("a", 1.0)), NOON)
    assert storage.files == {}
    assert History(storage).costs() == {}


def test_the_newest_runs_say_how_slow_each_partition_was() -> None:
    history = History(MemoryStorage())
    history.add("a", table(row("a", 1.0), row("a", 9.0, 1)), NOON)
    history.add("b", table(row("b", 2.0), row("b", 4.0, 2, unit=None)), NOON + DAY)
    history.add("c", table(row("c", 3.0, 3, query="other")), NOON + 2 * DAY)
    assert history.costs() == {
        "q": {"op 0 / part 0": 0.2, "op 0 / part 1": 0.9},
        "other": {"op 0 / part 3": 0.3},
    }
    for verb in ("verify", "savepoint"):
        history.add("d", table(row("d", 7.0)), NOON + 3 * DAY, verb=verb)
    assert history.costs()["q"] == {"op 0 / part 0": 0.2, "op 0 / part 1": 0.9}
    history.add("d", table(), NOON + 3 * DAY)
    assert history.costs()["q"] == {"op 0 / part 0": 0.2}


def test_what_is_no_history_says_nothing() -> None:
    storage = MemoryStorage({"date=2026-11-24/a.parquet": b"no", "note.txt": b""})
    assert History(storage).costs() == {}


def test_a_storage_that_fails_says_nothing() -> None:
    assert History(HookedStorage(before=refuse("list"))).costs() == {}


def test_a_place_where_no_folder_can_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=re.escape("the history's folder")):
        History.at(str(tmp_path / "file" / "history"))
