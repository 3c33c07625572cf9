"""A savepoint of every batch of every archived checkpoint is healthy and has the same rows."""

import json
import re
from pathlib import Path

import pytest

from statemaint.audit import digest_stores, doctor, verify
from statemaint.savepoint import savepoint
from statemaint.storage import LocalStorage, MemoryStorage
from tests.checkpoints.archive import recorded
from tests.checkpoints.environments import VERSIONS
from tests.checkpoints.families import archive_names
from tests.support.archived import archived, loadable_batches
from tests.support.marks import rotated

ARCHIVES = [*VERSIONS, *(name for name in archive_names() if name.startswith("rocks-"))]
EVERY = [(archive, kind) for archive in ARCHIVES for kind in recorded(archive)]
_VERSIONED = re.compile(r"state/\d+/\d+/(?:[^/]+/)?(\d+)(?:_[0-9a-f-]+)?\.(\w+)")


@pytest.fixture(params=rotated(EVERY), ids="-".join)
def storage(request: pytest.FixtureRequest) -> MemoryStorage:
    return archived(request.param)


def test_a_savepoint_restarts_after_its_batch_with_the_same_rows(
    storage: MemoryStorage, tmp_path: Path
) -> None:
    before = storage.files
    batches = loadable_batches(storage)
    for batch in {batches[1], batches[len(batches) // 2], batches[-1]}:
        dest = LocalStorage(tmp_path / str(batch))
        report = savepoint(storage, dest, batch=batch)
        assert digest_stores(dest) == digest_stores(storage, version=batch + 1)
        assert verify(dest, deep=True).findings == ()
        diagnosis = doctor(dest, deep=True)
        assert (diagnosis.restarts, diagnosis.resumable) == (True, True)
        assert (diagnosis.checkpoint.batches, diagnosis.checkpoint.resumes) == ((batch,), batch + 1)
        there = {
            path.relative_to(dest.root).as_posix()
            for path in tmp_path.joinpath(str(batch)).rglob("*")
            if path.is_file()
        }
        states = [found for path in there if (found := _VERSIONED.fullmatch(path))]
        assert {(found[1], found[2]) for found in states} <= {
            (str(batch + 1), "zip"),
            (str(batch + 1), "snapshot"),
        }
        assert len(states) == report.stores
        assert {*report.note.files, "metadata"} == {
            one for one in there if not one.startswith("_statemaint/")
        }
        assert json.loads(dest.read("metadata")) == {"id": report.note.query_id}
    assert storage.files == before
