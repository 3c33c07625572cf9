"""What whoever is on call is told."""

import hashlib
import json
import time
from dataclasses import replace

import pytest

from statemaint.audit import doctor, verify
from statemaint.cli.doctor import doctor_json, lines
from statemaint.codec.integrity.checksum_file import hadoop
from statemaint.codec.rocksdb.snapshot_zip import ImmutableFile, parse_metadata
from statemaint.errors import ConfigError
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.storage import MemoryStorage
from tests.checkpoints.archive import contents
from tests.matrix.test_damage import BY_NAME, CASES, ROCKS, maintained, spoiled
from tests.support.checkpoints import (
    changes,
    delta_bytes,
    snapshot_bytes,
    state_at,
    write_checkpoint,
)
from tests.support.event_logs import restart_log

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0)


def said(storage: MemoryStorage, slots: int = 4) -> dict[str, str]:
    found = doctor(storage, slots=slots)
    labelled = (line.partition(":") for line in lines(found) if line[0] != " ")
    return {label: text.strip() for label, _, text in labelled}


def test_a_neglected_checkpoint_restarts_and_should_be_maintained(storage: MemoryStorage) -> None:
    found = doctor(storage)
    assert (found.restarts, found.loadable) == (True, tuple(range(16, 25)))
    text = said(storage)
    assert text["restart"] == "yes, after batch 24 (state version 25)"
    assert text["batches"] == "16 to 24 load in every store"
    assert text["chain"].startswith("at most 25 files of changes, without a snapshot (op 0 / part ")
    assert text["damage"] == "none"
    assert text["next"].startswith("run `statemaint maintain`")


def test_a_maintained_one_has_nothing_to_do(storage: MemoryStorage) -> None:
    maintain(storage, TIGHT)
    text = said(storage)
    assert text["next"] == "nothing"
    assert text["chain"].startswith("at most 0 files")
    assert len(list(lines(doctor(storage)))) <= 10


def test_the_time_of_a_restart_is_a_range_now_and_after_maintenance(storage: MemoryStorage) -> None:
    found = doctor(storage, slots=2)
    # The checkpoint is small: only a slow computer shows the difference.
    found = replace(found, forecast=replace(found.forecast, percent=1_000_000))
    assert found.load
    now, after = (found.forecast.seconds(load) for load in (found.load, found.load_after))
    warm = found.forecast.seconds(found.load, warm=True)
    assert after.high < now.high
    (text,) = (line for line in lines(found) if line.startswith("time:"))
    assert text == (
        f"time:     restarts in {now}; after `maintain` {after} (Spark 3.5.9, 2 slots, new "
        f"process; {warm} in a running one)"
    )
    shown = doctor_json(found)["restart_forecast"]
    assert shown["seconds"] == (now.low, now.high)
    assert shown["seconds_after_maintain"] == (after.low, after.high)
    assert (shown["stores"], shown["change_files"]) == (2, 50)
    records = sum(len(changes(version, part)) for version in range(1, 26) for part in (0, 1))
    assert shown["change_records"] == pytest.approx(records, rel=0.2)


def restarted(seconds: float, slots: int = 2, version: int = 25) -> MemoryStorage:
    """Returns an event log with a restart at a version, after its files were written."""
    return MemoryStorage({"app-1": restart_log(version, time.time() + 60, seconds, slots)})


def test_the_time_after_maintenance_is_shown_where_it_differs(storage: MemoryStorage) -> None:
    assert "; after" not in said(storage)["time"]


def test_past_restarts_correct_the_forecast(storage: MemoryStorage) -> None:
    plain = doctor(storage, slots=3)
    assert plain.load
    expected = plain.forecast.seconds(plain.load)
    found = doctor(storage, event_logs=restarted(3 * expected.middle, slots=3))
    assert found.load
    assert (found.forecast.slots, found.forecast.percent) == (3, 300)
    assert found.forecast.seconds(found.load).low == pytest.approx(3 * expected.low, rel=0.01)
    text = next(line for line in lines(found) if line.startswith("past:"))
    assert text.endswith("set restart_percent: 300 for `restart_within`")
    assert [it["version"] for it in doctor_json(found)["restart_forecast"]["past_restarts"]] == [25]


def test_a_past_restart_whose_files_are_gone_corrects_nothing(storage: MemoryStorage) -> None:
    found = doctor(storage, event_logs=restarted(60.0, version=900))
    assert (found.forecast.percent, found.ratios, len(found.past or ())) == (100, (), 1)
    assert "no longer there" in next(line for line in lines(found) if line.startswith("past:"))


def test_a_batch_of_another_history_corrects_nothing_however_late_it_is(
    storage: MemoryStorage,
) -> None:
    found = doctor(storage, event_logs=restarted(60.0, version=10**12))
    assert (found.forecast.percent, found.ratios) == (100, ())


def test_event_logs_of_other_queries_correct_nothing(storage: MemoryStorage) -> None:
    storage.replace("metadata", [b'{"id":"another"}'])
    found = doctor(storage, event_logs=restarted(60.0))
    assert (found.forecast.percent, found.past) == (100, ())
    assert "past:     no restart of this query is in the event logs" in lines(found)


