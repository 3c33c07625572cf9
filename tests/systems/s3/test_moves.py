"""On S3: the requests and the failures of moving many files, and of a trash that is large."""

import json
from typing import Any

import pytest

from statemaint.audit import verify
from statemaint.errors import StorageError, Superseded
from statemaint.maintain import list_runs, maintain, undo
from statemaint.model.policy import Policy
from statemaint.records.trashed import INDEX, index_trash, size_of_trash
from statemaint.storage import MemoryStorage, S3Storage
from tests.support.ceph import KMS_KEYS
from tests.support.checkpoints import paths, write_checkpoint
from tests.support.fault_proxy import Answer, FaultProxy, Seen, error
from tests.support.s3 import Moto, Place

DAY = 86400.0
TRASH = "_statemaint/trash"
POLICY = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0, trash_for=7 * DAY)
KMS: dict[str, Any] = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": KMS_KEYS[0]}


def put(place: Place, storage: S3Storage, path: str, content: bytes = b"x", **how: Any) -> None:
    bucket = storage._bucket
    place.client.put_object(Bucket=bucket.name, Key=bucket.key(path), Body=content, **how)


def encryption(place: Place, storage: S3Storage, path: str) -> str | None:
    bucket = storage._bucket
    answer = place.client.head_object(Bucket=bucket.name, Key=bucket.key(path))
    found: str | None = answer.get("ServerSideEncryption")
    return found


def moved(storage: S3Storage) -> None:
    storage.move_all([(one, f"trash/{one.name}") for one in storage.list("a")])


def listed(storage: S3Storage) -> list[tuple[Any, str]]:
    return [(one, f"trash/{one.name}") for one in storage.list("a")]


def neglected(place: Place, root: str = "", **options: Any) -> S3Storage:
    """Returns a checkpoint of three stores, of each of which 15 deltas are no longer needed."""
    memory = write_checkpoint(MemoryStorage(), **{"last": 24, "partitions": 3, **options})
    storage = place.storage(root)
    place.fill(storage.root, memory.files)
    return storage


def is_copy(seen: Seen) -> bool:
    return any(name.lower() == "x-amz-copy-source" for name in seen.headers)


# -- requests


def test_many_files_are_moved_with_a_request_each_and_few_more(place: Place) -> None:
    storage = place.storage()
    place.fill(storage.root, {f"a/{number:03}": b"%d" % number for number in range(300)})
    moves, before = listed(storage), storage.requests
    checks: list[int] = []
    storage.move_all(moves, before=lambda: checks.append(1))
    added = {verb: n - before.get(verb, 0) for verb, n in storage.requests.items()}
    assert added.pop("head") <= 4  # of the oldest and the newest of each page
    assert {verb: n for verb, n in added.items() if n} == {"copy": 300, "delete": 2}
    assert len(checks) == 2
    assert paths(storage) == [f"trash/{number:03}" for number in range(300)]


def test_a_run_that_moves_45_files_of_three_stores_counts_what_the_server_does(
    broken: Place, proxy: FaultProxy
) -> None:
    storage = neglected(broken)
    proxy.seen.clear()
    report = maintain(storage, POLICY)
    assert (report.files_deleted.total(), report.snapshots_written) == (45, 6)
    assert sum(report.requests.values()) == len(proxy.seen)
    # Lease and commit are asked about every two seconds: a slow machine asks more often.
    looks = [
        one
        for one in proxy.seen
        if "/lease" in one.target or (one.method == "HEAD" and "/commits/" in one.target)
    ]
    assert len(proxy.seen) - len(looks) <= 200
    # a page a store, two probes, and what the run has announced
    assert (report.requests["copy"], report.requests["delete"]) == (45, 6)
    assert undo(broken.storage(storage.root), report.run).files == 45
    assert verify(storage, deep=True).healthy


def test_a_run_with_nothing_to_do_counts_what_the_server_does(
    broken: Place, proxy: FaultProxy
) -> None:
    storage = neglected(broken)
    maintain(storage, POLICY)
    proxy.seen.clear()
    report = maintain(broken.storage(storage.root), POLICY)
    assert sum(report.requests.values()) == len(proxy.seen) <= 30


