"""The exporter's picture: the records of all queries, each as old as it says."""

import pytest
from prometheus_client import generate_latest

from statemaint.errors import StorageError
from statemaint.maintain.record import write_record
from statemaint.metrics.exporter import Exporter, RecordPlace, RecordPlaces, served
from statemaint.metrics.families import families, registry_of
from statemaint.records.runs import METRICS
from statemaint.report.record import Record
from statemaint.storage import ReadOnly, Storage
from tests.support.metrics import Series, labelled, maintained, named, neglected, plain, series_of

NOW = 1_800_000_000.0


class Unsteady(ReadOnly):
    """A storage that fails while its query is among the failing ones."""

    def __init__(self, storage: Storage, query: str, fails: dict[str, Exception]) -> None:
        super().__init__(storage)
        self.query, self.fails = query, fails

    def read(self, path: str) -> bytes:
        if self.query in self.fails:
            raise self.fails[self.query]
        return super().read(path)


class World:
    """Checkpoints that may fail, a file of queries, and a clock."""

    def __init__(self, *queries: str) -> None:
        self.now = NOW
        self.storages = {query: neglected(NOW) for query in queries}
        self.fails: dict[str, Exception] = {}
        self.opened: list[str] = []
        self.place = "s3://lake"  # of all checkpoints
        self.exporter = Exporter(self.load, self.open, lambda: self.now, keep=900)

    def load(self) -> RecordPlaces:
        about = {query: named(query, interval=3600, storage=self.place) for query in self.storages}
        places = (RecordPlace(one, query) for query, one in about.items())
        return RecordPlaces(
            tuple(places), known=len(self.storages), problems=(("f", 1, "q"), ("f", 2, "q"))
        )

    def open(self, address: str) -> Storage:
        self.opened.append(address)
        return Unsteady(self.storages[address], address, self.fails)

    def run(self, query: str) -> Record:
        record = maintained(self.storages[query], self.now)
        write_record(self.storages[query], record)
        return record

    def shown(self, query: str = "q") -> Series:
        return series_of(self.text(), query)

    def text(self) -> str:
        return b"".join(self.exporter.page.plain(b"")).decode()


def test_the_exporter_shows_what_a_push_would_and_leaves_out_zeros() -> None:
    world = World("q", "other")
    record = world.run("q")
    world.exporter.refresh()
    pushed = series_of(
        generate_latest(registry_of(served(families(named(interval=3600), record)))).decode()
    )
    found = world.shown()
    assert {key: found[key] for key in pushed} == pushed
    assert {name for name, _ in set(found) - set(pushed)} == {
        "configuration_problem",
        "exporter_read_failed",
        "exporter_read_timestamp_seconds",
    }
    assert "statemaint_exporter_queries 2.0" in world.text()
    assert "statemaint_exporter_problems 2.0" in world.text()


def test_a_query_that_never_ran_is_known_with_its_interval() -> None:
    world = World("q")
    world.exporter.refresh()
    assert plain(world.shown()) == {
        "exporter_read_failed": 0,
        "exporter_read_timestamp_seconds": NOW,
        "expected_interval_seconds": 3600,
    }
    assert [labels for labels, _ in labelled(world.shown(), "query_info")]


def test_a_record_is_parsed_again_only_after_it_has_changed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World("q")
    world.storages["q"].replace(METRICS, [b"no record"])
    for _ in range(3):
        world.exporter.refresh()
    assert len(caplog.records) == 1
    world.run("q")
    world.exporter.refresh()
    assert plain(world.shown())["last_run_timestamp_seconds"] == NOW


def test_the_time_of_the_last_reading_is_shown_without_any_query() -> None:
    world = World()
    world.exporter.refresh()
    assert "statemaint_exporter_last_reading_timestamp_seconds 1.8e+09" in world.text()


@pytest.mark.parametrize("error", [StorageError("ck", "no answer"), RuntimeError("a fault")])
def test_a_query_that_cannot_be_read_says_so_at_once_and_goes_later(error: Exception) -> None:
    world = World("q", "fine")
    world.run("q")
    world.run("fine")
    world.exporter.refresh()
    world.fails["q"] = error
    world.now += 900
    world.exporter.refresh()
    assert plain(world.shown())["exporter_read_failed"] == 1
    assert plain(world.shown())["exporter_read_timestamp_seconds"] == NOW
    assert plain(world.shown())["last_run_timestamp_seconds"] == NOW
    world.now += 1
    world.exporter.refresh()
    assert "last_run_timestamp_seconds" not in plain(world.shown())
    assert plain(world.shown())["exporter_read_failed"] == 1
    assert plain(world.shown("fine"))["exporter_read_timestamp_seconds"] == NOW + 901


def test_a_query_that_leaves_the_file_leaves_no_series() -> None:
    world = World("q", "gone")
    world.run("gone")
    world.exporter.refresh()
    del world.storages["gone"]
    world.exporter.refresh()
    assert world.shown("gone") == {}


def test_the_exporter_reads_one_file_of_a_checkpoint_and_lists_nothing() -> None:
    world = World("q")
    world.run("q")
    storage = world.storages["q"]
    before = dict(storage.requests)
    world.exporter.refresh()
    asked = {verb: n - before.get(verb, 0) for verb, n in storage.requests.items()}
    assert {verb: n for verb, n in asked.items() if n} == {"read": 1}


def test_a_query_that_has_moved_and_cannot_be_read_names_its_new_storage() -> None:
    world = World("q")
    world.run("q")
    world.exporter.refresh()
    world.place, world.fails["q"] = "s3://moved", StorageError("ck", "no answer")
    world.exporter.refresh()
    [failed] = [line for line in world.text().splitlines() if "_read_failed{" in line]
    assert failed.endswith('storage="s3://moved"} 1.0')
    del world.fails["q"]
    world.exporter.refresh()
    assert "s3://lake" not in world.text()
