"""What a restart reads of the logs before any state: offsets, and the logs of file sources."""

import json
from collections import Counter
from collections.abc import Iterable

import pytest

from statemaint.audit import doctor, verify
from statemaint.codec.metadata import logs
from statemaint.maintain import maintain
from statemaint.model.findings import Finding
from statemaint.model.policy import Policy
from statemaint.planning import plan_checkpoint
from statemaint.storage import MemoryStorage, ReadOnly
from tests.support.checkpoints import write_checkpoint
from tests.support.faults import HookedStorage, on

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0.0)
SEEN = b'v1\n{"path":"file:///in/a.json","timestamp":1,"batchId":1}'


def offsets(*sources: str, watermark: object = 0) -> bytes:
    head = {"batchWatermarkMs": watermark, "conf": {"spark.sql.shuffle.partitions": "2"}}
    return "\n".join(["v1", json.dumps(head), *sources]).encode()


def files(entry: int) -> str:
    return f'{{"logOffset":{entry}}}'


def with_sources(entries: Iterable[str], end: bytes, start: bytes) -> MemoryStorage:
    """Batches 16 to 24 are in the log; the source's own log has some entries."""
    storage = write_checkpoint(MemoryStorage())
    storage.write("offsets/23", [start], overwrite=True)
    storage.write("offsets/24", [end], overwrite=True)
    for name in entries:
        storage.write(f"sources/0/{name}", [SEEN])
    return storage


def damage(storage: MemoryStorage) -> list[Finding]:
    return [one for one in verify(storage).findings if one.damage]


def missing(entries: Iterable[str], last: int = 24, first: int = 23) -> list[str | None]:
    storage = with_sources(entries, offsets(files(last)), offsets(files(first)))
    found = damage(storage)
    assert {one.code.value for one in found} <= {"MISSING_SOURCE_LOG"}
    assert doctor(storage).restarts is (not found)
    return [one.path for one in found]


@pytest.mark.parametrize(
    ("entries", "lost"),
    [
        (["19.compact", "20", "21", "22", "23", "24"], []),
        (["19.compact", "20", "21", "22", "23", "24", "9.compact", "notes.txt"], []),
        (["24", "19.compact", "21", "22", "23"], ["sources/0/20"]),
        (["19.compact", "20", "21", "22", "23"], ["sources/0/24"]),
        ([], ["sources/0"]),
        (["19.compact", "20", "21", "22", "23", "24", "26"], ["sources/0/25"]),
        # Entries below the newest compact one are only read where a batch needs them.
        (["19.compact", "18", "20", "21", "22", "23", "24"], []),
    ],
)
def test_the_log_must_reach_from_the_newest_compact_entry(
    entries: list[str], lost: list[str]
) -> None:
    assert missing(entries) == lost


def test_a_batch_of_no_new_files_reads_no_entry() -> None:
    assert missing(["19.compact", "20", "21", "22", "23", "24"], last=24, first=24) == []


def test_entries_of_the_running_batch_are_read_below_the_compact_one_too() -> None:
    assert missing(["29.compact"], last=29, first=27) == ["sources/0/28"]


def test_an_entry_that_cannot_be_read_is_found_by_whoever_reads_it() -> None:
    storage = with_sources(["24", "23"], offsets(files(24)), offsets(files(23)))
    for number in range(23):
        storage.write(f"sources/0/{number}", [SEEN])
    assert damage(storage) == []
    for content in (b"v9\n{}", b"v1\n{cut", b"\xff", b"v1\n" + b"[" * 100_000):
        storage.write("sources/0/11", [content], overwrite=True)
        assert damage(storage) == [], "verify reads names alone"
        found = doctor(storage)
        assert [one.path for one in found.findings if one.damage] == ["sources/0/11"]
        assert (found.restarts, found.goes_back_to) == (False, None)


def test_a_line_that_names_no_file_is_not_read_to_its_end() -> None:
    """Somebody's 3 GiB of zeros took every look at a restart ten seconds."""
    storage = with_sources(["24", "23"], offsets(files(24)), offsets(files(23)))
    for number in range(23):
        storage.write(f"sources/0/{number}", [SEEN])
    storage.write("sources/0/11", [b"v1\n" + bytes(20 << 20)], overwrite=True)
    (found,) = [one for one in doctor(storage).findings if one.damage]
    assert found.path == "sources/0/11"
    assert "a line is longer than 4,194,304 bytes" in found.detail


def test_an_entry_that_was_compacted_since_is_no_damage() -> None:
    quiet = with_sources(["24"], offsets(files(24)), offsets(files(23)))
    for number in range(24):
        quiet.write(f"sources/0/{number}", [SEEN])
    purge = on("open", "sources/0/23", lambda: quiet.delete("sources/0/23"))
    storage = HookedStorage(quiet, before=purge)
    assert [one for one in doctor(ReadOnly(storage)).findings if one.damage] == []
    assert "sources/0/23" not in quiet.files


