"""The cache of small files: it saves requests, and nothing that is in it can change a result."""

import zlib
from dataclasses import replace
from itertools import count
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.audit import verify
from statemaint.errors import CodecError, NotFoundError
from statemaint.listing import Entry
from statemaint.maintain import maintain
from statemaint.maintain.run import end_run
from statemaint.maintain.work import prepare
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.policy import Policy
from statemaint.plan.actions import Request
from statemaint.planning import plan_checkpoint
from statemaint.records.claims import Holder
from statemaint.records.remembered import REMEMBERED, parse_remembered, recalling, render_remembered
from statemaint.scan.handover import Handover
from statemaint.scan.scanner import scan
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import COMMIT, write_checkpoint
from tests.support.faults import HookedStorage, refuse

POLICY = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=4, grace=0)
PARTITIONS = 4


def checkpoint(*, tagged: bool = True) -> MemoryStorage:
    storage = MemoryStorage(clock=map(float, count()).__next__, tagged=tagged)
    write_checkpoint(storage, partitions=PARTITIONS)
    for batch in range(16, 25):  # Spark's commits have times and ids of their own
        storage.replace(f"commits/{batch}", [COMMIT[:-1], b',"n":%d}' % batch])
    return storage


def maintained() -> MemoryStorage:
    storage = checkpoint()
    maintain(storage, POLICY)
    return storage


def as_it_is(storage: MemoryStorage) -> Checkpoint:
    """Returns the scan of the same files without a cache, at a clock that stands still."""
    files = storage.files
    files.pop(REMEMBERED, None)
    return scan(MemoryStorage(files))


def recalled(files: dict[str, bytes]) -> Checkpoint:
    return scan(recalling(MemoryStorage(files)))


def opened(storage: MemoryStorage) -> int:
    return storage.requests.get("read", 0)


CACHED = maintained()


def test_an_idle_run_reads_the_cache_and_no_commit_and_no_attestation() -> None:
    storage = maintained()
    before = opened(storage)
    report = maintain(storage, POLICY)
    assert not report.snapshots_written
    assert opened(storage) - before == 3  # the newest lease, the query's id and the cache


def test_a_report_counts_every_request_of_its_run() -> None:
    storage = checkpoint()
    for _ in range(2):  # one that works, and one that is idle
        before = storage.requests
        report = maintain(storage, POLICY)
        sent = {verb: n - before.get(verb, 0) for verb, n in storage.requests.items()}
        assert report.requests == {verb: n for verb, n in sent.items() if n}


def test_what_the_cache_knows_is_what_the_files_hold() -> None:
    assert recalled(CACHED.files) == as_it_is(CACHED)


