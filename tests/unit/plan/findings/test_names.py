"""Names in a store's directory that stop Spark, or will stop it."""

from dataclasses import replace

import pytest

from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.findings import Finding, FindingCode
from statemaint.plan.findings.health import name_findings, unloadable
from statemaint.plan.findings.restart import blockers, blocks_batch, blocks_load, names_snapshot
from tests.support.checkpoints import STORE, checkpoint, store
from tests.support.rocks import rocks_store

HOME = STORE.directory


@pytest.mark.parametrize(
    ("name", "fails"),
    [
        ("9223372036854775807.snapshot", False),
        ("9223372036854775808.snapshot", True),
        ("-9223372036854775808.snapshot", False),
        ("-9223372036854775809.snapshot", True),
        ("+1.snapshot", False),
        ("x.snapshot", True),
        (".snapshot", True),
        ("1.zip", False),
        ("x", False),
    ],
)
def test_a_snapshot_s_name_is_a_long_of_java(name: str, *, fails: bool) -> None:
    assert unloadable(store("1d"), name) is fails


@pytest.mark.parametrize(
    ("one", "name", "fails"),
    [
        (rocks_store("1c"), "x.zip", True),
        (rocks_store("1c"), "1.zip", False),
        (rocks_store("1c"), "x.snapshot", False),
        (rocks_store("1_ac", ids={1: "a"}), "x.zip", False),
        (rocks_store(""), "x.zip", False),
    ],
    ids=["no number", "a number", "another provider's", "with ids", "where nothing counts"],
)
def test_a_zip_s_name_is_one_where_versions_have_no_ids(
    one: Store, name: str, *, fails: bool
) -> None:
    assert unloadable(one, name) is fails


def with_folders(*names: str) -> Checkpoint:
    folders = tuple(f"{HOME}/{name}" for name in names)
    return replace(checkpoint(store("1d 2d 2s 3d"), batches=range(4)), directories=folders)


def found(*names: str, files: str = "1d") -> list[tuple[FindingCode, object, object, object]]:
    findings = name_findings(store(files), with_folders(*names))
    return [(one.code, one.store, one.version, one.path) for one in findings]


def test_a_name_that_is_no_number_is_found_where_it_lies() -> None:
    assert found(files="1d x:a.snapshot") == [
        (FindingCode.UNLOADABLE_NAME, STORE, None, f"{HOME}/a.snapshot")
    ]
    (one,) = name_findings(store("x:a.snapshot"), with_folders())
    assert one.detail.endswith("move it out of the directory, it is kept")


def test_a_directory_takes_the_name_of_a_file_to_come() -> None:
    assert found("4.snapshot") == [(FindingCode.BLOCKED_NAME, STORE, 4, f"{HOME}/4.snapshot")]
    assert found("4.delta", "b.snapshot") == [
        (FindingCode.UNLOADABLE_NAME, STORE, None, f"{HOME}/b.snapshot"),
        (FindingCode.BLOCKED_NAME, STORE, 4, f"{HOME}/4.delta"),
    ]


@pytest.mark.parametrize(
    ("name", "in_the_way"),
    [
        ("5.changelog", False),
        ("5.zip", False),
        ("5_c.changelog", False),
        ("4.zip", False),
        ("4_c.zip", False),
        ("foo.changelog", False),
        ("4_b.zip", True),
        ("4_b.changelog", True),
        ("3_a.changelog", True),
        ("2.zip", False),
        ("2_x.zip", True),
        ("1.zip", True),
        ("1_x.changelog", True),
    ],
)
def test_under_unique_ids_only_names_of_committed_versions_are_used_again(
    name: str, *, in_the_way: bool
) -> None:
    """Version 1 was written without an id, and no commit shows the id of version 2.

    The next change is `5_<new id>.changelog`.
    """
    with_ids = rocks_store("1c 2_xc 3_ac 4_bc", ids={3: "a", 4: "b"}, plain=1)
    findings = [*name_findings(with_ids, with_folders(name))]
    assert [one.code for one in findings] == [FindingCode.BLOCKED_NAME] * in_the_way
    without = [*name_findings(rocks_store("1c 2c 3c 4c"), with_folders("5.changelog", "5.zip"))]
    assert [one.code for one in without] == [FindingCode.BLOCKED_NAME] * 2


def blocked(name: str | None, version: int | None) -> Finding:
    path = None if name is None else f"{HOME}/{name}"
    return Finding(FindingCode.BLOCKED_NAME, "detail", STORE, version, path=path)


def test_a_batch_is_blocked_by_the_name_of_its_change() -> None:
    assert blocks_batch(blocked("4.delta", 4), 4)
    assert not blocks_batch(blocked("4.delta", 4), 5)
    assert not blocks_batch(blocked("4.snapshot", 4), 4)
    assert not blocks_batch(blocked(None, 4), 4)
    new = checkpoint(store(""), batches=())
    found = [blocked("1.delta", 1), blocked("2.delta", 2)]
    assert [*blockers(new, found)] == found[:1]


def test_a_directory_has_a_snapshot_s_name_by_its_path() -> None:
    assert names_snapshot(blocked("4.snapshot", 4))
    assert not names_snapshot(blocked("4.delta", 4))
    assert not names_snapshot(blocked(None, 4))


@pytest.mark.parametrize(
    ("version", "blocks"), [(1, False), (2, False), (3, True), (4, True), (5, False), (None, False)]
)
def test_a_restart_takes_it_for_the_newest_snapshot(version: int | None, *, blocks: bool) -> None:
    """The restart loads version 4; the newest snapshot at or below it is of version 2."""
    whole = with_folders()
    assert whole.resumes == 4
    assert blocks_load(blocked(f"{version}.snapshot", version), whole) is blocks


def test_without_any_snapshot_the_first_version_is_blocked_too() -> None:
    whole = checkpoint(store("1d 2d"), batches=range(2))
    assert blocks_load(blocked("1.snapshot", 1), whole)
    assert not blocks_load(blocked("0.snapshot", 0), whole)
