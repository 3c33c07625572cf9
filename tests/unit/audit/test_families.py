"""Stores with column families: only zips name them, and a chain needs a zip that names its own."""

import re
from collections.abc import Iterator
from io import BytesIO

import pytest

from statemaint.audit import digest_stores, doctor, verify
from statemaint.codec.compression.base import decode, encode
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.rocksdb import changelog
from statemaint.codec.rocksdb.changelog import PUT, Header
from statemaint.errors import DamagedError
from statemaint.maintain import maintain
from statemaint.model.findings import FindingCode
from statemaint.model.policy import Policy
from statemaint.planning import plan_checkpoint
from statemaint.recover import plan_repair, plan_rollback, repair
from statemaint.storage import MemoryStorage
from tests.checkpoints.archive import contents
from tests.support.checkpoints import drop
from tests.support.rocks import parts_of

EVOLVED = ["rocks-evolving", "rocks-evolving-ids"]
"""Batch 2 is the first with one more state variable, and the log still has batches 3 to 11."""
KINDS = ["rocks-join3", "rocks-join4", "rocks-timed", "rocks-join3-ids", "rocks-timed-ids"]
LAST = 12


def checkpoint_of(kind: str) -> MemoryStorage:
    archive = "rocks-evolved-4.3.0" if "evolving" in kind else "rocks-4.3.0"
    return MemoryStorage(dict(contents(archive)[kind]))


def zip_of(storage: MemoryStorage, version: int) -> str:
    names = (f"state/0/0/{version}.zip", f"state/0/0/{version}_")
    (path,) = (one for one in storage.files if one.startswith(names) and one.endswith(".zip"))
    return path


def damage(storage: MemoryStorage, *, deep: bool = False) -> set[FindingCode]:
    return {one.code for one in verify(storage, deep=deep).findings if one.damage}


def planned_damage(storage: MemoryStorage) -> Iterator[FindingCode]:
    _, plan = plan_checkpoint(storage, Policy())
    yield from (one.code for store in plan.stores for one in store.findings if one.damage)


@pytest.fixture(params=KINDS)
def without_its_zip(request: pytest.FixtureRequest) -> MemoryStorage:
    storage = checkpoint_of(request.param)
    assert not damage(storage)
    storage.delete(zip_of(storage, 1))
    return storage


def test_a_store_that_lost_the_only_zip_with_its_families_does_not_load(
    without_its_zip: MemoryStorage,
) -> None:
    assert damage(without_its_zip) == {FindingCode.BROKEN_CHAIN}
    assert damage(without_its_zip, deep=True) == {FindingCode.BROKEN_CHAIN}
    assert [*planned_damage(without_its_zip)] == [FindingCode.BROKEN_CHAIN]
    diagnosis = doctor(without_its_zip, deep=True)
    assert not diagnosis.resumable
    assert not diagnosis.self_repairing
    assert diagnosis.loadable == ()


def test_a_repair_does_not_call_a_store_without_its_families_whole(
    without_its_zip: MemoryStorage,
) -> None:
    plan = plan_repair(without_its_zip)
    assert plan.actions == ()
    assert [one.code for one in plan.findings if one.damage] == [FindingCode.BROKEN_CHAIN]


@pytest.mark.parametrize("batch", [LAST, LAST - 4])
def test_no_rollback_leads_to_a_version_without_its_families(
    without_its_zip: MemoryStorage, batch: int
) -> None:
    with pytest.raises(DamagedError, match="which no earlier zip names"):
        plan_rollback(without_its_zip, batch)


def test_no_digest_is_made_of_rows_without_a_family(without_its_zip: MemoryStorage) -> None:
    with pytest.raises(DamagedError, match=r"uses column families 2, 3"):
        digest_stores(without_its_zip)


@pytest.mark.parametrize("described", [True, False], ids=["described", "undescribed"])
def test_a_deep_look_finds_it_by_the_changes_alone(*, described: bool) -> None:
    """Without metadata and schemas nothing but the changelogs says that there are families."""
    storage = checkpoint_of("rocks-join3")
    storage.delete(zip_of(storage, 1))
    if not described:
        for path in [one for one in storage.files if "/_metadata/" in one or "_stateSchema" in one]:
            storage.delete(path)
    assert FindingCode.BROKEN_CHAIN in damage(storage, deep=True)
    assert not doctor(storage).resumable


def test_a_partition_without_changes_needs_no_names() -> None:
    """Spark creates `default` itself, and the other families once the query asks for them."""
    storage = checkpoint_of("rocks-timed")
    storage.delete(zip_of(storage, 1))
    empty = b"".join(encode(COMPRESSIONS["lz4"], changelog.encode(Header(2), [])))
    for path in [one for one in storage.files if one.startswith("state/0/0/")]:
        if path.endswith(".changelog"):
            storage.write(path, [empty], overwrite=True)
        elif path.endswith(".crc"):
            storage.delete(path)
    assert not damage(storage, deep=True)
    assert doctor(storage).resumable


@pytest.mark.parametrize("kind", KINDS)
def test_an_operator_with_families_needs_its_metadata(kind: str) -> None:
    storage = checkpoint_of(kind)
    drop(storage, "state/0/_metadata")
    assert damage(storage) == {FindingCode.UNREADABLE_METADATA}
    assert not doctor(storage).restarts


