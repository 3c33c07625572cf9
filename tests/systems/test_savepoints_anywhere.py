"""A savepoint from any storage to any other: a disk, a bucket, a real HDFS; equal, and healthy."""

from itertools import count, product
from pathlib import Path

import pytest

from statemaint.audit import digest_stores, verify
from statemaint.provider import bootstrap
from statemaint.recover.rollback import rollback
from statemaint.savepoint import savepoint
from statemaint.storage import HadoopStorage, LocalStorage, Storage
from statemaint.storage.hadoop.jvm import Jvm
from tests.checkpoints.archive import contents
from tests.support.restored import given_rows, operators_of, removed
from tests.support.s3 import Place

KINDS = {"hdfs-backed": ("4.3.0", "aggregation2"), "rocks": ("rocks-4.3.0", "rocks-join4-ids")}
PLACES = ("disk", "bucket", "hdfs")
_numbers = count()


@pytest.fixture
def places(ceph_place: Place, folder: str, jvm: Jvm, tmp_path: Path) -> dict[str, list[Storage]]:
    """Returns two empty places of each kind, of which the second does not exist yet."""
    buckets = [ceph_place.storage(), ceph_place.storage()]
    return {
        "disk": [
            LocalStorage(tmp_path),
            LocalStorage(tmp_path.parent / f"s{next(_numbers)}" / "x"),
        ],
        "bucket": [*buckets],
        "hdfs": [HadoopStorage(f"{folder}/{one}", jvm=jvm) for one in ("source", "saved/x")],
    }


@pytest.mark.parametrize(("start", "end"), [*product(PLACES, PLACES)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_savepoint_goes_from_any_storage_to_any(
    places: dict[str, list[Storage]], kind: str, start: str, end: str
) -> None:
    source, dest = places[start][0], places[end][1]
    source.create_root()
    archive, name = KINDS[kind]
    for path, content in contents(archive)[name].items():
        source.write(path, [content])
    before = {entry.path for entry in source.list("")}
    report = savepoint(source, dest)
    assert digest_stores(dest) == digest_stores(source)
    assert verify(dest, deep=True).findings == ()
    again = savepoint(source, dest, batch=report.note.batch)
    assert again.note == report.note
    assert {entry.path for entry in source.list("")} == before


@pytest.mark.parametrize("end", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_savepoint_with_given_rows_is_one_on_any_storage(
    places: dict[str, list[Storage]], kind: str, end: str
) -> None:
    source, dest = places["disk"][0], places[end][1]
    archive, name = KINDS[kind]
    for path, content in contents(archive)[name].items():
        source.write(path, [content])
    (operator,), (version, before) = operators_of(source), digest_stores(source)
    made = bootstrap(source, removed(given_rows(source, operator)), to=dest)
    assert digest_stores(source) == (version, before)
    assert made.version == version + 1
    assert digest_stores(dest, version=version) == (version, before)
    assert not sum(digest.rows for _, digest in digest_stores(dest)[1])
    assert verify(dest, deep=True).findings == ()
    rollback(dest, made.batch - 1, trash_for=60.0)
    assert digest_stores(dest) == (version, before)
