"""What seven Sparks made, kept in `tests/checkpoints`: we read and maintain all of it."""

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from statemaint.codec.digest import StateDigest
from statemaint.maintain import digest_stores, maintain, verify
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.storage import Storage, open_storage
from tests.checkpoints.archive import recorded, unpack
from tests.checkpoints.environments import VERSIONS

TIGHT = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=4, grace=0, orphan_age=0)
EVERY = [f"{version}/{kind}" for version in VERSIONS for kind in recorded(version)]
Digests = dict[tuple[StoreId, int], StateDigest]


@pytest.fixture(scope="module")
def unpacked() -> Iterator[Path]:
    with TemporaryDirectory() as place:
        for version in VERSIONS:
            unpack(version, Path(place) / version)
        yield Path(place)


@pytest.fixture(params=EVERY)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def checkpoint(unpacked: Path, name: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(unpacked / name, tmp_path / "checkpoint"))


@pytest.fixture
def storage(checkpoint: Path) -> Storage:
    return open_storage(str(checkpoint))


def test_spark_wrote_nothing_that_we_find_damaged(storage: Storage) -> None:
    found = verify(storage, deep=True)
    assert found.findings == ()
    assert found.versions_checked > 0


def test_we_count_the_rows_that_spark_counts(storage: Storage, name: str) -> None:
    version, kind = name.split("/")
    for store, batches in recorded(version)[kind].items():
        rows = {int(batch): found["rows"] for batch, found in batches.items()}
        assert {batch: row_counts(storage, batch)[store] for batch in rows} == rows


def test_maintenance_leaves_every_retained_version_as_it_was(
    storage: Storage, checkpoint: Path
) -> None:
    before = digests(storage, checkpoint)
    report = maintain(storage, TIGHT)
    assert report.exit_code == 0
    for store in {path.parent for path in checkpoint.glob("state/**/[0-9]*.delta")}:
        assert not (store / "1.delta").exists()
        assert len([*store.glob("[0-9]*.snapshot")]) == 2
    assert digests(storage, checkpoint) == before
    assert verify(storage, deep=True).findings == ()


def test_a_second_run_finds_nothing_to_do(storage: Storage, checkpoint: Path) -> None:
    maintain(storage, TIGHT)
    before = listing(checkpoint)
    report = maintain(storage, TIGHT)
    assert (report.exit_code, report.snapshots_written, report.files_deleted) == (0, 0, {})
    assert listing(checkpoint) == before


def retained_batches(checkpoint: Path) -> list[int]:
    return [int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")]


def digests(storage: Storage, checkpoint: Path) -> Digests:
    return {
        (store, batch): found
        for batch in retained_batches(checkpoint)
        for store, found in digest_stores(storage, version=batch + 1)[1]
    }


def row_counts(storage: Storage, batch: int) -> Counter[str]:
    """The rows of a store in all its partitions, by `operator/name`."""
    rows: Counter[str] = Counter()
    for store, found in digest_stores(storage, version=batch + 1)[1]:
        rows[f"{store.operator}/{store.store}"] += found.rows
    return rows


def listing(checkpoint: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in checkpoint.rglob("*") if path.is_file()}
