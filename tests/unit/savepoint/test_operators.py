"""The address of a savepoint as Spark writes it, and what operators know of themselves."""

import json
from pathlib import Path

import pytest

from statemaint.errors import CodecError, DamagedError
from statemaint.planning import scan_checkpoint
from statemaint.savepoint.logs import address_like, operator_files
from statemaint.storage import MemoryStorage
from tests.support.archived import archived

EVOLVED = ("rocks-evolved-4.3.0", "rocks-evolving")
FOLDER = "state/0/_metadata/v2"


@pytest.mark.parametrize(
    ("written", "to", "expected"),
    [
        ("file:/a/checkpoint", "/b/c d/", "file:/b/c d"),
        ("file:/a/checkpoint", "file:///b/c%20d", "file:/b/c d"),
        ("file:/a/checkpoint", "file:/b", "file:/b"),
        ("s3a://lake/a", "/b", "file:/b"),
        ("s3a://lake/a", "s3://backup/b//c/", "s3a://backup/b/c"),
        ("s3://lake/a", "s3a://backup/b", "s3://backup/b"),
        ("s3://lake/a", "s3a://backup", "s3://backup"),
        ("file:/a", "s3://backup/b", "s3a://backup/b"),
        ("hdfs://node:8020/a", "hdfs://node/b", "hdfs://node:8020/b"),
        ("hdfs://node:8020/a", "hdfs:///b", "hdfs://node:8020/b"),
        ("hdfs://node:8020/a", "webhdfs://node:9870/b", "hdfs://node:8020/b"),
        ("hdfs://node:8020/a", "hdfs://other:8020/b", "hdfs://other:8020/b"),
        ("file:/a", "hdfs://node:8020/b/", "hdfs://node:8020/b"),
        ("abfss://c@acc.dfs.core.windows.net/a", "abfss://d@acc.dfs.core.windows.net/b",
         "abfss://d@acc.dfs.core.windows.net/b"),
        ("gs://lake/a", "hadoop+gs://backup/b", "gs://backup/b"),
    ],
)  # fmt: skip
def test_an_address_is_written_as_spark_wrote_the_other(
    written: str, to: str, expected: str
) -> None:
    assert address_like(written, to) == expected


def test_a_relative_path_becomes_absolute() -> None:
    assert address_like("file:/a", "b") == f"file:{Path.cwd()}/b"


def files(storage: MemoryStorage, batch: int, to: str = "/to") -> dict[str, bytes]:
    checkpoint = scan_checkpoint(storage)
    return {
        path: b"".join(chunks)
        for path, chunks in operator_files(storage, checkpoint, batch, to, {})
    }


def test_nothing_but_the_paths_of_metadata_changes() -> None:
    storage = archived(EVOLVED)
    saved = files(storage, 8, "/to/elsewhere")
    content = storage.read(f"{FOLDER}/2").decode()
    paths = json.loads(content.split("\n")[1])["stateStoreInfo"][0]["stateSchemaFilePaths"]
    old = paths[0].partition("/state/")[0]
    assert saved[f"{FOLDER}/2"].decode() == content.replace(old, "file:/to/elsewhere")
    tails = [one.removeprefix(f"{old}/") for one in paths]
    assert sorted(saved) == sorted([f"{FOLDER}/2", *tails])
    assert all(saved[one] == storage.read(one) for one in tails)


@pytest.mark.parametrize(
    "name",
    [(archive, kind)
     for archive in ("rocks-4.0.5", "rocks-4.3.0")
     for kind in ("rocks-timed", "rocks-expiring-ids")],
)  # fmt: skip
def test_metadata_that_spark_wrote_keep_every_byte(name: tuple[str, str]) -> None:
    storage = archived(name)
    content = storage.read(f"{FOLDER}/0")
    (path,) = json.loads(content.split(b"\n")[1])["stateStoreInfo"][0]["stateSchemaFilePaths"]
    there = path.partition("/state/")[0]
    assert files(storage, 9, there)[f"{FOLDER}/0"] == content


def test_an_earlier_batch_has_the_metadata_and_schemas_of_its_time() -> None:
    saved = files(archived(EVOLVED), 1)
    assert f"{FOLDER}/0" in saved
    assert len(saved) == 2


def test_schemas_of_stores_without_families_are_copied() -> None:
    storage = archived(("4.3.0", "join2"))
    saved = files(storage, 9)
    assert len(saved) == 5
    assert all(content == storage.read(path) for path, content in saved.items())


def test_a_batch_before_all_metadata_names_one_that_can_be_saved() -> None:
    storage = archived(EVOLVED)
    storage.delete(f"{FOLDER}/0")
    with pytest.raises(DamagedError, match="save batch 2 or a newer one"):
        files(storage, 1)


def test_a_missing_newest_schema_is_damage_and_an_older_one_spark_has_deleted() -> None:
    storage = archived(EVOLVED)
    older, newest = sorted(path for path in storage.files if "/_stateSchema/default/" in path)[2:]
    storage.delete(older)
    assert older not in files(storage, 9)
    storage.delete(newest)
    with pytest.raises(DamagedError, match=f"^{newest}: is missing, although {FOLDER}/2"):
        files(storage, 9)


def test_metadata_that_name_another_kind_of_file_are_not_changed() -> None:
    storage = archived(EVOLVED)
    content = storage.read(f"{FOLDER}/2").replace(b"/state/0/_stateSchema/", b"/elsewhere/")
    storage.write(f"{FOLDER}/2", [content], overwrite=True)
    checkpoint = scan_checkpoint(archived(EVOLVED))
    with pytest.raises(CodecError, match=f"^{FOLDER}/2: .*is not the path of a schema file"):
        list(operator_files(storage, checkpoint, 9, "/to", {}))