# -- failures


def test_a_copy_that_is_refused_leaves_its_file_and_the_others_are_whole(
    broken: Place, proxy: FaultProxy
) -> None:
    storage = broken.storage()
    broken.fill(storage.root, {f"a/{number}": b"%d" % number for number in range(20)})
    proxy.fail(
        "PUT", Answer(403, error("AccessDenied")), when=lambda one: one.target.endswith("trash/7")
    )
    with pytest.raises(StorageError, match=r"^trash/7: access denied, s3:GetObject and s3:PutOb"):
        moved(storage)
    left = {path.removeprefix("a/") for path in paths(storage, "a")}
    there = {path.removeprefix("trash/") for path in paths(storage, "trash")}
    assert "7" in left
    assert (left & there, len(left | there)) == (set(), 20)  # each is in one place
    moved(storage)
    assert {storage.read(f"trash/{number}") for number in range(20)} == {
        b"%d" % number for number in range(20)
    }


def test_a_deletion_that_is_refused_leaves_the_files_under_both_names(
    broken: Place, proxy: FaultProxy
) -> None:
    storage = broken.storage()
    broken.fill(storage.root, {"a/1": b"1", "a/2": b"2"})
    proxy.fail("POST", Answer(503, error("SlowDown")))
    with pytest.raises(StorageError, match="the server failed or is too busy"):
        moved(storage)
    assert paths(storage) == ["a/1", "a/2", "trash/1", "trash/2"]


def test_nothing_is_deleted_once_a_file_was_replaced(place: Place) -> None:
    storage = place.storage()
    place.fill(storage.root, {f"a/{number}": b"%d" % number for number in range(9)})
    moves = listed(storage)
    storage.write("a/8", [b"written again"], overwrite=True)
    with pytest.raises(Superseded, match=r"^a/8: was replaced since it was listed"):
        storage.move_all(moves)
    assert len(paths(storage, "a")) == 9
    assert storage.read("a/8") == b"written again"


def test_the_etag_of_the_listing_is_the_condition_of_a_copy(
    broken: Place, proxy: FaultProxy
) -> None:
    storage = broken.storage()
    broken.fill(storage.root, {"a/1": b"1"})
    proxy.fail("PUT", Answer(412, error("PreconditionFailed")), when=is_copy)
    with pytest.raises(Superseded, match=r"^a/1: was replaced"):
        moved(storage)
    (copy,) = (one for one in proxy.seen if is_copy(one))
    headers = {name.lower(): value for name, value in copy.headers.items()}
    (entry,) = storage.list("a")
    assert headers["x-amz-copy-source-if-match"] == f'"{entry.tag}"'


# -- settings


def test_objects_of_one_encryption_keep_it_without_being_asked_for(moto_place: Moto) -> None:
    storage = moto_place.storage()
    for number in range(9):
        put(moto_place, storage, f"a/{number}", ServerSideEncryption="AES256", Tagging="k=v")
    moves, before = listed(storage), storage.requests.get("head", 0)
    storage.move_all(moves)
    assert storage.requests["head"] - before <= 2
    for number in range(9):
        assert encryption(moto_place, storage, f"trash/{number}") == "AES256"
    bucket = storage._bucket
    tags = moto_place.client.get_object_tagging(Bucket=bucket.name, Key=bucket.key("trash/4"))
    assert tags["TagSet"] == [{"Key": "k", "Value": "v"}]


def test_objects_of_different_encryption_keep_their_own(place: Place) -> None:
    storage = place.storage()
    for number in range(6):
        put(place, storage, f"a/{number}", **(KMS if number >= 3 else {}))
        moves = listed(storage)
    oldest, newest = moves[0][0].modified, moves[-1][0].modified
    moves = [  # with times a second apart, as the page would have them
        (_at(entry, (oldest or 0.0) + number), to) for number, (entry, to) in enumerate(moves)
    ]
    assert newest is not None
    storage.move_all(moves)
    found = [encryption(place, storage, f"trash/{number}") for number in range(6)]
    assert found == [None] * 3 + ["aws:kms"] * 3


