"""A savepoint of every batch of every archived checkpoint is healthy and has the same rows."""

import json
import re
from pathlib import Path

import pytest

from statemaint.audit import digest_stores, doctor, verify
from statemaint.errors import UnsupportedError
from statemaint.savepoint import savepoint
from statemaint.storage import LocalStorage
from tests.checkpoints.archive import recorded
from tests.checkpoints.environments import VERSIONS
from tests.checkpoints.families import archive_names
from tests.support.archived import archived, loadable_batches, shows_no_format
from tests.support.marks import rotated

NO_FORMAT = "there is no zip that shows which"
ARCHIVES = [*VERSIONS, *(name for name in archive_names() if name.startswith("rocks-"))]
EVERY = [(archive, kind) for archive in ARCHIVES for kind in recorded(archive)]
_VERSIONED = re.compile(r"state/\d+/\d+/(?:[^/]+/)?(\d+)(?:_[0-9a-f-]+)?\.(\w+)")


@pytest.fixture(params=rotated(EVERY))
def name(request: pytest.FixtureRequest) -> tuple[str, str]:
    archive, kind = request.param
    return archive, kind


def test_a_savepoint_restarts_after_its_batch_with_the_same_rows(
    name: tuple[str, str], tmp_path: Path
) -> None:
    storage = archived(name)
    before = storage.files
    if shows_no_format(name):
        with pytest.raises(UnsupportedError, match=NO_FORMAT):
            savepoint(storage, LocalStorage(tmp_path / "none"))
        assert not (tmp_path / "none").exists()
        return
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
