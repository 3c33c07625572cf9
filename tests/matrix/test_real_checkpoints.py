"""What seven Sparks made, kept in `tests/checkpoints`: we read and maintain all of it."""

import re

import pytest

from statemaint.audit import verify
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.storage import MemoryStorage
from tests.checkpoints.archive import contents, recorded
from tests.checkpoints.environments import VERSIONS
from tests.support.archived import archived, digests, loadable_batches, row_counts
from tests.support.marks import rotated

TIGHT = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=4, grace=0, orphan_age=0)
EVERY = [(version, kind) for version in VERSIONS for kind in recorded(version)]


@pytest.fixture(params=rotated(EVERY))
def name(request: pytest.FixtureRequest) -> tuple[str, str]:
    version, kind = request.param
    return version, kind


@pytest.fixture
def storage(name: tuple[str, str]) -> MemoryStorage:
    return archived(name)


def test_all_that_is_kept_is_said_by_spark_too() -> None:
    assert EVERY == [(version, kind) for version in VERSIONS for kind in contents(version)]


def test_spark_wrote_nothing_that_we_find_damaged(storage: MemoryStorage) -> None:
    found = verify(storage, deep=True)
    shallow = verify(storage)
    assert found.findings == shallow.findings == ()
    assert shallow.versions_checked == found.versions_checked
    assert found.versions_checked >= len(loadable_batches(storage)) > 0


def test_we_count_the_rows_that_spark_counts(storage: MemoryStorage, name: tuple[str, str]) -> None:
    version, kind = name
    for batch in loadable_batches(storage):
        assert row_counts(storage, batch) == {
            store: batches[str(batch)]["rows"] for store, batches in recorded(version)[kind].items()
        }


def test_maintenance_leaves_every_retained_version_as_it_was_and_nothing_to_do(
    storage: MemoryStorage,
) -> None:
    before = digests(storage)
    assert maintain(storage, TIGHT).exit_code == 0
    stores = {store.directory for store, _ in before}
    assert stores == {path.rpartition("/")[0] for path in storage.files if path.endswith(".delta")}
    for store in stores:
        assert f"{store}/1.delta" not in storage.files
        ours = [path for path in storage.files if re.fullmatch(rf"{store}/\d+\.snapshot", path)]
        assert len(ours) == 2
    assert digests(storage) == before
    assert verify(storage, deep=True).findings == ()
    files = storage.files
    report = maintain(storage, TIGHT)
    assert (report.exit_code, report.snapshots_written, report.files_deleted) == (0, 0, {})
    assert storage.files == files
