"""Which queries need a run now."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from statemaint.errors import StorageError
from statemaint.maintain.record import write_record
from statemaint.queries.checks import expected_interval, newest_time
from statemaint.report.record import LastSavepoint, Record
from statemaint.spark import fleet as module
from statemaint.spark.fleet import Target, due_queries, fleet_of
from statemaint.storage import LocalStorage
from tests.support.queries import valid_queries

NOW = datetime(2026, 3, 2, 12, 30, tzinfo=UTC).timestamp()
HOUR = 3600.0
FILE = """
queries:
  hourly: {{checkpoint: "{0}/hourly", schedule: "@hourly"}}
  nightly: {{checkpoint: "{0}/nightly", schedule: "0 3 * * *",
             savepoint: {{to: "/backup/{{query}}/{{batch}}", schedule: "@weekly"}}}}
  by_hand: {{checkpoint: "{0}/by_hand"}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    for name in ("hourly", "nightly", "by_hand"):
        (tmp_path / name).mkdir()
    (tmp_path / "queries.yaml").write_text(FILE.format(tmp_path))
    return tmp_path / "queries.yaml"


def names(file: Path, verb: str = "maintain") -> set[str]:
    return {one.query for one in due_queries(valid_queries(file), fleet_of(file), verb, NOW)}


def succeeded(file: Path, query: str, ago: float) -> None:
    write_record(LocalStorage(file.parent / query), Record(None, success=NOW - ago))


def test_a_query_that_never_ran_is_due(file: Path) -> None:
    assert names(file) == {"hourly", "nightly", "by_hand"}


def test_a_query_is_due_once_its_schedule_has_had_a_time_since_its_last_good_run(
    file: Path,
) -> None:
    succeeded(file, "hourly", 0.4 * HOUR)
    succeeded(file, "nightly", 9 * HOUR)
    assert names(file) == {"by_hand"}
    succeeded(file, "hourly", 0.6 * HOUR)
    succeeded(file, "nightly", 10 * HOUR)
    assert names(file) == {"hourly", "nightly", "by_hand"}


def test_a_query_whose_runs_fail_is_due_until_one_is_good(file: Path) -> None:
    write_record(LocalStorage(file.parent / "hourly"), Record(None, success=None))
    assert "hourly" in names(file)


def test_savepoints_have_a_schedule_of_their_own(file: Path) -> None:
    succeeded(file, "nightly", 0.0)
    assert "nightly" in names(file, "savepoint")
    for ago, is_due in ((24 * HOUR, False), (48 * HOUR, True)):  # the week began 36.5 hours ago
        saved = LastSavepoint(ended=NOW - ago, batch=7, bytes=1, seconds=1.0)
        write_record(LocalStorage(file.parent / "nightly"), Record(None, savepoint=saved))
        assert ("nightly" in names(file, "savepoint")) is is_due


def test_in_doubt_a_query_is_due(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for query in ("hourly", "nightly", "by_hand"):
        succeeded(file, query, 0.0)
    assert names(file) == {"by_hand"}

    def unreadable(_: object) -> None:
        raise StorageError("_statemaint/metrics.json", "timed out")

    monkeypatch.setattr(module, "read_record", unreadable)
    assert names(file) == {"hourly", "nightly", "by_hand"}


def test_an_entry_with_a_mistake_is_due_so_that_it_is_told(file: Path) -> None:
    fleet = [Target("wrong", "", mistake="queries.yaml:3: wrong")]
    assert due_queries(valid_queries(file), fleet, "maintain", NOW) == fleet


@given(
    st.sampled_from(["@hourly", "@daily", "@quarterly", "*/7 * * * *", "0 3 * * 1,4"]),
    st.floats(1_600_000_000, 1_900_000_000),
)
@example("@hourly", 1_700_002_799.5)  # half a second before a full hour
def test_the_newest_time_is_at_most_an_interval_ago(schedule: str, now: float) -> None:
    found = newest_time(schedule, now)
    assert found is not None
    assert 0 <= now - found < (expected_interval(schedule) or 0)
    assert newest_time(schedule, found) == found


@pytest.mark.parametrize("schedule", [None, "@once"])
def test_without_a_schedule_there_is_no_time(schedule: str | None) -> None:
    assert newest_time(schedule, NOW) is None
