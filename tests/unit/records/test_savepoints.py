"""What a savepoint records of itself: its shape, its changes, and the stores that are proved."""

import json
from dataclasses import replace

import pytest

from statemaint.errors import CodecError
from statemaint.model.checkpoint import Provider
from statemaint.planning import scan_checkpoint
from statemaint.records.savepoints import (
    SAVEPOINT,
    STORES,
    SavedStore,
    Shape,
    forget_stores,
    note_stores,
    read_savepoint,
    read_stores,
    true_metadata,
)
from statemaint.storage import MemoryStorage
from tests.support.archived import archived
from tests.support.faults import HookedStorage
from tests.support.savepoints import savepoint_note, write_small_savepoint

HDFS, ROCKSDB = Provider.HDFS_BACKED, Provider.ROCKSDB
HERE = Shape(partitions=2, provider=ROCKSDB, ids="v2", codec="lz4", row_checksums=True)
LEFT = SavedStore(directory="0/1/left-keyToNumValues", rows=2, digest="ab", files={"x": 3}, of="w")
OTHER = SavedStore(directory="0/2", rows=5, digest="cd", files={}, of="another")


@pytest.mark.parametrize(
    ("case", "shape"),
    [
        (("4.3.0", "aggregation2-rowchecksum"), replace(HERE, provider=HDFS, ids="v1")),
        (("rocks-4.3.0", "rocks-aggregation-ids"), replace(HERE, row_checksums=False)),
        (("3.5.9", "dedup"), replace(HERE, provider=HDFS, ids="v1", row_checksums=False)),
    ],
)
def test_the_shape_of_a_checkpoint_is_that_of_its_query(
    case: tuple[str, str], shape: Shape
) -> None:
    assert Shape.of(scan_checkpoint(archived(case))) == shape


@pytest.mark.parametrize(
    ("choice", "after", "changes"),
    [
        (Shape(), HERE, ()),
        (Shape(partitions=2, ids="v2"), HERE, ()),
        (
            Shape(partitions=3, row_checksums=False),
            replace(HERE, partitions=3, row_checksums=False),
            ("partitions 2 to 3", "row checksums on to off"),
        ),
        (
            Shape(provider=HDFS, codec="zstd"),
            replace(HERE, provider=HDFS, ids="v1", codec="zstd"),
            (f"provider {ROCKSDB} to {HDFS}", "ids v2 to v1", "codec lz4 to zstd"),
        ),
        (
            Shape(provider=HDFS, ids="v2"),  # is refused later
            replace(HERE, provider=HDFS),
            (f"provider {ROCKSDB} to {HDFS}",),
        ),
    ],
)
def test_what_is_chosen_is_changed_and_without_rocksdb_the_ids(
    choice: Shape, after: Shape, changes: tuple[str, ...]
) -> None:
    note = savepoint_note(before=HERE, shape=choice)
    assert (note.after, note.changes) == (after, changes)


@pytest.mark.parametrize("content", [b"{", b'{"begun": 1e999}'])
def test_a_record_that_cannot_be_read_is_an_error_at_its_path(content: bytes) -> None:
    storage = MemoryStorage({SAVEPOINT: content})
    with pytest.raises(CodecError, match="not a savepoint's record") as caught:
        read_savepoint(storage)
    assert (caught.value.path, caught.value.offset) == (SAVEPOINT, 0)


@pytest.mark.parametrize("field", ["begun", "ended", "expired"])
def test_a_time_beyond_the_year_9999_is_an_error_at_its_path(field: str) -> None:
    storage = MemoryStorage()
    write_small_savepoint(storage)
    stored = json.loads(storage.read(SAVEPOINT))
    storage.replace(SAVEPOINT, [json.dumps({**stored, field: 253_402_300_800}).encode()])
    with pytest.raises(CodecError, match="beyond the year 9999") as caught:
        read_savepoint(storage)
    assert (caught.value.path, caught.value.offset) == (SAVEPOINT, 0)


def test_the_metadata_of_a_savepoint_is_as_spark_writes_it() -> None:
    theirs = archived(("4.3.0", "aggregation2")).files["metadata"]
    assert true_metadata(savepoint_note(id=json.loads(theirs)["id"])) == theirs


def test_only_readable_stores_of_the_same_savepoint_count_as_proved() -> None:
    def vanish(_verb: str, path: str) -> None:
        if path.endswith("vanishes.json"):
            storage._files.pop(path, None)

    storage = HookedStorage({f"{STORES}/{name}.json": b"{" for name in ("cut", "vanishes")})
    note_stores(storage, [LEFT])
    note_stores(storage, [OTHER])
    assert f"{STORES}/0-1-left-keyToNumValues.json" in storage.files
    storage.before = vanish
    assert read_stores(storage, "w") == (LEFT,)
    assert f"{STORES}/vanishes.json" not in storage.files
    forget_stores(storage)
    assert storage.files == {}