@given(st.data())
def test_no_damage_of_the_cache_changes_what_is_scanned(data: st.DataObject) -> None:
    stored = bytearray(CACHED.files[REMEMBERED])
    for _ in range(data.draw(st.integers(0, 4))):
        stored[data.draw(st.integers(0, len(stored) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(stored)))
    files = {**CACHED.files, REMEMBERED: bytes(stored[:end]) + data.draw(st.binary(max_size=9))}
    assert recalled(files) == as_it_is(CACHED)


@given(st.lists(st.binary(max_size=80)), st.integers())
def test_no_other_contents_in_the_cache_change_what_is_scanned(
    contents: list[bytes], seed: int
) -> None:
    known = [*parse_remembered(CACHED.files[REMEMBERED]), *contents]
    changed = [one.replace(b'"version"', b'"Version"') for one in known]
    Random(seed).shuffle(changed)  # noqa: S311
    files = {**CACHED.files, REMEMBERED: render_remembered(changed)}
    assert recalled(files) == as_it_is(CACHED)


@pytest.mark.parametrize("stored", [b"", b"{}", b'{"sizes":1}\n', b'{"sizes":["a"]}\n', b"[]\n"])
def test_what_is_no_cache_of_ours_is_an_empty_one(stored: bytes) -> None:
    for content in (stored, zlib.compress(stored)):
        assert parse_remembered(content) == []


def test_an_old_cache_that_is_put_back_changes_nothing() -> None:
    storage = maintained()
    old = storage.files[REMEMBERED]
    for batch in range(20, 25):  # a rewound query writes its commits again
        storage.replace(f"commits/{batch}", [COMMIT[:-1], b',"again":%d}' % batch])
    maintain(storage, POLICY)
    storage.replace(REMEMBERED, [old])
    assert recalled(storage.files) == as_it_is(storage)
    assert verify(storage).healthy


def test_a_file_that_is_written_again_is_read_again() -> None:
    storage = maintained()
    reading = recalling(storage)
    scan(reading)
    storage.replace("commits/24", [b"v1\nnot a commit"])
    assert scan(reading).findings == scan(storage).findings != ()


@pytest.mark.parametrize("prefix", ["", "offsets", "offsets/"])
def test_a_file_that_is_deleted_is_not_there_once_it_is_listed_again(prefix: str) -> None:
    storage = maintained()
    reading = recalling(storage)
    scan(reading)
    storage.delete("offsets/23")
    assert [*reading.list(prefix)]
    with pytest.raises(NotFoundError):
        reading.read("offsets/23")


def test_without_tags_no_cache_is_written_or_asked_for() -> None:
    storage = HookedStorage(clock=map(float, count()).__next__, tagged=False)
    write_checkpoint(storage, partitions=PARTITIONS)
    for _ in range(2):
        maintain(storage, POLICY)
    assert "commits/24" in storage.paths("read")
    assert REMEMBERED not in {*storage.paths("read"), *storage.files}


class Encrypted(MemoryStorage):
    """A storage whose tags look like an MD5 and are none, as with keys of KMS."""

    def _entry(self, path: str, file: tuple[bytes, float]) -> Entry:
        return replace(super()._entry(path, file), tag=f"{int(file[1]):032x}")


def test_where_tags_are_no_md5_nothing_is_remembered() -> None:
    storage = write_checkpoint(Encrypted(clock=map(float, count()).__next__), partitions=PARTITIONS)
    report = maintain(storage, POLICY)
    assert report.snapshots_written == 2 * PARTITIONS
    assert REMEMBERED not in storage.files
    before = opened(storage)
    recalling(storage).catch_up()
    assert opened(storage) - before == 3  # the cache, a commit and an attestation


def test_verbs_that_only_read_write_no_cache() -> None:
    storage = maintained()
    storage.delete(REMEMBERED)
    plan_checkpoint(storage, POLICY)
    verify(storage)
    maintain(storage, POLICY, dry_run=True)
    maintain(storage, POLICY)  # and a run that has nothing to do
    assert REMEMBERED not in storage.files


@pytest.mark.parametrize(
    ("path", "size", "reads"),
    [("commits/7", 1 << 20, 1), ("commits/7", (1 << 20) + 1, 2), ("state/0/0/7.delta", 9, 2)],
)
def test_only_small_files_that_seldom_change_are_read_once(
    path: str, size: int, reads: int
) -> None:
    storage = HookedStorage({path: bytes(size)})
    reading = recalling(storage)
    assert [entry.size for entry in reading.list("")] == [size]
    for _ in range(2):
        reading.read(path)
    assert storage.paths("read").count(path) == reads


@pytest.mark.parametrize(
    "error", [NotFoundError("commits/20"), CodecError("too large", offset=0, path="commits/20")]
)
def test_a_file_that_cannot_be_read_any_more_is_not_in_the_cache(error: Exception) -> None:
    storage = maintained()
    storage.delete(REMEMBERED)
    reading = recalling(HookedStorage(storage, before=refuse("read", "commits/20", error)))
    reading.catch_up()
    known = parse_remembered(reading.cache() or b"")
    assert [storage.files[f"commits/{batch}"] in known for batch in (19, 20, 21)] == [
        True,
        False,
        True,
    ]


def test_a_run_of_one_partition_keeps_what_is_known_of_the_others() -> None:
    storage = maintained()
    part = Request(operators=frozenset({0}), partitions=frozenset({1}), force_snapshot=True)
    for batch in (25, 26, 27):
        extend(storage, batch)
    maintain(storage, POLICY, request=part)
    before = opened(storage)
    maintain(storage, POLICY, dry_run=True)
    assert opened(storage) - before == 3


def extend(storage: MemoryStorage, batch: int) -> None:
    """Goes on as the query does."""
    for partition in range(PARTITIONS):
        delta = storage.read(f"state/0/{partition}/{batch}.delta")
        storage.write(f"state/0/{partition}/{batch + 1}.delta", [delta])
    storage.write(f"offsets/{batch}", [storage.read(f"offsets/{batch - 1}")])
    storage.write(f"commits/{batch}", [COMMIT[:-1], b',"n":%d}' % batch])


def test_the_end_of_a_run_of_tasks_remembers_what_the_tasks_wrote() -> None:
    storage, holder = checkpoint(), Holder("dag")
    prepared = prepare(storage, POLICY)
    handover = Handover.from_json(prepared.handover.to_json())
    for one in range(PARTITIONS):
        request = Request(target=25, operators=frozenset({0}), partitions=frozenset({one}))
        maintain(storage, POLICY, request=request, run="r", holder=holder, handover=handover)
    end_run(storage, holder, sound=True, run="r")
    before = opened(storage)
    prepare(storage, POLICY)
    assert opened(storage) - before <= 3  # the query's id, the cache, the newest offsets


def test_a_task_of_a_run_asks_for_no_cache() -> None:
    storage = HookedStorage(clock=map(float, count()).__next__)
    write_checkpoint(storage, partitions=PARTITIONS)
    maintain(storage, POLICY)
    handover = prepare(storage, POLICY).handover
    assert REMEMBERED in storage.paths("read")
    storage.calls.clear()
    request = Request(target=25, operators=frozenset({0}), partitions=frozenset({1}))
    maintain(storage, POLICY, request=request, run="r", holder=Holder("dag"), handover=handover)
    assert "_statemaint/attestations/0/1/default.json" in storage.paths("read")
    assert REMEMBERED not in storage.paths("read")


def test_few_new_contents_are_not_worth_a_cache() -> None:
    storage = maintained()
    old = storage.files[REMEMBERED]
    extend(storage, 25)
    maintain(storage, POLICY, request=Request(force_snapshot=True, partitions=frozenset({0})))
    assert storage.files[REMEMBERED] == old


def test_a_cache_holds_the_smallest_contents_that_fit() -> None:
    large = [bytes([one]) * (6 << 20) for one in range(4)]
    assert parse_remembered(render_remembered([*large, b"small"])) == [b"small", *large[:2]]


def test_no_cache_unpacks_to_more_than_twice_what_one_may_hold() -> None:
    stored = zlib.compress(b'{"sizes":[50331648]}\n' + bytes(48 << 20))
    (content,) = parse_remembered(stored)
    assert len(content) <= 32 << 20
