"""Whole runs of maintenance on S3: the same state, byte for byte, as on a local disk."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.report.run import Report
from statemaint.storage import LocalStorage, MemoryStorage, S3Storage, Storage
from tests.benchmarks.requests import A_SECOND
from tests.checkpoints.archive import contents
from tests.checkpoints.environments import VERSIONS
from tests.support.checkpoints import STORE, TIGHT, delta_bytes, state, write_checkpoint
from tests.support.fault_proxy import FaultProxy
from tests.support.s3 import Moto, Place

MIB = 1024 * 1024
# What a run costs whatever the checkpoint's size: four folders, scanned twice where need be.
CONSTANT = 16  # one for the log of the file source, one for announcements, one a scan for pins


def filled(place: Place, folder: Path, files: Mapping[str, bytes]) -> tuple[Storage, S3Storage]:
    """Returns the same files on a local disk and in a bucket."""
    local, s3 = LocalStorage(folder), place.storage()
    for path, content in files.items():
        local.write(path, [content])
    place.fill(s3.root, files)
    return local, s3


def neglected(**options: Any) -> Mapping[str, bytes]:
    memory = write_checkpoint(MemoryStorage(), **options)
    return memory.files


def counts(report: Report) -> tuple[Any, ...]:
    return (
        report.exit_code,
        report.snapshots_written,
        report.files_deleted,
        report.bytes_deleted,
        report.bytes_written,
    )


def both(
    local: Storage, s3: Storage, capsys: pytest.CaptureFixture[str]
) -> Iterable[tuple[Report, Report]]:
    """Runs maintenance twice on each, and compares what is left each time."""
    for _ in range(2):
        files = len(list(s3.list("")))
        before = s3.requests.get("list", 0)
        reports = maintain(local, TIGHT), maintain(s3, TIGHT)
        lists = s3.requests.get("list", 0) - before
        assert state(s3) == state(local)
        assert counts(reports[1]) == counts(reports[0])
        # A slow run looks for pins and announcements more often.
        assert lists <= 2 * files / 1000 + CONSTANT + A_SECOND * reports[1].seconds
        with capsys.disabled():
            print(f"\n{lists} LIST requests for {files} objects", end="")  # noqa: T201
        yield reports


def test_a_neglected_checkpoint_is_maintained_as_on_disk(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    local, s3 = filled(place, tmp_path, neglected())
    first, second = both(local, s3, capsys)
    assert first[1].snapshots_written == 4
    assert sum(first[1].files_deleted.values()) > 30
    assert (second[1].snapshots_written, second[1].files_deleted) == (0, {})


def test_a_join_with_row_checksums_is_maintained_as_on_disk(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = neglected(stores=("left", "right"), codec="zstd", row_checksums=True)
    local, s3 = filled(place, tmp_path, files)
    first, _ = both(local, s3, capsys)
    assert first[1].snapshots_written == 8


def test_snapshots_larger_than_a_part_are_the_same_as_on_disk(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    local, s3 = LocalStorage(tmp_path), place.storage(part_size=5 * MIB)
    for storage in (local, s3):
        write_checkpoint(storage, last=12)
        for version in range(1, 13):  # a megabyte that no codec makes smaller
            row = (f"key-{version}".encode(), Random(version).randbytes(MIB))  # noqa: S311
            path = f"{STORE.directory}/{version}.delta"
            storage.write(path, [delta_bytes([row])], overwrite=True)
    first, _ = both(local, s3, capsys)
    assert first[1].snapshots_written == 4
    assert s3.requests["post"] >= 2
    assert max(entry.size for entry in s3.list("state")) > 12 * MIB


@pytest.mark.parametrize("version", [VERSIONS[0], VERSIONS[-1]])
def test_what_spark_wrote_is_maintained_as_on_disk(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str
) -> None:
    kinds = contents(version)
    kind = next(iter(kinds))
    local, s3 = filled(place, tmp_path, kinds[kind])
    first, second = both(local, s3, capsys)
    assert first[1].snapshots_written > 0
    assert (second[1].snapshots_written, second[1].files_deleted) == (0, {})


@pytest.mark.parametrize("policy", [TIGHT, TIGHT.override(trash_for=86_400.0)])
def test_a_page_of_deletions_costs_one_request_for_the_ledger(
    broken: Place, proxy: FaultProxy, moto_place: Moto, policy: Policy
) -> None:
    """And as many bytes as it has lines, however much has been noted before."""
    memory, storage = MemoryStorage(), broken.storage()
    write_checkpoint(memory, last=220, batches=range(211, 220), partitions=1)
    moto_place.fill(storage.root, memory.files)
    proxy.seen.clear()
    report = maintain(storage, policy)
    pages = -(-sum(report.files_deleted.values()) // 200)
    noted = {"ledger/0/0/": pages}  # both snapshots are noted with the first
    if policy.trash_for:
        noted["/manifest/0-0.page-"] = pages
    assert (pages, report.snapshots_written) == (2, 2)
    for part, requests in noted.items():
        mine = [one for one in proxy.seen if part in one.target.partition("?")[0]]
        assert [one.method for one in mine] == ["PUT"] * requests
        sizes = [int(one.headers["Content-Length"]) for one in mine][-pages:]
        assert max(sizes[1:]) < sizes[0] / 2
