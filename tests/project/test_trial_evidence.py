"""What the trial concludes from the files that appear and disappear."""

import json
from pathlib import Path

from tests.soak.evidence import deletions, lacking
from tests.soak.watch import Event

HOME = "state/0/1"
TABLE, OTHER = "000008-a.sst", "000009-b.sst"


def appears(at: float, name: str, tables: tuple[str, ...] | None = None) -> Event:
    return Event(at, f"{HOME}/{name}", appeared=True, tables=tables)


def goes(at: float, name: str) -> Event:
    return Event(at, f"{HOME}/{name}", appeared=False)


def lacked(events: list[Event]) -> list[tuple[str, str, float, float | None]]:
    found = lacking(events)
    return [(one["zip"], one["table"], one["since"], one["until"]) for one in found]


def test_a_zip_lacks_a_table_from_its_deletion_to_the_zips_own() -> None:
    events = [
        appears(1, f"SSTs/{TABLE}"),
        appears(2, "4.zip", (TABLE,)),
        goes(3, f"SSTs/{TABLE}"),
        goes(5, "4.zip"),
    ]
    assert lacked(events) == [(f"{HOME}/4.zip", f"{HOME}/SSTs/{TABLE}", 3, 5)]


def test_a_zip_may_come_without_its_table_and_stay_so() -> None:
    events = [appears(1, f"SSTs/{OTHER}"), appears(2, "4.zip", (TABLE, OTHER))]
    assert lacked(events) == [(f"{HOME}/4.zip", f"{HOME}/SSTs/{TABLE}", 2, None)]


def test_a_zip_that_is_replaced_needs_what_the_new_one_names() -> None:
    events = [
        appears(1, "4.zip", (TABLE,)),
        appears(2, f"SSTs/{OTHER}"),
        appears(3, "4.zip", (OTHER,)),
    ]
    assert lacked(events) == [(f"{HOME}/4.zip", f"{HOME}/SSTs/{TABLE}", 1, 3)]


def test_a_deletion_is_whose_ledger_or_log_names_it(tmp_path: Path) -> None:
    ledger = tmp_path / "checkpoint" / "_statemaint" / "ledger" / "0" / "1.jsonl"
    ledger.parent.mkdir(parents=True)
    line = {"action": "delete", "path": f"{HOME}/SSTs/{TABLE}", "reason": "orphan_sst", "time": 1}
    ledger.write_text(f"{json.dumps(line)}\n")
    said = "9 DEBUG [x] RocksDBFileManager StateStoreId[ operatorId=0, partitionId=1, store ]"
    (tmp_path / "spark-000.log").write_text(
        f"{said}: Deleted file {OTHER} that was last used in version 4\n{said}: Deleted version 4\n"
    )
    events = [goes(1, name) for name in (f"SSTs/{TABLE}", f"SSTs/{OTHER}", "4.zip", "5.zip")]
    found = [one["by"] for one in deletions(tmp_path, events)]
    assert found == ["ours", "spark", "spark", "unknown"]
