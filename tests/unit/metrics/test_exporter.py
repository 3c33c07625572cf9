"""The exporter's picture: the records of all queries, each as old as it says."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from statemaint.errors import StorageError
from statemaint.maintain.record import write_record
from statemaint.metrics.exporter import Exporter, RecordPlace, RecordPlaces
from statemaint.metrics.families import families, registry_of
from statemaint.report.record import Record
from statemaint.storage import MemoryStorage, Storage
from tests.support.metrics import Series, maintained, named, neglected, plain, series_of

NOW = 1_800_000_000.0


class World:
    """Checkpoints that may fail, a file of queries, and a clock."""

    def __init__(self, *queries: str) -> None:
        self.now = NOW
        self.storages = {one: neglected(NOW) for one in queries}
        self.fails: dict[str, Exception] = {}
        self.exporter = Exporter(self.load, lambda: self.now, keep=900)

    def load(self) -> RecordPlaces:
        return RecordPlaces(
            tuple(
                RecordPlace(named(one, interval=3600), lambda one=one: self.open(one))  # type: ignore[misc]
                for one in self.storages
            ),
            problems=2,
        )

    def open(self, query: str) -> Storage:
        if query in self.fails:
            raise self.fails[query]
        return self.storages[query]

    def run(self, query: str) -> Record:
        record = maintained(self.storages[query], self.now)
        write_record(self.storages[query], record)
        return record

    def shown(self, query: str = "q") -> Series:
        return series_of(self.text(), query)

    def text(self) -> str:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self.exporter)
        return generate_latest(registry).decode()


def test_it_shows_what_a_push_would() -> None:
    world = World("q", "other")
    record = world.run("q")
    world.exporter.refresh()
    pushed = series_of(
        generate_latest(registry_of(families(named(interval=3600), record))).decode()
    )
    found = world.shown()
    assert {key: found[key] for key in pushed} == pushed
    assert {name for name, _ in set(found) - set(pushed)} == {
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


def test_it_reads_one_file_of_a_checkpoint_and_lists_nothing() -> None:
    world = World("q")
    world.run("q")
    storage = world.storages["q"]
    before = dict(storage.requests)
    world.exporter.refresh()
    assert isinstance(storage, MemoryStorage)
    asked = {verb: n - before.get(verb, 0) for verb, n in storage.requests.items()}
    assert {verb: n for verb, n in asked.items() if n} == {"read": 1}