def test_another_operator_writes_its_metadata_again() -> None:
    storage = checkpoint_of("rocks-aggregation")
    drop(storage, "state/0/_metadata")
    assert not damage(storage)
    assert doctor(storage).restarts


def test_a_zip_that_still_names_its_families_is_built_again_without_its_tables() -> None:
    storage = checkpoint_of("rocks-timed")
    before = digest_stores(storage)
    (table,) = parts_of(storage.files[zip_of(storage, 1)])
    storage.delete(f"state/0/0/SSTs/{table}")
    assert not doctor(storage).self_repairing
    repair(storage, trash_for=0)
    assert not damage(storage, deep=True)
    assert digest_stores(storage) == before


# -- a state variable that was added


@pytest.fixture(params=EVOLVED)
def evolved(request: pytest.FixtureRequest) -> MemoryStorage:
    return checkpoint_of(request.param)


def test_a_query_that_added_a_state_variable_is_healthy(evolved: MemoryStorage) -> None:
    """Changelogs from 3 on have a family that 1.zip does not name, and 3.zip does."""
    assert not damage(evolved, deep=True)
    assert doctor(evolved, deep=True).resumable


def test_a_query_that_added_a_state_variable_stays_healthy_under_maintenance(
    evolved: MemoryStorage,
) -> None:
    before = digest_stores(evolved)
    report = maintain(evolved, Policy(min_deltas_for_snapshot=3, min_batches_to_retain=2, grace=0))
    assert report.exit_code == 0
    assert report.files_deleted  # 3.zip was compared with 1.zip and its changelogs
    assert not damage(evolved, deep=True)
    assert digest_stores(evolved) == before


def test_the_zip_of_a_new_state_variable_is_missed(evolved: MemoryStorage) -> None:
    evolved.delete(zip_of(evolved, 3))
    for deep in (False, True):
        assert damage(evolved, deep=deep) == {FindingCode.BROKEN_CHAIN}
    diagnosis = doctor(evolved)
    assert (diagnosis.resumable, diagnosis.self_repairing, diagnosis.loadable) == (False, False, ())
    with pytest.raises(DamagedError, match=r"uses column family 7, which \S+ does not name"):
        plan_rollback(evolved, 8)


def test_the_zip_before_a_new_state_variable_is_not_needed_above(evolved: MemoryStorage) -> None:
    evolved.delete(zip_of(evolved, 1))
    assert not damage(evolved, deep=True)


def test_the_zip_of_a_new_state_variable_is_built_again_without_its_tables(
    evolved: MemoryStorage,
) -> None:
    before = digest_stores(evolved)
    path = zip_of(evolved, 3)
    older = parts_of(evolved.files[zip_of(evolved, 1)])
    (table,) = (one for one in parts_of(evolved.files[path]) if one not in older)
    evolved.delete(f"state/0/0/SSTs/{table}")
    assert not doctor(evolved).self_repairing
    report = repair(evolved, trash_for=0)
    assert [one.action.path for one in report.written] == [path]
    assert not damage(evolved, deep=True)
    assert digest_stores(evolved) == before


def test_a_zip_with_the_content_of_an_older_one_is_wrong_itself(evolved: MemoryStorage) -> None:
    """Its families are older, too, and the changelogs above it are right."""
    path, older = zip_of(evolved, 3), zip_of(evolved, 1)
    evolved.write(path, [evolved.files[older]], overwrite=True)
    for side in [one for one in evolved.files if f"{path.rpartition('/')[2]}.crc" in one]:
        evolved.delete(side)
    found = [one for one in verify(evolved, deep=True).findings if one.damage]
    assert {(one.code, one.path) for one in found} >= {(FindingCode.SNAPSHOT_MISMATCH, path)}
    assert doctor(evolved, deep=True).goes_back_to is None


def test_a_schema_that_cannot_be_read_hides_no_missing_zip(evolved: MemoryStorage) -> None:
    evolved.delete(zip_of(evolved, 3))
    (schema,) = (one for one in evolved.files if re.search(r"/_stateSchema/default/2_[^/]+$", one))
    evolved.write(schema, [b"?"], overwrite=True)
    assert FindingCode.BROKEN_CHAIN in damage(evolved)


@pytest.mark.parametrize("kind", ["rocks-timed", "rocks-timed-ids"])
@pytest.mark.parametrize("version", [2, LAST])
def test_a_change_without_families_does_not_belong_to_a_store_that_has_them(
    kind: str, version: int
) -> None:
    """Its time makes the zips above it doubtful, so that they are not compared with it."""
    storage = checkpoint_of(kind)
    names = (f"state/0/0/{version}.changelog", f"state/0/0/{version}_")
    (path,) = (one for one in storage.files if one.startswith(names) and one.endswith(".changelog"))
    old = changelog.read_header(decode(COMPRESSIONS["lz4"], BytesIO(storage.files[path])))
    plain = changelog.encode(Header(old.format - 1, old.lineage), [(PUT, b"key", b"value")])
    storage.write(path, encode(COMPRESSIONS["lz4"], plain), overwrite=True)
    for one in [one for one in storage.files if one.endswith(".crc")]:
        storage.delete(one)
    assert damage(storage) == damage(storage, deep=True) == {FindingCode.CORRUPT_FILE}
    assert {one.code for one in maintain(storage, Policy()).findings if one.damage} == {
        FindingCode.CORRUPT_FILE
    }