@pytest.mark.parametrize(
    ("end", "start", "path"),
    [
        (offsets(files(24)), offsets(files(23), "-"), "offsets/24"),
        (offsets('{"logOff'), offsets(files(23)), "offsets/24"),
        (offsets("-"), b"v1\n{", "offsets/23"),
        (offsets("-"), b"", "offsets/23"),
    ],
)
def test_a_cut_entry_of_the_newest_two_stops_a_restart(end: bytes, start: bytes, path: str) -> None:
    storage = with_sources([], end, start)
    (found,) = damage(storage)
    assert (found.code, found.path) == ("UNREADABLE_OFFSET", path)
    assert not doctor(storage).restarts


def test_other_sources_have_no_log_of_their_own() -> None:
    kafka = '{"topic":{"0":12}}'
    assert damage(with_sources([], offsets(kafka), offsets(kafka))) == []


def test_where_the_batch_before_is_not_listed_nothing_is_compared() -> None:
    storage = with_sources([], offsets(files(24)), offsets(files(23)))
    storage.delete("offsets/23")
    assert {one.path for one in damage(storage)} == {"offsets/23", "sources/0"}


@pytest.mark.parametrize(("watermark", "found"), [(5, 5), (0, 0), ("soon", 0), (None, 0)])
def test_an_entry_of_the_offset_log_is_parsed(watermark: object, found: int) -> None:
    entry = logs.parse_offsets(offsets(files(7), "-", '{"logOffset":"x"}', watermark=watermark))
    assert entry.watermark == found
    assert [entry.file_offset(one) for one in "0123"] == [7, None, None, None]


def named(**sources: str) -> bytes:
    """An entry of format 2, as Spark 4.3 writes it with `offsetLog.formatVersion` 2."""
    lines = [f"{source[1:]}:{said}" for source, said in sources.items()]
    return offsets(*lines).replace(b"v1", b"v2", 1)


def test_sources_that_are_named_by_an_id_have_a_log_as_well() -> None:
    end, start = named(_1='{"a":1}', _0=files(24)), named(_0=files(23))
    assert damage(with_sources(["22.compact", "23", "24"], end, start)) == []
    assert [one.path for one in damage(with_sources(["22.compact", "23"], end, start))] == [
        "sources/0/24"
    ]
    cut = named(_1="{}", _0="{")
    assert [one.path for one in damage(with_sources(["22.compact", "23", "24"], cut, start))] == [
        "offsets/24"
    ]


def test_an_entry_of_one_format_below_one_of_the_other_is_not_cut() -> None:
    end, start = named(_0=files(24), _1="{}"), offsets(files(23))
    assert damage(with_sources(["22.compact", "23", "24"], end, start)) == []


@pytest.mark.parametrize("source", ["../../0", "mine", "", "0/0"])
def test_a_source_that_is_no_number_is_looked_for_nowhere(source: str) -> None:
    end = named(**{f"_{source}": files(24)})
    assert damage(with_sources([], end, offsets("{}"))) == []


COMPLETE = ["19.compact", "20", "21", "22", "23", "24"]


@pytest.mark.parametrize("lost", COMPLETE[1:])
def test_a_run_beside_a_gap_in_a_source_log_is_halted_and_says_so(lost: str) -> None:
    entries = [one for one in COMPLETE if one != lost]
    storage = with_sources(entries, offsets(files(24)), offsets(files(23)))
    before = dict(storage.files)
    report = maintain(storage, TIGHT)
    assert [(one.code.value, one.path) for one in report.findings] == [
        ("MISSING_SOURCE_LOG", f"sources/0/{lost}")
    ]
    assert (report.exit_code, dict(storage.files)) == (3, before)


def test_a_run_beside_a_whole_source_log_maintains() -> None:
    storage = with_sources(COMPLETE, offsets(files(24)), offsets(files(23)))
    report = maintain(storage, TIGHT)
    assert (report.exit_code, report.snapshots_written, report.findings) == (0, 4, ())


def test_a_run_requires_no_entry_that_only_unknown_offsets_would_name() -> None:
    """The entry of the batch before is unreadable, which `verify` reports."""
    storage = with_sources(COMPLETE, offsets(files(24)), b"cut")
    assert maintain(storage, TIGHT).exit_code == 0


def test_a_run_of_a_query_without_file_sources_asks_for_no_source_log() -> None:
    plain, with_files = (
        with_sources(COMPLETE, offsets(source), offsets(source)) for source in ("5", files(24))
    )
    plan_checkpoint(plain, TIGHT)
    plan_checkpoint(with_files, TIGHT)
    more = Counter(with_files.requests) - Counter(plain.requests)
    assert more == {"list": 1}  # the offsets before are equal to the newest, by their tags


def test_an_entry_that_only_the_first_look_lacks_is_no_finding() -> None:
    quiet = with_sources(COMPLETE[:-1], offsets(files(24)), offsets(files(24)))
    appear = on("list", "sources/0", lambda: quiet.write("sources/0/24", [SEEN]), once=True)
    assert maintain(HookedStorage(quiet, after=appear), TIGHT).exit_code == 0
    assert "sources/0/24" in quiet.files
