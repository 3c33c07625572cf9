"""`savepoint` as a person runs it."""

import json
import shutil
from pathlib import Path

import pytest

from statemaint.maintain.record import read_record
from statemaint.report.record import LastSavepoint
from statemaint.storage import LocalStorage
from tests.support.checkpoints import write_checkpoint
from tests.support.program import run
from tests.unit.cli.test_show import unpacked


@pytest.fixture
def dest(tmp_path: Path) -> Path:
    return tmp_path / "backup" / "orders" / "24"


def files(root: Path) -> set[str]:
    return {file.relative_to(root).as_posix() for file in root.rglob("*") if file.is_file()}


def test_a_savepoint_is_one_snapshot_of_each_store(checkpoint: Path, dest: Path) -> None:
    before = files(checkpoint)
    done = run("savepoint", str(checkpoint), str(dest))
    assert done.returncode == 0
    first, second, third, *_ = done.stdout.splitlines()
    assert first == f"savepoint {dest}"
    assert second == f"of        batch 24 (version 25) of {checkpoint}"
    assert third == "stores    2, each read back and equal"
    state = {path for path in files(dest) if path.startswith("state/")}
    assert state == {"state/0/0/25.snapshot", "state/0/1/25.snapshot"}
    assert run("verify", str(dest), "--deep").returncode == 0
    rows = [run("digest", str(one)).stdout for one in (checkpoint, dest)]
    assert rows[0] == rows[1]
    assert files(checkpoint) - before == {"_statemaint/metrics.json"}


def test_the_query_has_a_newer_savepoint_unless_it_is_a_fork_or_nothing_may_be_written_there(
    checkpoint: Path, tmp_path: Path
) -> None:
    before = files(checkpoint)
    run("savepoint", str(checkpoint), str(tmp_path / "fork"), "--new-id")
    run("savepoint", str(checkpoint), str(tmp_path / "unpinned"), "--no-pin")
    run("savepoint", str(checkpoint), str(tmp_path / "dry"), "--dry-run")
    assert files(checkpoint) == before
    done = run("savepoint", str(checkpoint), str(tmp_path / "saved"), "--json")
    document, record = json.loads(done.stdout), read_record(LocalStorage(checkpoint))
    assert record
    assert record.savepoint
    assert record.savepoint.ended >= document["ended"]
    assert record.savepoint == LastSavepoint(
        ended=record.savepoint.ended,
        batch=24,
        bytes=document["bytes_written"],
        seconds=document["ended"] - document["begun"],
    )


def test_a_whole_savepoint_is_a_newer_one_only_of_the_newest_batch(
    checkpoint: Path, tmp_path: Path
) -> None:
    def noted(batch: int) -> LastSavepoint | None:
        done = run("savepoint", str(checkpoint), str(tmp_path / str(batch)), "--batch", str(batch))
        assert done.returncode == 0
        record = read_record(LocalStorage(checkpoint))
        return record.savepoint if record else None

    old, new = noted(20), noted(24)
    assert old
    assert new
    assert (old.batch, new.batch) == (20, 24)
    assert noted(20) == new
    again = noted(24)
    assert again
    assert again.ended > new.ended


def test_an_older_batch_is_saved_by_its_number(checkpoint: Path, dest: Path) -> None:
    done = run("savepoint", str(checkpoint), str(dest), "--batch", "20", "--json")
    document = json.loads(done.stdout)
    assert (document["batch"], document["version"], document["dry_run"]) == (20, 21, False)
    assert (
        run("digest", str(dest)).stdout == run("digest", str(checkpoint), "--version", "21").stdout
    )


def test_a_dry_run_says_what_it_would_read_and_writes_nothing(checkpoint: Path, dest: Path) -> None:
    done = run("savepoint", str(checkpoint), str(dest), "--dry-run")
    assert done.stdout.splitlines()[2].endswith(" for 2 stores")
    assert done.stderr == "nothing was written; leave --dry-run away to save it\n"
    assert not dest.parent.exists()


def test_a_savepoint_in_other_partitions_shows_what_changes_and_the_code_that_starts_it(
    tmp_path: Path, dest: Path
) -> None:
    root = str(unpacked("join2", tmp_path / "join"))
    lines = run("savepoint", root, str(dest), "--partitions", "3").stdout.splitlines()
    code = f'.option("checkpointLocation", "{dest}")'
    assert lines[2] == "changes   partitions 2 to 3"
    assert lines[-1] == f"          {code}"
    assert {path.split("/")[2] for path in files(dest) if path.endswith(".snapshot")} == {*"012"}
    again = run("savepoint", root, str(dest), "--partitions", "3", "--batch", "12", "--json")
    document = json.loads(again.stdout)
    assert document["before"] == {
        "partitions": 2, "provider": "HDFSBackedStateStoreProvider", "ids": "v1", "codec": "lz4",
        "row_checksums": False,
    }  # fmt: skip
    assert document["after"] == {**document["before"], "partitions": 3}
    assert document["code"] == [code]
    assert run("savepoint", root, str(dest), "--partitions", "0").returncode == 2