def test_a_folder_without_event_logs_is_refused(storage: MemoryStorage) -> None:
    with pytest.raises(ConfigError, match="no event log of Spark is there"):
        doctor(storage, event_logs=MemoryStorage())


def test_a_query_that_does_not_restart_has_no_time(storage: MemoryStorage) -> None:
    stuck = replace(doctor(storage), resumable=False)
    assert not any(line.startswith("time:") for line in lines(stuck))
    assert doctor_json(stuck)["restart_forecast"] is None


def test_the_longest_chain_is_counted_with_the_tables_that_its_zip_refers_to() -> None:
    storage = MemoryStorage(maintained(ROCKS))
    found = doctor(storage)
    assert found.longest
    folder = found.longest.id.directory
    sizes = {entry.path: entry.size for entry in storage.list("state")}
    read = [
        f"{folder}/13.zip",
        *(f"{folder}/SSTs/{one.stored}" for one in tables(storage, f"{folder}/13.zip")),
    ]
    assert doctor_json(found)["longest_chain"] == {
        "operator": 0, "partition": found.longest.id.partition, "store": "default", "deltas": 0,
        "files": 1, "bytes": sum(sizes[path] for path in read), "seconds": None,
    }  # fmt: skip


def written(last: int) -> MemoryStorage:
    """Two partitions with all of their batches in the log."""
    return write_checkpoint(MemoryStorage(), last=last, batches=range(last))


def noise(size: int) -> bytes:
    return hashlib.shake_128(b"noise").digest(size)


def tables(storage: MemoryStorage, path: str) -> tuple[ImmutableFile, ...]:
    return parse_metadata(storage.read(path)).ssts


def test_what_lies_behind_a_lost_delta_is_left_out(storage: MemoryStorage) -> None:
    storage.delete("state/0/1/22.delta")
    found = doctor(storage)
    assert (found.restarts, found.loadable) == (False, tuple(range(16, 21)))
    text = said(storage)
    assert text["restart"] == "NO: the state of batch 24, the last committed one, does not load"
    assert text["batches"] == "16 to 20 load in every store; 4 more in the commit log do not"
    assert text["damage"] == "BROKEN_CHAIN (1)"
    assert found.goes_back_to == 20
    assert found.next[-1] == (
        "or go back: `statemaint savepoint URI DEST --batch 20`, which only reads this, or "
        "`statemaint rollback --to-batch 20`, the newest batch that loads in every "
        "store"
    )


def test_no_savepoint_is_named_that_would_be_refused(storage: MemoryStorage) -> None:
    storage.delete("state/0/1/18.delta")  # the savepoint of batch 16 needs the offsets of 15
    found = doctor(storage)
    assert found.next[-1].startswith("or go back: `statemaint rollback --to-batch 16`")
    assert not any("savepoint" in one for one in found.next)


def test_two_damaged_files_of_a_store_are_both_named(storage: MemoryStorage) -> None:
    for version in (18, 23):
        storage.write(f"state/0/0/{version}.delta", [b"nothing of the kind"], overwrite=True)
    found = doctor(storage)
    assert found.loadable == (16,)
    assert {one.path for one in found.findings} == {"state/0/0/18.delta", "state/0/0/23.delta"}


def test_what_lies_within_a_file_is_seen_although_it_begins_and_ends_well() -> None:
    """The disk itself has flipped a bit: no time and no tag says so."""
    storage = write_checkpoint(MemoryStorage(clock=lambda: 1000.5, tagged=False))
    maintain(storage, TIGHT)
    path = "state/0/1/17.snapshot"
    content = bytearray(storage.read(path))
    content[40] ^= 1
    storage.write(path, [bytes(content)], overwrite=True)
    assert verify(storage).healthy, "its attestation is still of this file"
    found = doctor(storage)
    assert [one.path for one in found.findings] == [path]
    assert found.loadable == (24,)


def test_a_hole_between_batches_is_shown_as_one(storage: MemoryStorage) -> None:
    maintain(storage, TIGHT)
    storage.delete("state/0/1/20.delta")
    assert said(storage)["batches"] == (
        "16 to 18, 24 load in every store; 5 more in the commit log do not"
    )
    assert doctor(storage).restarts


def test_logs_that_a_restart_reads_first_stop_it(storage: MemoryStorage) -> None:
    storage.delete("offsets/18")
    assert doctor(storage).restarts, "an older batch is only for going back"
    storage.delete("offsets/23")
    assert said(storage)["restart"] == "NO: MISSING_OFFSET"


def test_an_older_commit_stops_no_restart_and_the_newest_does(storage: MemoryStorage) -> None:
    storage.write("commits/18", [b"v1\n{"], overwrite=True)
    assert doctor(storage).restarts
    storage.write("commits/24", [b"v1\n{"], overwrite=True)
    assert said(storage)["restart"] == "NO: UNREADABLE_COMMIT"


