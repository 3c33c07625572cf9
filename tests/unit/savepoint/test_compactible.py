"""A file source's log after a batch, by a model of how Spark keeps and reads it."""

import json
import re
from dataclasses import dataclass

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from statemaint.errors import CheckpointError, CodecError, ConfigError, DamagedError
from statemaint.savepoint.compactible import add_to_sink_log, sink_log_of, source_log_of
from statemaint.storage import MemoryStorage

SOURCE = "sources/0"


def line(batch: int, number: int = 0) -> bytes:
    name = f"file:///in/{batch}-{number}.json"
    entry = {"path": name, "timestamp": batch, "batchId": batch}
    return json.dumps(entry, separators=(",", ":")).encode()


@dataclass
class SparkLog:
    """`CompactibleFileStreamLog` of a run that has begun with what is in a folder."""

    storage: MemoryStorage
    setting: int
    folder: str = SOURCE

    def __post_init__(self) -> None:
        self.interval = self._derived()

    def names(self) -> dict[int, str]:
        names = (path.removeprefix(f"{self.folder}/") for path in self.storage.files)
        return {int(name.removesuffix(".compact")): name for name in names}

    def compacts(self) -> list[int]:
        return sorted(number for number, name in self.names().items() if "." in name)

    def _derived(self) -> int:
        compacts = self.compacts()
        if not compacts:
            return self.setting
        if len(compacts) > 1:
            return compacts[-1] - compacts[-2]
        count = compacts[0] + 1
        if self.setting >= count / 2:
            return count
        return next(one for one in range(self.setting, count + 1) if count % one == 0)

    def _compacts(self, number: int) -> bool:
        return (number + 1) % self.interval == 0

    def _get(self, number: int) -> list[bytes]:
        name = f"{number}.compact" if self._compacts(number) else str(number)
        head, *lines = self.storage.read(f"{self.folder}/{name}").split(b"\n")
        assert head == b"v1"
        return lines

    def all_files(self) -> list[bytes]:
        newest = max(self.names(), default=-1)
        start = max(0, (newest + 1) // self.interval * self.interval - 1)
        return [one for number in range(start, newest + 1) for one in self._get(number)]

    def add(self, number: int, lines: list[bytes]) -> None:
        name = str(number)
        if self._compacts(number):
            before = range(max(0, number - self.interval), number)
            lines = [one for earlier in before for one in self._get(earlier)] + lines
            name = f"{number}.compact"
        self.storage.write(f"{self.folder}/{name}", [b"\n".join((b"v1", *lines))])

    def purge(self, newest: int, retain: int) -> None:
        first = newest + 1 - retain
        if self.interval <= first:
            for number, name in self.names().items():
                if number < first - first % self.interval - 1:
                    self.storage.delete(f"{self.folder}/{name}")


def lines_of(number: int) -> list[bytes]:
    return [line(number, one) for one in range(1 + number % 3)]


def written(setting: int, newest: int, retain: int) -> SparkLog:
    log = SparkLog(MemoryStorage(), setting)
    for number in range(newest + 1):
        log.add(number, lines_of(number))
        log.purge(number, retain)
    return log


def saved(source: MemoryStorage, first: int, last: int) -> MemoryStorage:
    to = MemoryStorage()
    for path, chunks in source_log_of(source, "0", first, last):
        to.write(path, chunks)
    return to


def true_lines(last: int) -> list[bytes]:
    return [one for number in range(last + 1) for one in lines_of(number)]


@given(
    setting=st.integers(1, 12),
    newest=st.integers(0, 60),
    retain=st.integers(1, 40),
    back=st.integers(0, 60),
)
def test_a_restart_finds_exactly_what_the_batch_had_read_and_compacts_on(
    setting: int, newest: int, retain: int, back: int
) -> None:
    source = written(setting, newest, retain)
    last = max(newest - back, 0)
    to = SparkLog(saved(source.storage, last - 1, last), setting)
    assert max(to.names()) == last
    assert to.all_files() == true_lines(last)
    for number in range(last + 1, last + 2 * to.interval + 2):
        to.add(number, lines_of(number))
        assert to.all_files() == true_lines(number)
    assert all((number + 1) % to.interval == 0 for number in to.compacts())


@given(
    setting=st.integers(1, 12),
    newest=st.integers(0, 60),
    retain=st.integers(13, 40),
    other=st.integers(1, 99),
)
def test_the_interval_of_the_source_stays_whatever_the_session_says(
    setting: int, newest: int, retain: int, other: int
) -> None:
    source = written(setting, newest, retain)
    compacts = source.compacts()
    assume(len(compacts) > 1)
    to = SparkLog(saved(source.storage, newest - 1, newest), other)
    assert to.interval == source.interval == setting
    assert to.all_files() == true_lines(newest)


def test_only_the_newest_compact_entry_is_copied_whole() -> None:
    source = written(10, 42, 100)
    to = saved(source.storage, 41, 42)
    names = {path: len(content) for path, content in to.files.items()}
    assert sorted(names) == [
        f"{SOURCE}/{one}" for one in ("29.compact", "39.compact", "40", "41", "42")
    ]
    assert names[f"{SOURCE}/29.compact"] == len(b"v1")


def test_entries_below_the_newest_compact_one_are_kept_for_the_batch_that_has_read_them() -> None:
    source = written(10, 20, 100)
    names = SparkLog(saved(source.storage, 16, 19), 10).names()
    assert sorted(names) == [9, 17, 18, 19]
    assert saved(source.storage, 5, 19).files.keys() >= {f"{SOURCE}/9.compact"}
    whole = saved(source.storage, 5, 19).read(f"{SOURCE}/9.compact")
    assert whole == source.storage.read(f"{SOURCE}/9.compact")


def test_a_missing_entry_is_named() -> None:
    source = written(10, 14, 100)
    source.storage.delete(f"{SOURCE}/12")
    with pytest.raises(DamagedError, match=f"^{SOURCE}/12: .*is missing.*put it back") as caught:
        saved(source.storage, 13, 14)
    assert caught.value.code == "MISSING_SOURCE_LOG"


def test_a_missing_entry_is_made_of_a_compact_one_above() -> None:
    source = written(10, 19, 100)
    source.storage.delete(f"{SOURCE}/12")
    assert SparkLog(saved(source.storage, 13, 14), 10).all_files() == true_lines(14)


def test_a_compact_entry_that_lacks_lines_is_damage() -> None:
    source = written(10, 19, 100).storage
    source.delete(f"{SOURCE}/12")
    compact = f"{SOURCE}/19.compact"
    kept = [one for one in source.read(compact).split(b"\n") if b'"batchId":12}' not in one]
    source.write(compact, [b"\n".join(kept)], overwrite=True)
    with pytest.raises(DamagedError, match="no line of an entry between 10 and 14"):
        saved(source, 13, 14)


@pytest.mark.parametrize("content", [b"", b"v2\n", b"v1\n{", b"v1\n[]", b'v1\n{"batchId":"x"}'])
def test_a_compact_entry_that_cannot_be_read_is_named(content: bytes) -> None:
    source = MemoryStorage({f"{SOURCE}/9.compact": content})
    with pytest.raises(CodecError, match=rf"^{SOURCE}/9\.compact"):
        saved(source, 2, 3)


def test_numbers_without_files_cost_nothing() -> None:
    huge = 10**17
    with pytest.raises(DamagedError, match=rf"{SOURCE}/{huge}"):
        saved(written(10, 14, 100).storage, huge - 1, huge)
    source = MemoryStorage({f"{SOURCE}/{huge}.compact": b"v1"})
    with pytest.raises(DamagedError, match="no line of an entry"):
        saved(source, huge - 3, huge - 2)


@given(batch=st.integers(0, 1200), setting=st.integers(10, 99))
@example(batch=19, setting=1)
@example(batch=24, setting=7)
def test_a_new_sink_skips_what_was_written_and_compacts_on(batch: int, setting: int) -> None:
    log = SparkLog(MemoryStorage(), setting, "_spark_metadata")
    for path, chunks in sink_log_of(batch):
        log.storage.write(path, chunks)
    log = SparkLog(log.storage, setting, "_spark_metadata")
    assert max(log.names()) == batch
    assert log.all_files() == []
    last = batch + 2 * log.interval + 1
    for number in range(batch + 1, last + 1):
        log.add(number, lines_of(number))
    expected = [one for number in range(batch + 1, last + 1) for one in lines_of(number)]
    assert log.all_files() == expected
    assert all(re.fullmatch(r"\d+(\.compact)?", name) for name in log.names().values())


# -- batches that are added to the log of a file sink

SINK = "_spark_metadata"


def sink_of(batches: int, setting: int = 10) -> MemoryStorage:
    storage = MemoryStorage()
    for batch in range(batches):
        SparkLog(storage, setting, SINK).add(batch, [line(batch)])
    return storage


@given(st.lists(st.sampled_from(["spark", "ours", "purge"]), max_size=60))
@example(["spark"] * 8 + ["ours"] + ["spark"] * 9 + ["ours", "spark"])
@example(["spark"] * 19 + ["purge", "ours"] + ["spark"] * 30)
def test_a_sink_reads_all_files_beside_batches_that_were_added(steps: list[str]) -> None:
    storage, batch, lines = sink_of(1), 0, [line(0)]
    for step in steps:
        spark = SparkLog(storage, 10, SINK)
        if step == "purge":
            spark.purge(batch, 1)
            continue
        batch += 1
        if step == "ours":
            add_to_sink_log(storage, batch)
            add_to_sink_log(storage, batch)
        else:
            spark.add(batch, [line(batch)])
            lines.append(line(batch))
        assert SparkLog(storage, 10, SINK).all_files() == lines


def test_the_interval_of_a_sink_is_that_of_its_compact_entries() -> None:
    storage = sink_of(8, setting=3)
    add_to_sink_log(storage, 8)
    assert SparkLog(storage, 3, SINK).all_files() == [line(batch) for batch in range(8)]
    assert storage.files[f"{SINK}/8.compact"].count(b"\n") == 8


@pytest.mark.parametrize(
    ("batches", "text"),
    [(0, "has no entries, where batch 5 follows batch 4"), (7, "has 6 as its newest entry")],
)
def test_the_sink_of_another_query_is_refused(batches: int, text: str) -> None:
    storage = sink_of(batches)
    before = dict(storage.files)
    with pytest.raises(ConfigError, match=text):
        add_to_sink_log(storage, 5)
    assert storage.files == before


def test_an_entry_with_output_is_not_the_one_of_a_batch_without_any() -> None:
    storage = sink_of(6)
    before = dict(storage.files)
    with pytest.raises(ConfigError, match=f"{SINK}/5 has output of a batch 5 that was rolled back"):
        add_to_sink_log(storage, 5)
    assert storage.files == before
    storage.delete(f"{SINK}/5")
    add_to_sink_log(storage, 5)
    assert SparkLog(storage, 10, SINK).all_files() == [line(batch) for batch in range(5)]


def test_a_sink_that_lacks_an_entry_gets_no_compact_one() -> None:
    storage = sink_of(9)
    storage.delete(f"{SINK}/4")
    with pytest.raises(CheckpointError, match=f"{SINK}/4: it is missing"):
        add_to_sink_log(storage, 9)
    assert f"{SINK}/9.compact" not in storage.files