def test_every_choice_of_a_shape_has_a_flag_and_the_structure_a_line_of_code(
    tmp_path: Path, dest: Path
) -> None:
    root = str(unpacked("join2", tmp_path / "join"))
    flags = ("--provider", "rocksdb", "--ids", "v2", "--codec", "zstd", "--row-checksums")
    lines = run("savepoint", root, str(dest), *flags).stdout.splitlines()
    assert lines[2] == (
        "changes   provider HDFSBackedStateStoreProvider to RocksDBStateStoreProvider, "
        "ids v1 to v2, codec lz4 to zstd, row checksums off to on"
    )
    setting = "spark.sql.streaming.stateStore.checkpointFormatVersion"
    assert lines[-2] == f'          spark.conf.set("{setting}", "2")'
    assert run("verify", str(dest), "--deep").returncode == 0
    back = ("savepoint", str(dest), str(tmp_path / "back"), "--provider", "hdfs", "--json")
    document = json.loads(run(*back, "--no-row-checksums").stdout)
    shape = {"provider": "HDFSBackedStateStoreProvider", "ids": "v1", "row_checksums": False}
    assert document["after"] == {**document["before"], **shape}
    assert document["code"][0] == f'spark.conf.set("{setting}", "1")'
    refused = run("savepoint", root, str(tmp_path / "no"), "--ids", "v2")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


def test_a_dry_run_counts_the_rows_of_each_partition_and_suggests_a_number(
    tmp_path: Path, dest: Path
) -> None:
    root = str(unpacked("join2", tmp_path / "join"))
    call = ("savepoint", root, str(dest), "--dry-run", "--partition-size", "1KB")
    document = json.loads(run(*call, "--partitions", "3", "--json").stdout)
    lines = run(*call).stdout.splitlines()
    run("savepoint", root, str(dest), "--partitions", "3")
    (operator,) = document["operators"]
    saved = json.loads((dest / "_statemaint/savepoint.json").read_text())
    assert operator["rows"] == sum(store["rows"] for store in saved["stores"])
    assert operator["stores"] == document["stores"] == len(saved["stores"]) == 12
    assert [operator[one]["partitions"] for one in ("before", "after")] == [2, 3]
    assert operator["after"]["largest"] * 3 >= operator["bytes"] > operator["before"]["largest"]
    assert document["suggested_partitions"] == -(-operator["bytes"] // 1000)
    assert lines[-1].endswith(f" on average: --partitions {document['suggested_partitions']}")
    assert run(*call[:3], "--partition-size", "1KB").returncode == 2


def test_a_copy_without_its_metadata_is_refused(checkpoint: Path, dest: Path) -> None:
    (checkpoint / "metadata").unlink()
    done = run("savepoint", str(checkpoint), str(dest))
    assert done.returncode == 3
    assert "metadata, which has the query's id, is missing" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not dest.exists()


@pytest.mark.parametrize(
    ("batch", "code", "text"),
    [
        ("99", 2, "batch 99 is not committed, the commit log has batches 16 to 24"),
        ("16", 3, "offsets/15: is missing, and a restart from the savepoint would ask for it"),
    ],
)
def test_a_batch_that_cannot_be_saved_is_refused_in_one_line(
    checkpoint: Path, dest: Path, batch: str, code: int, text: str
) -> None:
    (checkpoint / "offsets/15").unlink(missing_ok=True)
    done = run("savepoint", str(checkpoint), str(dest), "--batch", batch)
    assert (done.returncode, done.stdout) == (code, "")
    assert text in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (dest / "commits").exists()


def test_sources_that_cannot_be_checked_are_named(checkpoint: Path, dest: Path) -> None:
    entry = checkpoint / "offsets/24"
    entry.write_bytes(entry.read_bytes().removesuffix(b"-") + b'{"topic":{"0":4}}\n17\n-')
    shown = run("savepoint", str(checkpoint), str(dest), "--dry-run").stdout.splitlines()[2]
    assert shown == "sources   1: unknown whether they still have what follows batch 24"
    done = run("savepoint", str(checkpoint), str(dest), "--json")
    assert json.loads(done.stdout)["unchecked_sources"] == ["1"]


def test_an_empty_offset_is_refused_in_one_line(checkpoint: Path, dest: Path) -> None:
    entry = checkpoint / "offsets/24"
    entry.write_bytes(entry.read_bytes().removesuffix(b"-") + b'{"topic":{}}')
    done = run("savepoint", str(checkpoint), str(dest))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert "offsets/24: source 0 has '{\"topic\":{}}' in place of an offset" in done.stderr
    assert not dest.exists()


def test_what_cannot_be_written_is_one_line(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    done = run("savepoint", str(checkpoint), str(tmp_path / "file" / "dest"))
    assert done.returncode == 5
    assert done.stderr.count("\n") == 1


def test_a_savepoint_of_a_savepoint_is_equal(tmp_path: Path, dest: Path) -> None:
    root = tmp_path / "ck"
    root.mkdir()
    write_checkpoint(LocalStorage(root))
    assert run("savepoint", str(root), str(dest)).returncode == 0
    again = tmp_path / "again"
    assert run("savepoint", str(dest), str(again)).returncode == 0
    own = {"_statemaint"}
    shutil.rmtree(dest / "_statemaint")
    assert files(dest) == {one for one in files(again) if one.split("/")[0] not in own}
    for path in files(dest):
        assert (again / path).read_bytes() == (dest / path).read_bytes()