@pytest.mark.parametrize(
    ("path", "restarts"),
    [
        ("metadata", False),
        ("state/0/_metadata/metadata", True),
        ("state/0/_metadata/v2/3", False),
        ("state/0/0/_metadata/schema", False),
    ],
)
def test_only_metadata_of_an_operator_of_the_first_format_are_not_read(
    storage: MemoryStorage, path: str, *, restarts: bool
) -> None:
    storage.write(path, [b"cut"], overwrite=True)
    found = doctor(storage)
    assert ("UNREADABLE_METADATA", path) in [(one.code, one.path) for one in found.findings]
    assert found.restarts is restarts


def test_a_restart_that_would_be_silently_wrong_is_none(storage: MemoryStorage) -> None:
    storage.write("state/0/0/26.snapshot", [snapshot_bytes(state_at(25))])
    assert said(storage)["restart"] == "NO: SNAPSHOT_ABOVE_TARGET"


def test_before_the_first_commit_there_is_nothing_to_lose() -> None:
    storage = written(last=1)
    storage.delete("commits/0")
    text = said(storage)
    assert text["restart"] == "yes, from the beginning: nothing is committed yet"
    assert text["chain"] == "none to read"


def test_without_any_commit_the_newest_planned_batch_runs_again(storage: MemoryStorage) -> None:
    for batch in range(16, 25):
        storage.delete(f"commits/{batch}")
    text = said(storage)
    assert text["restart"] == "yes, after batch 23 (state version 24)"
    assert text["damage"] == "MISSING_COMMIT (1)"
    storage.delete("state/0/1/24.delta")
    assert said(storage)["restart"] == (
        "NO: the state of batch 23, which the next one reads, does not load"
    )


@pytest.mark.parametrize("case", CASES)
def test_the_doctor_has_an_answer_to_every_damage(case: tuple[str, str]) -> None:
    kind, damage = case[0], BY_NAME[case[1]]
    healthy = doctor(MemoryStorage(maintained(kind)))
    assert healthy.restarts
    storage, _ = spoiled(damage, kind)
    found = doctor(storage, deep=True)
    assert found.counts
    assert set(found.loadable) <= set(healthy.loadable)
    assert found.next != ("nothing",)
    assert 5 < len(list(lines(found))) <= 12
    assert json.loads(json.dumps(doctor_json(found)))["restarts"] is found.restarts


def test_a_checksum_of_hadoop_that_does_not_fit_leaves_a_doubt(storage: MemoryStorage) -> None:
    """Spark reads the files of an HDFS-backed store without it: a wrong file loads as well."""
    storage.write("state/0/1/22.delta", [delta_bytes([(b"another1", bytes(8))])], overwrite=True)
    storage.write("state/0/1/.22.delta.crc", [hadoop(b"what was there before")])
    found = doctor(storage)
    (stale,) = [one for one in found.findings if one.damage]
    assert (stale.code, stale.batches) == ("STALE_CHECKSUM", (21, 22, 23, 24))
    assert (found.restarts, found.doubtful, found.goes_back_to) == (True, True, 20)
    assert said(storage)["restart"] == (
        "yes, after batch 24 (state version 25), with wrong rows if the file that does not fit its "
        "checksum is wrong"
    )
    assert "--to-batch 20" in found.next[-1]


def test_where_rows_are_wrong_it_names_the_newest_batch_whose_rows_are_right() -> None:
    files = dict(contents("4.3.0")["aggregation2"])
    newest = max(doctor(MemoryStorage(files)).loadable)
    for name in (f"{newest}.delta", f".{newest}.delta.crc"):
        one, other = f"state/0/0/{name}", f"state/0/1/{name}"
        files[one], files[other] = files[other], files[one]
    storage = MemoryStorage(files)
    # All of it loads: only a deep look sees that rows are out of place.
    shallow, found = doctor(storage), doctor(storage, deep=True)
    assert (shallow.misplaced, shallow.goes_back_to) == (False, newest)
    assert (found.misplaced, found.restarts, found.goes_back_to) == (True, True, newest - 2)
    first = next(lines(found))
    assert first == (
        f"restart:  yes, after batch {newest} (state version {newest + 1}), "
        "but with rows out of place"
    )
    assert found.next[-1] == (
        f"or go back: `statemaint savepoint URI DEST --batch {newest - 2}`, which only reads this, "
        f"or `statemaint rollback --to-batch {newest - 2}`, the newest batch that loads "
        "in every store with all rows in their place"
    )


def test_where_no_batch_has_its_rows_in_place_there_is_none_to_go_back_to() -> None:
    files = {
        path.replace("state/0/0/", "state/0/x/").replace("state/0/1/", "state/0/0/")
        .replace("state/0/x/", "state/0/1/"): content
        for path, content in contents("4.3.0")["aggregation2"].items()
    }  # fmt: skip
    schema = "state/0/1/_metadata/schema"
    files[schema.replace("/1/", "/0/")] = files.pop(schema)
    found = doctor(MemoryStorage(files), deep=True)
    assert (found.misplaced, found.right, found.goes_back_to) == (True, (), None)