def _at(entry: Any, modified: float) -> Any:
    return type(entry)(entry.path, entry.size, modified, entry.tag)


def test_a_copy_that_shows_a_key_of_the_original_is_made_again_with_it(
    broken: Place, proxy: FaultProxy
) -> None:
    """As AWS shows it: only an object without a key has the MD5 of its content as its ETag."""
    storage = broken.storage()
    for number in range(3):
        put(broken, storage, f"a/{number}")
    copied = b'<CopyObjectResult><ETag>"%s"</ETag></CopyObjectResult>' % (b"0" * 32)
    proxy.fail("PUT", Answer(200, copied), when=lambda one: one.target.endswith("trash/1"))
    before = storage.requests.get("copy", 0)
    moved(storage)
    assert storage.requests["copy"] - before == 4
    assert paths(storage) == ["trash/0", "trash/1", "trash/2"]


def test_a_file_larger_than_one_copy_is_copied_in_parts(place: Place) -> None:
    part = 5 * 1024 * 1024
    storage = place.storage(copy_limit=part)
    content = bytes(range(256)) * (12 * 4096)
    storage.write("a/large", [content])
    storage.write("a/small", [b"x"])
    moved(storage)
    assert paths(storage) == ["trash/large", "trash/small"]
    assert storage.read("trash/large") == content


# -- a large trash


def trash(place: Moto, storage: S3Storage, run: str, files: int, until: float) -> None:
    folder = f"{TRASH}/{run}"
    found = {f"{folder}/state/0/{number % 9}/{number}.delta": b"xy" for number in range(files)}
    lines = b"".join(
        json.dumps({"path": path.removeprefix(f"{folder}/"), "until": until}).encode() + b"\n"
        for path in list(found)[-200:]
    )
    place.fill(storage.root, {**found, f"{folder}/manifest/0-0.page-000001.jsonl": lines})


def idle(storage: S3Storage) -> int:
    again = S3Storage(storage.root, storage._bucket.options)
    return sum(maintain(again, POLICY).requests.values())


@pytest.mark.parametrize("runs", [1, 3, 30])
def test_a_large_trash_adds_few_requests_to_a_run_with_nothing_to_do(
    moto_place: Moto, runs: int
) -> None:
    storage = neglected(moto_place)
    maintain(storage, POLICY.override(trash_for=0))
    before = idle(storage)
    for number in range(runs):
        trash(moto_place, storage, f"run-{number:02}", 4500 // runs, storage.now() + DAY)
    assert 0 < idle(storage) - before <= 10
    files = 4500 // runs * runs
    assert size_of_trash(storage) == (files, 2 * files)


def test_an_index_answers_for_all_runs_of_the_trash(moto_place: Moto) -> None:
    storage = neglected(moto_place)
    for number in range(9):
        trash(moto_place, storage, f"run-{number}", 110, storage.now() + DAY)
    runs, size = [one.run for one in list_runs(storage)], size_of_trash(storage)
    index_trash(storage, 9, 0)
    lists = storage.requests["list"]
    assert size_of_trash(storage) == size == (990, 1980)
    assert storage.requests["list"] == lists + 1
    assert [one.run for one in list_runs(storage)] == runs
    storage.write(INDEX, [b"{]"], overwrite=True)
    assert size_of_trash(storage) == size


def test_an_expired_trash_is_listed_once(moto_place: Moto) -> None:
    storage = neglected(moto_place)
    maintain(storage, POLICY.override(trash_for=0))
    trash(moto_place, storage, "old", 2500, storage.now() - 1)
    trash(moto_place, storage, "young", 2500, storage.now() + DAY)
    before = storage.requests["list"]
    idle_lists = 7
    maintain(storage, POLICY)
    assert {path.split("/")[2] for path in paths(storage, TRASH)} == {"young"}
    # three of the files, one of the folders, one of each run's manifests, one of what a killed run
    # has announced, one of pins; a lease has seven
    assert storage.requests["list"] - before <= 3 + 1 + 2 + 1 + 1 + idle_lists + 7
