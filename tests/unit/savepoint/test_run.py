"""A savepoint is whole or not startable, wherever its run is killed; the same call completes it."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from statemaint.audit import digest_stores, verify
from statemaint.errors import (
    CheckpointError,
    ConfigError,
    DamagedError,
    LeaseHeldError,
    LeaseLostError,
    StorageError,
    Superseded,
)
from statemaint.execute.lease import leased
from statemaint.maintain import maintain
from statemaint.records.claims import Holder
from statemaint.records.pins import read_pins
from statemaint.records.savepoints import SAVEPOINT, STORES, read_savepoint, write_savepoint
from statemaint.savepoint import savepoint
from statemaint.savepoint.run import UNFINISHED
from statemaint.storage import LocalStorage, MemoryStorage, Storage
from tests.support.archived import archived
from tests.support.checkpoints import TIGHT, delta_bytes, write_checkpoint
from tests.support.faults import (
    Clock,
    Crash,
    CrashingStorage,
    FailingStorage,
    HookedStorage,
    each_crash,
    survived,
)

HDFS = ("4.3.0", "aggregation2")
KINDS = [HDFS, ("rocks-4.3.0", "rocks-aggregation-ids")]


READS = ("list", "stat", "read", "open")


class Source(HookedStorage):
    """A checkpoint at an address of its own."""

    @property
    def root(self) -> str:
        return "memory:source"


class Linked(MemoryStorage):
    """A folder by another of its addresses."""

    @property
    def root(self) -> str:
        return "memory:link"


@pytest.fixture(params=KINDS, ids=lambda one: one[1])
def source(request: pytest.FixtureRequest) -> Source:
    return Source(archived(request.param).files)


@pytest.fixture
def hdfs() -> Source:
    return Source(archived(HDFS).files)


def newest(storage: Storage) -> int:
    return max(int(one.path[8:]) for one in storage.list("commits"))


def has_true_metadata(storage: MemoryStorage) -> bool:
    return storage.files.get("metadata", UNFINISHED) != UNFINISHED


def may_start(storage: MemoryStorage) -> bool:
    """Returns whether some Spark would start from it: with true metadata, or none beside others."""
    if "metadata" in storage.files:
        return has_true_metadata(storage)
    return any(not path.startswith("_statemaint/") for path in storage.files)


def test_a_killed_savepoint_does_not_start_and_the_same_call_completes_it(source: Source) -> None:
    clock, expected, before = Clock(), digest_stores(source), source.files
    empty, whole = MemoryStorage(clock=clock), 0
    for _, left in each_crash(empty, clock, lambda dest: savepoint(source, dest)):
        whole += has_true_metadata(left)
        if not has_true_metadata(left):
            assert not may_start(left)
            savepoint(source, left)
        assert digest_stores(left) == expected
        assert verify(left, deep=True).findings == ()
    assert whole
    assert source.files == before


def test_a_continued_savepoint_writes_only_the_stores_that_are_left(source: Source) -> None:
    clock = Clock()
    continued = set()
    for _, left in each_crash(
        MemoryStorage(clock=clock), clock, lambda dest: savepoint(source, dest)
    ):
        if not has_true_metadata(left):
            report = savepoint(source, left)
            continued.add(report.continued)
            stores = [one.files for one in report.note.stores]
            old = [all(left._files[path][1] < clock.now for path in files) for files in stores]
            assert old.count(True) == report.continued
    assert continued == {*range(report.stores + 1)}


def test_a_savepoint_is_completed_under_another_address_of_its_folder() -> None:
    clock, source = Clock(), Source(archived(KINDS[1]).files)
    for _, left in each_crash(MemoryStorage(clock=clock), clock, lambda d: savepoint(source, d)):
        linked = Linked(left.files, clock=clock)
        savepoint(source, linked, batch=newest(source))
        assert verify(linked, deep=True).findings == ()


def test_a_store_of_another_savepoint_in_the_same_folder_is_written_again(hdfs: Source) -> None:
    clock = Clock()
    killed = each_crash(MemoryStorage(clock=clock), clock, lambda dest: savepoint(hdfs, dest))
    played = 0
    for _, dest in killed:
        note = read_savepoint(dest)
        if note is None or note.ended is not None or not any(dest.list(STORES)):
            continue
        played += 1
        witness = note.witness
        for entry in [*dest.list(STORES)]:
            content = dest.read(entry.path)
            assert witness.encode() in content
            dest.replace(entry.path, [content.replace(witness.encode(), b"of a batch before")])
        assert savepoint(hdfs, dest).continued == 0
        assert digest_stores(dest) == digest_stores(hdfs)
    assert played


def test_a_savepoint_of_many_stores_records_several_at_a_time_and_repeats_few() -> None:
    clock, source = Clock(), Source()
    write_checkpoint(source, partitions=100, last=3)
    dest = HookedStorage(clock=clock)
    savepoint(source, dest)
    records = [one for one in dest.paths("write") if one.startswith("_statemaint/savepoint/")]
    assert 9 < len(records) < 40
    crashing = CrashingStorage({}, at=100, after=True, clock=clock)
    with pytest.raises(Crash):
        savepoint(source, crashing)
    clock.now += 120
    left = survived(crashing, clock, MemoryStorage)
    stores = sum(path.endswith(".snapshot") for path in left.files)
    report = savepoint(source, left)
    assert stores * 8 / 9 - 1 <= report.continued < stores
    assert digest_stores(left) == digest_stores(source)


def test_a_refused_write_leaves_nothing_that_starts(hdfs: Source) -> None:
    clock, expected = Clock(), digest_stores(hdfs)
    for after in (False, True):
        for at in range(40):
            dest = FailingStorage({}, at=at, after=after, clock=clock)
            try:
                savepoint(hdfs, dest)
            except StorageError:
                assert not may_start(dest) or digest_stores(dest) == expected
                clock.now += 120
                if not has_true_metadata(dest):
                    savepoint(hdfs, dest)
            assert digest_stores(dest) == expected


def test_two_runs_do_not_write_one_savepoint(hdfs: Source) -> None:
    dest = MemoryStorage(clock=Clock())
    with leased(dest, Holder("another")), pytest.raises(LeaseHeldError):
        savepoint(hdfs, dest)
    assert all(path.startswith("_statemaint/lease/") for path in dest.files)


@pytest.mark.parametrize("purged", [False, True])
def test_a_query_that_cleans_up_makes_it_start_over(*, purged: bool) -> None:
    """It is of the batch that it began with as long as that is committed, else of a newer one."""
    later = archived(HDFS)
    last = newest(later)
    hidden = (f"offsets/{last}", f"commits/{last}", f"{last + 1}.delta")
    earlier = {path: one for path, one in later.files.items() if not path.endswith(hidden)}

    def clean_up(verb: str, path: str) -> None:
        if (verb, path) == ("open", "state/0/0/2.delta") and newest(query) < last:
            assert maintain(later, TIGHT).files_deleted
            for number in range(last if purged else 0):
                later.delete(f"commits/{number}")
            query._files = later._files

    query = Source(earlier, before=clean_up)
    dest = MemoryStorage(clock=Clock())
    report = savepoint(query, dest)
    saved = last if purged else last - 1
    assert (report.note.batch, report.starts) == (saved, 2)
    assert digest_stores(dest) == digest_stores(later, version=saved + 1)
    assert verify(dest, deep=True).findings == ()


def test_a_query_that_always_cleans_up_is_told_which_setting_helps(hdfs: Source) -> None:
    def gone(verb: str, path: str) -> None:
        if verb == "open" and path.endswith(".delta"):
            raise Superseded(path, "is missing")

    hdfs.before = gone
    dest = MemoryStorage(clock=Clock())
    with pytest.raises(Superseded) as caught:
        savepoint(hdfs, dest)
    assert "minBatchesToRetain" in caught.value.__notes__[0]
    assert not may_start(dest)


def test_what_is_being_saved_is_pinned_until_it_ends(source: Source) -> None:
    pins: list[tuple[int | None, str]] = []

    def look(verb: str, path: str) -> None:
        if verb == "open" and path.startswith("state/"):
            pins.extend((pin.batch, pin.by) for pin in read_pins(MemoryStorage(source.files)))

    source.before = look
    savepoint(source, MemoryStorage(clock=Clock()))
    assert {*pins} == {(newest(source), "savepoint to memory:")}
    assert read_pins(source) == ()
    pins.clear()
    savepoint(source, MemoryStorage(clock=Clock()), pin=False)
    assert not pins


def test_without_the_right_to_write_there_the_flag_is_named(hdfs: Source) -> None:
    def refuse(verb: str, path: str) -> None:
        if verb == "write":
            raise StorageError(path, "Permission denied")

    hdfs.before = refuse
    dest = MemoryStorage(clock=Clock())
    with pytest.raises(StorageError, match="Permission denied") as caught:
        savepoint(hdfs, dest)
    assert "--no-pin" in caught.value.__notes__[0]
    assert not may_start(dest)
    assert savepoint(hdfs, dest, pin=False).note.ended is not None


def test_a_folder_with_other_files_is_refused_and_left_as_it_was(hdfs: Source) -> None:
    dest = MemoryStorage({"notes.txt": b"mine"})
    with pytest.raises(ConfigError, match=r"not empty, it has notes\.txt"):
        savepoint(hdfs, dest)
    assert dest.files == {"notes.txt": b"mine"}


def test_a_whole_savepoint_is_left_as_it_is(hdfs: Source) -> None:
    dest = MemoryStorage(clock=Clock())
    batch = savepoint(hdfs, dest).note.batch
    before = dest.files
    again = savepoint(hdfs, dest, batch=batch)
    assert (again.continued, again.note) == (again.stores, read_savepoint(dest))
    for other in (None, batch - 1):
        with pytest.raises(ConfigError, match=f"has the savepoint of batch {batch} already"):
            savepoint(hdfs, dest, batch=other)
    assert dest.files == before


def test_one_that_another_run_has_completed_since_the_plan_is_left_as_it_is(hdfs: Source) -> None:
    dest, batch = HookedStorage(clock=Clock()), newest(hdfs)

    def complete(_verb: str, _path: str) -> None:
        hdfs.before = lambda _verb, _path: None
        savepoint(hdfs, dest, batch=batch)
        dest.before = untouched

    def untouched(verb: str, path: str) -> None:
        assert verb in READS or path.startswith("_statemaint/lease/"), f"{verb} {path}"

    hdfs.before = complete
    again = savepoint(hdfs, dest, batch=batch)
    assert again.continued == again.stores
    assert has_true_metadata(dest)


def test_a_run_that_slept_while_its_folder_expired_makes_nothing_startable(hdfs: Source) -> None:
    clock, writes = Clock(), Counter[str]()
    dest = HookedStorage(clock=clock)

    def expire(verb: str, path: str) -> None:
        writes[path] += verb not in READS
        if path == SAVEPOINT and writes[path] == 2:  # it is about to note the end
            dest.before = lambda _verb, _path: None
            clock.now += 3 * 86_400
            with leased(dest, Holder("expiry")):
                dest.delete(f"commits/{newest(hdfs)}")

    dest.before = expire
    with pytest.raises(LeaseLostError):
        savepoint(hdfs, dest)
    assert writes[SAVEPOINT] == 2
    assert not has_true_metadata(dest)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[1])
def test_a_batch_that_is_written_again_while_its_savepoint_is_planned_is_refused(
    kind: tuple[str, str],
) -> None:
    """Its files would have the ids of the first attempt, and its commit those of the second."""
    found = archived(kind)
    path = f"commits/{newest(found)}"

    def written_again(verb: str, at: str) -> None:
        if verb == "list" and at.startswith("state"):
            running.after = lambda _verb, _path: None
            content = running.read(path)
            running.write(path, [re.sub(rb'\["[0-9a-f]{8}', b'["0a0a0a0a', content) + b" "],
                          overwrite=True)  # fmt: skip

    running, dest = Source(found.files, after=written_again), MemoryStorage()
    with pytest.raises(Superseded, match=rf"{path}: was written again.*plan again"):
        savepoint(running, dest, pin=False)
    assert not dest.files


@pytest.mark.parametrize("again", [True, False])
def test_a_batch_that_is_written_again_while_its_stores_are_read_is_read_again(
    hdfs: Source, *, again: bool
) -> None:
    batch, dest = newest(hdfs), MemoryStorage(clock=Clock())
    entry, changes = f"offsets/{batch}", [f"state/0/{part}/{batch + 1}.delta" for part in range(2)]

    def rewind(verb: str, path: str) -> None:
        if verb == "open" and path == changes[1]:  # the other store is written
            hdfs.works_again()
            hdfs.replace(entry, [hdfs.read(entry) + b"\n"])
            for change in changes:
                hdfs.replace(change, [delta_bytes([])])
            if not again:
                hdfs.delete(f"commits/{batch}")

    hdfs.before = rewind
    report = savepoint(hdfs, dest, pin=False)
    assert (report.starts, report.note.batch) == (2, batch if again else batch - 1)
    assert digest_stores(dest)[1] == digest_stores(hdfs)[1]


def test_a_batch_that_is_purged_while_its_stores_are_read_is_saved(hdfs: Source) -> None:
    batch, dest = newest(hdfs) - 1, MemoryStorage(clock=Clock())

    def purge(verb: str, path: str) -> None:
        if verb == "open" and path.startswith("state/0/1/"):
            hdfs.works_again()
            for log in ("offsets", "commits"):
                hdfs.delete(f"{log}/{batch}")

    hdfs.before = purge
    assert savepoint(hdfs, dest, batch=batch, pin=False).starts == 1
    assert has_true_metadata(dest)


def test_a_savepoint_of_a_batch_that_was_written_again_does_not_stand_for_it(hdfs: Source) -> None:
    dest, batch = MemoryStorage(clock=Clock()), newest(hdfs)
    savepoint(hdfs, dest)
    entry = f"offsets/{batch}"
    hdfs.replace(entry, [hdfs.read(entry) + b"\n"])
    before = dest.files
    with pytest.raises(ConfigError, match=f"it has batch {batch} as it was before the query was"):
        savepoint(hdfs, dest, batch=batch)
    assert dest.files == before
    hdfs.delete(entry)
    assert savepoint(hdfs, dest, batch=batch).continued


def test_a_savepoint_that_is_being_deleted_is_not_completed(hdfs: Source) -> None:
    dest = MemoryStorage(clock=Clock())
    write_savepoint(dest, replace(savepoint(hdfs, dest).note, expired=1.0))
    before = dest.files
    with pytest.raises(ConfigError, match="has a savepoint that is being deleted"):
        savepoint(hdfs, dest)
    assert dest.files == before


@pytest.mark.parametrize("metadata", [None, b'{"id":"11111111-2222-3333-4444-555555555555"}'])
def test_an_unfinished_savepoint_that_was_made_startable_is_left_alone(
    hdfs: Source, metadata: bytes | None
) -> None:
    """Somebody removes the unreadable `metadata`, and Spark begins with what is there."""
    clock = Clock()
    killed = each_crash(MemoryStorage(clock=clock), clock, lambda dest: savepoint(hdfs, dest))
    _, left = next(one for one in killed if "state/" in "".join(one[1].files))
    left.delete("metadata")
    if metadata:
        left.write("metadata", [metadata])
    left.write("state/0/0/99.delta", [b"of the query that runs here"])
    before = left.files
    with pytest.raises(ConfigError, match="a query may have run from it; nothing is deleted"):
        savepoint(hdfs, left)
    assert {path: one for path, one in left.files.items() if "/lease/" not in path} == {
        path: one for path, one in before.items() if "/lease/" not in path
    }


def test_a_continued_savepoint_leaves_unknown_files_alone(hdfs: Source) -> None:
    clock = Clock()
    killed = each_crash(MemoryStorage(clock=clock), clock, lambda dest: savepoint(hdfs, dest))
    _, left = next(one for one in killed if "state/" in "".join(one[1].files))
    left.write("notes.txt", [b"mine"])
    savepoint(hdfs, left)
    assert left.files["notes.txt"] == b"mine"


def test_a_file_that_changes_while_it_is_written_keeps_it_from_starting(hdfs: Source) -> None:
    def cut(verb: str, path: str) -> None:
        if verb == "write" and "savepoint/state-0-1" in path:
            for name in [one for one in dest.files if one.endswith(".snapshot")]:
                dest._files[name] = (b"", 0.0)

    dest = HookedStorage(clock=Clock(), after=cut)
    with pytest.raises(Superseded, match="was changed while it was written"):
        savepoint(hdfs, dest)
    assert not may_start(dest)


def test_an_unfinished_savepoint_of_another_checkpoint_is_refused(hdfs: Source) -> None:
    clock = Clock()

    class Other(Source):
        @property
        def root(self) -> str:
            return "memory:other"

    killed = each_crash(MemoryStorage(clock=clock), clock, lambda dest: savepoint(hdfs, dest))
    _, left = next(one for one in killed if "commits" in "".join(one[1].files))
    before = left.files
    with pytest.raises(ConfigError, match="has a savepoint of memory:source; give a new folder"):
        savepoint(Other(hdfs.files), left)
    assert left.files == before


@pytest.mark.parametrize("place", ["", "savepoint", "state/0"])
def test_a_savepoint_is_not_inside_of_its_own_checkpoint(tmp_path: Path, place: str) -> None:
    with pytest.raises(
        ConfigError, match="the savepoint cannot be in the folder of the checkpoint"
    ):
        savepoint(LocalStorage(tmp_path), LocalStorage(tmp_path / place))
    assert not list(tmp_path.iterdir())


def test_a_batch_that_is_not_committed_is_refused(hdfs: Source) -> None:
    last = newest(hdfs)
    dest = MemoryStorage()
    for batch in (0, last + 1):
        with pytest.raises(ConfigError, match=rf"batch {batch} is not committed.* to {last}$"):
            savepoint(hdfs, dest, batch=batch)
    assert not may_start(dest)


def test_damage_is_refused_and_leaves_nothing_that_starts(source: Source) -> None:
    chain = sorted(path for path in source.files if path.endswith((".delta", ".changelog")))
    for path in chain[::5]:
        for content in (source.files[path][:-3], b"\0" * len(source.files[path])):
            dest = MemoryStorage(clock=Clock())
            with pytest.raises(CheckpointError):
                savepoint(Source({**source.files, path: content}), dest)
            assert not may_start(dest)


def test_a_log_without_the_batch_is_refused_by_its_path(hdfs: Source) -> None:
    last, dest = newest(hdfs), MemoryStorage()
    for log, content in (("offsets", b""), ("offsets", b"v1\n{"), ("commits", b"v1\n{")):
        files = {**hdfs.files, f"{log}/{last}": content}
        if not content:
            del files[f"{log}/{last}"]
        with pytest.raises(DamagedError, match=rf"{log}/{last}: "):
            savepoint(Source(files), dest)
    assert not dest.files


def test_a_gap_is_refused_before_anything_is_written(hdfs: Source) -> None:
    last = newest(hdfs)
    broken = {path: one for path, one in hdfs.files.items() if path != f"state/0/1/{last}.delta"}
    dest = MemoryStorage()
    with pytest.raises(DamagedError, match=rf"no savepoint of batch {last}.*{last}\.delta"):
        savepoint(Source(broken), dest, dry_run=True)
    assert not dest.files


def test_a_fork_has_an_id_of_its_own_and_keeps_it_when_continued(hdfs: Source) -> None:
    clock = Clock()
    own = json.loads(hdfs.read("metadata"))["id"]
    begun = MemoryStorage(clock=clock)
    for _, left in each_crash(begun, clock, lambda dest: savepoint(hdfs, dest, new_id=True)):
        note = read_savepoint(left)
        done = savepoint(hdfs, left, new_id=True, batch=newest(hdfs)).note
        assert note is None or note.id == done.id
        assert json.loads(left.read("metadata")) == {"id": done.id}
        assert UUID(done.id) != UUID(own) == UUID(done.query_id)
    assert sum(one.rows for _, one in digest_stores(left)[1]) == sum(
        one.rows for _, one in digest_stores(hdfs)[1]
    )


@pytest.mark.parametrize(("forked", "what"), [(False, "the savepoint"), (True, "a fork")])
def test_a_whole_savepoint_does_not_stand_for_one_with_another_id(
    hdfs: Source, what: str, *, forked: bool
) -> None:
    dest = MemoryStorage(clock=Clock())
    batch = savepoint(hdfs, dest, new_id=forked).note.batch
    before = dest.files
    with pytest.raises(ConfigError, match=f"it has {what} of batch {batch} already; give a new"):
        savepoint(hdfs, dest, batch=batch, new_id=not forked)
    assert dest.files == before


def test_a_dry_run_writes_nothing(hdfs: Source) -> None:
    dest = MemoryStorage()
    report = savepoint(hdfs, dest, dry_run=True)
    assert (report.dry_run, report.note.batch, report.stores) == (True, newest(hdfs), 2)
    assert report.read > 0
    assert dest.files == {}


def test_a_savepoint_is_maintained_like_any_checkpoint(source: Source) -> None:
    dest = MemoryStorage(clock=Clock())
    savepoint(source, dest)
    before = {path for path in dest.files if path.startswith("state/")}
    assert maintain(dest, TIGHT).exit_code == 0
    assert {path for path in dest.files if path.startswith("state/")} == before
