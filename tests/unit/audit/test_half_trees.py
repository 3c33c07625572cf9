"""A checkpoint of which a whole tree is missing: each has a sentence of its own."""

from collections.abc import Sequence

import pytest

from statemaint.audit import doctor, verify
from statemaint.errors import NotACheckpointError
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import snapshot_bytes, state_at, write_checkpoint
from tests.support.rocks import write_rocks_checkpoint

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=2, grace=0, orphan_age=0)
WITH_WATERMARK = (
    b'v1\n{"batchWatermarkMs":5,"conf":{"spark.sql.shuffle.partitions":"2"}}\n{"logOffset":8}'
)


def without(*trees: str) -> MemoryStorage:
    storage = write_checkpoint(MemoryStorage())
    for path in list(storage.files):
        if path.partition("/")[0] in trees:
            storage.delete(path)
    return storage


@pytest.mark.parametrize(
    ("trees", "code", "sentence"),
    [
        (
            ["metadata"],
            "MISSING_METADATA",
            "metadata, which has the query's id, is missing: Spark 4.2",
        ),
        (
            ["commits"],
            "MISSING_COMMIT",
            "commits/ is missing or empty although batch 24 was planned",
        ),
        (["offsets"], "UNREADABLE_OFFSET", "offsets/ is missing or empty although batches are com"),
        (
            ["offsets", "commits"],
            "UNREADABLE_OFFSET",
            "offsets/ and commits/ are missing or empty although there is state: a restart would",
        ),
        (
            ["offsets", "commits", "metadata"],
            "UNREADABLE_OFFSET",
            "offsets/ and commits/ are missing or empty although there is state",
        ),
    ],
)
def test_each_missing_tree_has_its_own_sentence(
    trees: Sequence[str], code: str, sentence: str
) -> None:
    storage = without(*trees)
    before = dict(storage.files)
    found = [one for one in verify(storage).findings if one.damage]
    assert [one.code for one in found] == [code]
    assert found[0].detail.startswith(sentence)
    assert doctor(storage).restarts is (code == "MISSING_COMMIT")
    maintain(storage, TIGHT)
    if trees != ["commits"]:
        left = {path for path in storage.files if not path.startswith("_statemaint/")}
        assert left == set(before)


def test_a_query_with_a_watermark_has_lost_its_state() -> None:
    storage = without("state")
    found = doctor(storage)
    assert (found.restarts, [one.damage for one in found.findings]) == (True, [False])
    assert found.findings[0].detail == (
        "state/ is missing or empty: a query restarts only if none of its operators has state"
    )
    storage.write("offsets/24", [WITH_WATERMARK], overwrite=True)
    for number in range(9):
        storage.write(f"sources/0/{number}", [b"v1\n{}"])
    found = doctor(storage)
    assert [(one.code, one.damage) for one in found.findings] == [("NO_STATE", True)]
    assert not found.restarts
    assert found.next[-1] == (
        "this cannot be repaired from the remaining files: restore state from a copy"
    )


def test_where_only_metadata_is_left_a_query_begins_with_its_first_batch() -> None:
    found = doctor(without("offsets", "commits", "state"))
    (only,) = found.findings
    assert only.detail == (
        "there is only metadata: no batch has begun, or all else was removed; a query that is "
        "started here begins with its first batch"
    )
    assert found.restarts


def test_where_nothing_is_left_it_does_as_well() -> None:
    with pytest.raises(NotACheckpointError, match="a query that is started here begins with its"):
        doctor(without("offsets", "commits", "state", "metadata"))


def test_another_folder_is_none() -> None:
    with pytest.raises(NotACheckpointError, match="neither offsets/ nor commits/ nor state/ nor"):
        doctor(MemoryStorage({"data/part-0.parquet": b""}))


def test_a_query_that_never_committed_would_load_what_another_one_left() -> None:
    storage = write_checkpoint(MemoryStorage(), last=3, batches=[0])
    storage.delete("commits/0")
    storage.write("state/0/0/3.snapshot", [snapshot_bytes(state_at(3))])
    found = doctor(storage)
    assert [one.code for one in found.blockers] == ["SNAPSHOT_ABOVE_TARGET"]


def test_with_unique_ids_the_commit_that_names_the_attempt_is_what_is_missing() -> None:
    storage = write_rocks_checkpoint(MemoryStorage(), with_ids=True, partitions=1)
    for batch in (23, 24):
        storage.delete(f"commits/{batch}")
    found = [one for one in verify(storage).findings if one.code == "BROKEN_CHAIN"]
    assert [one.path for one in found] == ["state/0/0/24.changelog"]
    assert found[0].detail == (
        "commits/23, which names the attempt that counts at version 24, is missing or unreadable, "
        "so version 24 (batch 23) does not load; restore it, nothing is deleted until then"
    )
    assert not doctor(storage).restarts
