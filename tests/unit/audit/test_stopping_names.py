"""Names in a store's directory that stop Spark (`tests/verdicts` has what it does then)."""

import pytest

from statemaint.audit import doctor, verify
from statemaint.maintain import maintain
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.plan.findings.health import name_findings, unloadable
from statemaint.plan.findings.restart import blocks_batch, blocks_load, names_snapshot
from statemaint.planning import scan_checkpoint
from statemaint.recover import plan_repair
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import snapshot_bytes, state_at
from tests.support.rocks import rocks_store, write_rocks_checkpoint

STORE = StoreId(0, 0)


def damage(storage: MemoryStorage) -> list[tuple[str, str | None]]:
    return [(one.code.value, one.path) for one in verify(storage).findings if one.damage]


@pytest.mark.parametrize(
    ("name", "stops"),
    [
        ("foo.snapshot", True),
        (".snapshot", True),
        ("5.x.snapshot", True),
        ("9223372036854775808.snapshot", True),
        ("9223372036854775807.snapshot", False),
        ("+7.snapshot", False),  # a number to Java
        ("foo.bar", False),
        ("foo.delta", False),
        ("foo.zip", False),
    ],
)
def test_what_ends_as_a_snapshot_must_begin_with_a_number(
    storage: MemoryStorage, name: str, *, stops: bool
) -> None:
    store = scan_checkpoint(storage).stores[0]
    assert unloadable(store, name) is stops


def test_a_zip_that_is_none_stops_rocksdb() -> None:
    store = rocks_store("1c 2c", STORE)
    assert unloadable(store, "foo.zip")
    assert not unloadable(store, "foo.snapshot")
    assert unloadable(store, "3_4a4e0c4e-0000-4000-8000-000000000000.zip"), "it has no ids"
    by_id = rocks_store("1_ac 2_bc", STORE, ids={1: "a", 2: "b"})
    assert not unloadable(by_id, "foo.zip")
    nameless = rocks_store("1_ac 2_bz", STORE)
    assert not unloadable(nameless, "2_b.zip"), "its commits may be missing"


def test_a_zip_with_an_id_stops_a_query_without_ids() -> None:
    storage = write_rocks_checkpoint(MemoryStorage(), last=4, batches=range(4))
    path = "state/0/0/3_4a4e0c4e-0000-4000-8000-000000000000.zip"
    storage.write(path, [b"left"])
    assert ("UNLOADABLE_NAME", path) in damage(storage)
    assert not doctor(storage).restarts


def test_a_stray_snapshot_stops_the_restart(storage: MemoryStorage) -> None:
    storage.write("state/0/1/foo.snapshot", [b"left"])
    assert damage(storage) == [("UNLOADABLE_NAME", "state/0/1/foo.snapshot")]
    found = doctor(storage)
    assert (found.restarts, found.goes_back_to) == (False, None)
    assert found.next == ("move the named files and directories out of the stores' directories",)
    assert plan_repair(storage).actions == ()
    assert "state/0/1/foo.snapshot" not in [one.path for one in found.findings if not one.damage]


@pytest.mark.parametrize(
    ("name", "restarts"),
    [
        ("26.delta", False),  # the next batch cannot commit
        ("27.delta", True),
        ("25.snapshot", False),  # newer than any snapshot, and not above the newest version
        ("12.snapshot", True),  # there is a newer snapshot
        ("26.snapshot", True),
    ],
)
def test_a_directory_in_the_place_of_a_file(
    storage: MemoryStorage, name: str, *, restarts: bool
) -> None:
    storage.write("state/0/0/20.snapshot", [snapshot_bytes(state_at(20))])
    storage.write(f"state/0/0/{name}/file", [b"left"])
    assert damage(storage) == [("BLOCKED_NAME", f"state/0/0/{name}")]
    found = doctor(storage)
    assert found.restarts is restarts
    assert found.goes_back_to is None
    assert not any("cannot be repaired" in one for one in found.next), "moving it aside is enough"


def test_the_name_of_one_that_spark_parses_says_the_worse(storage: MemoryStorage) -> None:
    storage.write("state/0/0/foo.snapshot/file", [b"left"])
    assert damage(storage) == [("UNLOADABLE_NAME", "state/0/0/foo.snapshot")]


def test_a_directory_without_a_number_blocks_nothing_known(storage: MemoryStorage) -> None:
    storage.write("state/0/0/foo.delta/file", [b"left"])
    checkpoint = scan_checkpoint(storage)
    (found,) = name_findings(checkpoint.stores[0], checkpoint)
    assert (found.code, found.version) == (FindingCode.BLOCKED_NAME, None)
    assert not blocks_batch(found, 26)
    assert not blocks_load(found, checkpoint)


def test_only_a_snapshots_name_blocks_a_load(storage: MemoryStorage) -> None:
    checkpoint = scan_checkpoint(storage)
    delta = Finding(FindingCode.BLOCKED_NAME, "", STORE, 25, path="state/0/0/25.delta")
    assert not blocks_load(delta, checkpoint)
    assert not names_snapshot(Finding(FindingCode.UNKNOWN_FILE, "", path="a.snapshot"))


def test_rocksdb_passes_over_a_directory_that_is_named_as_a_zip() -> None:
    storage = write_rocks_checkpoint(MemoryStorage(), last=4, batches=range(4))
    storage.write("state/0/0/4.zip/file", [b"left"])
    assert damage(storage) == [("BLOCKED_NAME", "state/0/0/4.zip")]
    found = doctor(storage)
    assert (found.resumable, found.restarts_since) == (False, "4.2")
    assert found.passed_over == ("state/0/0/4.zip",)
    storage.delete("state/0/0/2.changelog")
    assert not doctor(storage).restarts


def test_with_unique_ids_a_directory_with_a_plain_name_is_a_notice() -> None:
    """The query writes `26_<id>.changelog`, and executors upload `26_<id>.zip`."""
    storage = write_rocks_checkpoint(MemoryStorage(), with_ids=True)
    for name in ("26.changelog", "26.zip", "20.zip"):
        storage.write(f"state/0/0/{name}/file", [b"left"])
    assert damage(storage) == []
    found = doctor(storage)
    assert (found.restarts, found.restarts_since) == (True, None)
    notices = {one.detail.partition(":")[0] for one in found.findings if one.code == "UNKNOWN_FILE"}
    assert notices == {f"state/0/0/{name}/file" for name in ("26.changelog", "26.zip", "20.zip")}
    report = maintain(storage, Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0))
    assert report.exit_code == 0
    assert all(f"state/0/0/{name}/file" in storage.files for name in ("26.changelog", "20.zip"))
