"""Which files a repair might remove or write for a finding, and in which order."""

from dataclasses import replace

import pytest

from statemaint.listing import Entry
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.files import ChecksumFile
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId
from statemaint.model.proof import Attestation
from statemaint.plan.recovery.recovery_plan import Remove, RemoveReason, RepairStep
from statemaint.plan.recovery.repair_steps import (
    _reads_from,
    from_log,
    lacks_base,
    missing_bases,
    of_checksum,
    rebuilt,
    refers,
    repair_steps,
    self_checking,
    witness,
)
from tests.support.checkpoints import STORE, checkpoint, names, store
from tests.support.rocks import rocks_checkpoint, rocks_store

HOME = STORE.directory


def finding(code: FindingCode, name: str | None, version: int | None = None) -> Finding:
    return Finding(code, "detail", STORE, version, path=None if name is None else f"{HOME}/{name}")


def steps(found: Store, *findings: Finding) -> list[list[str]]:
    whole = checkpoint(found, batches=range(4))
    return [names(one.path for one in step.removes) for step in repair_steps(whole, findings)]


# -- what goes, and when


def test_lower_snapshots_go_first_and_checksums_last() -> None:
    assert steps(
        store("1d 1c 2d 2s 3d 3s 3k x:3.snapshot.crc x:.3.snapshot.crc.crc"),
        finding(FindingCode.STALE_CHECKSUM, ".1.delta.crc"),
        finding(FindingCode.CORRUPT_FILE, "3.snapshot"),
        finding(FindingCode.SNAPSHOT_MISMATCH, "2.snapshot"),
    ) == [
        ["2.snapshot"],
        [".3.snapshot.crc.crc", ".3.snapshot.crc", "3.snapshot.crc", "3.snapshot"],
        [".1.delta.crc"],
    ]


def test_a_checksum_goes_alone_before_it_goes_with_its_snapshot() -> None:
    found = store("1d 2d 2s 2k 3d 3s")
    wrong = finding(FindingCode.STALE_CHECKSUM, ".2.snapshot.crc")
    higher = finding(FindingCode.CORRUPT_FILE, "3.snapshot")
    assert steps(found, wrong, higher) == [
        ["3.snapshot"], [".2.snapshot.crc"], [".2.snapshot.crc", "2.snapshot"]
    ]  # fmt: skip
    whole = checkpoint(found, batches=range(4))
    alone = repair_steps(whole, (wrong,))[0].removes[0]
    assert (alone.reason, alone.store, alone.version) == (RemoveReason.STALE_CHECKSUM, STORE, 2)


def test_of_several_checksums_each_goes_alone_before_any_snapshot_goes() -> None:
    found = store("1d 2d 2s 2k 3d 3s 3k")
    wrong = [finding(FindingCode.STALE_CHECKSUM, f".{one}.snapshot.crc") for one in (2, 3)]
    assert steps(found, *wrong) == [
        [".2.snapshot.crc"],
        [".3.snapshot.crc"],
        [".2.snapshot.crc", "2.snapshot"],
        [".3.snapshot.crc", "3.snapshot"],
    ]


def test_hadoops_side_file_goes_before_sparks_checksum_that_it_was_made_for() -> None:
    found = store("1d 2d x:2.delta.crc x:.2.delta.crc.crc")
    wrong = finding(FindingCode.STALE_CHECKSUM, "2.delta.crc")
    assert steps(found, wrong) == [[".2.delta.crc.crc", "2.delta.crc"]]


def test_a_bad_table_goes_after_the_zips_that_refer_to_it_and_no_other_does() -> None:
    found = rocks_store("1c 1z:a 2z:a+b 3z:b sa sb")
    assert steps(found, finding(FindingCode.CORRUPT_FILE, "SSTs/a.sst")) == [
        ["1.zip"], ["2.zip"], ["a.sst"]
    ]  # fmt: skip


def test_of_the_snapshots_above_the_target_the_found_one_goes() -> None:
    found = store("1d 5s 6s 6k")
    whole = checkpoint(found, batches=range(4))
    above = finding(FindingCode.SNAPSHOT_ABOVE_TARGET, "6.snapshot", 6)
    (step,) = repair_steps(whole, (above,))
    assert names(one.path for one in step.removes) == [".6.snapshot.crc", "6.snapshot"]
    assert {(one.reason, one.version) for one in step.removes} == {(RemoveReason.ABOVE_TARGET, 6)}


def test_a_schema_that_nothing_can_read_goes_after_the_snapshots() -> None:
    entry = Entry("state/0/0/_metadata/schema", 1, None)
    whole = replace(checkpoint(store("1d 1s"), batches=range(1)), schemas={STORE: entry})
    bad = Finding(FindingCode.UNREADABLE_METADATA, "detail", path=entry.path)
    other = Finding(FindingCode.UNREADABLE_METADATA, "detail", path="other")
    readable = Finding(FindingCode.CORRUPT_FILE, "detail", path=entry.path)
    snapshot = finding(FindingCode.CORRUPT_FILE, "1.snapshot")
    found = repair_steps(whole, (bad, other, readable, snapshot))
    assert [step.removes[-1].path for step in found] == [f"{HOME}/1.snapshot", entry.path]
    remove = Remove(entry, RemoveReason.UNREADABLE_SCHEMA, STORE)
    assert found[1] == RepairStep(bad, (remove,), 0)


@pytest.mark.parametrize(
    ("code", "path", "expected"),
    [
        (FindingCode.STALE_CHECKSUM, "1.delta", True),
        (FindingCode.CORRUPT_FILE, ".1.delta.crc", True),
        (FindingCode.CORRUPT_FILE, "1.delta", False),
        (FindingCode.CORRUPT_FILE, None, False),
    ],
)
def test_a_finding_about_a_checksum(code: FindingCode, path: str | None, *, expected: bool) -> None:
    assert of_checksum(finding(code, path)) is expected


# -- what is written


@pytest.mark.parametrize(
    ("notation", "checksum"),
    [("1d 2d x:2.delta.crc", True), ("1d 2d x:1.delta.crc", False), ("1d 2d", False)],
)
def test_a_rebuilt_snapshot_has_a_checksum_as_the_newest_change(
    notation: str, *, checksum: bool
) -> None:
    write = from_log(store(notation), 2)
    assert write is not None
    assert (write.checksum, write.id, write.families) == (checksum, None, None)
    assert (write.path, write.version) == (f"{HOME}/2.snapshot", 2)


def test_a_rebuilt_zip_has_the_families_of_its_version() -> None:
    found = rocks_store("1c 2c 3z:a 3c 4c 5z:a sa")
    write = from_log(found, 2)
    assert write is not None
    assert write.families == found.families_at(2) == found.versions.snapshots[3]


def test_a_rebuilt_zip_may_have_the_families_of_the_one_it_replaces() -> None:
    listed = rocks_store("1c 1z:a 2c 2z:b sa")
    without = rocks_store("1c 1z:a 2c sa")
    write = from_log(without, 2, listed)
    assert write is not None
    assert write.families is not None
    assert write.families.version == 2
    whole = rocks_checkpoint(listed, batches=range(2))
    (step,) = repair_steps(whole, [finding(FindingCode.MISSING_SST, "2.zip", 2)])
    assert rebuilt(step, listed, without, range(1, 3)) == write


def test_of_what_cannot_be_folded_nothing_is_written() -> None:
    assert from_log(store("2d"), 2) is None


def test_no_zip_is_written_whose_format_nothing_shows() -> None:
    found = rocks_store("1c 2c")
    assert found.rocks is not None
    assert from_log(found, 2) is not None
    assert from_log(replace(found, rocks=replace(found.rocks, unsettled=True)), 2) is None


def test_a_rebuilt_snapshot_of_one_change_and_a_zip_with_an_id() -> None:
    write = from_log(store("1d x:1.delta.crc"), 1)
    assert write is not None
    assert write.checksum
    write = from_log(rocks_store("1_ac 2_bc", ids={1: "a", 2: "b"}), 2)
    assert write is not None
    assert (write.id, write.path) == ("b", f"{HOME}/2_b.zip")


@pytest.mark.parametrize(
    ("name", "code", "window", "written"),
    [
        ("2.snapshot", FindingCode.CORRUPT_FILE, range(2, 4), True),
        ("2.snapshot", FindingCode.CORRUPT_FILE, range(1, 2), False),
        ("2.snapshot", FindingCode.SNAPSHOT_ABOVE_TARGET, range(2, 4), False),
    ],
    ids=["a base", "no base", "above the log"],
)
def test_a_bad_snapshot_is_written_again_where_a_version_is_loaded_from_it(
    name: str, code: FindingCode, window: range, *, written: bool
) -> None:
    listed = store("1d 2d 2s 3d")
    without = replace(listed, files=tuple(one for one in listed.files if one.entry.name != name))
    (step,) = repair_steps(checkpoint(listed, batches=range(4)), (finding(code, name, 2),))
    found = rebuilt(step, listed, without, window)
    assert found == (from_log(without, 2) if written else None)
    assert (found is not None) is written


def test_a_zip_of_an_attempt_that_does_not_count_is_not_written_again() -> None:
    listed = rocks_store("1_ac 2_bc 2_xz:t 3_dc st", ids={1: "a", 2: "b", 3: "d"})
    bad = finding(FindingCode.CORRUPT_FILE, "2_x.zip", 2)
    (step,) = repair_steps(rocks_checkpoint(listed, batches=range(4)), (bad,))
    assert rebuilt(step, listed, listed, range(1, 4)) is None


def test_a_table_is_referred_to_by_a_zip() -> None:
    found = rocks_store("1c 1z:a sa sb")
    assert refers(found, f"{HOME}/SSTs/a.sst")
    assert not refers(found, f"{HOME}/SSTs/b.sst")
    assert not refers(store("1d"), f"{HOME}/SSTs/a.sst")


@pytest.mark.parametrize(
    ("codec", "row_checksums", "checking"),
    [("lz4", False, True), ("zstd", True, True), ("zstd", False, False), ("lz4", True, True)],
)
def test_blocks_of_lz4_and_rows_with_checksums_show_a_changed_byte(
    codec: str, *, row_checksums: bool, checking: bool
) -> None:
    whole = Checkpoint("memory:", codec=codec, row_checksums=row_checksums)
    assert self_checking(whole) is checking


LOST = finding(FindingCode.LINEAGE_BROKEN, "2.changelog", 2)


def test_the_lowest_missing_zip_is_written() -> None:
    found = rocks_store("1c 2c 3c")
    later = finding(FindingCode.LINEAGE_BROKEN, "3.changelog", 3)
    whole = checkpoint(found, batches=range(3))
    assert [*missing_bases(whole, (later, LOST))] == [
        RepairStep(LOST, (), 2, rebuild=from_log(found, 2))
    ]
    assert [*missing_bases(whole, ())] == []


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (LOST, True),
        (replace(LOST, code=FindingCode.CORRUPT_FILE), False),
        (replace(LOST, store=StoreId(0, 1)), False),
        (replace(LOST, version=None), False),
        (replace(LOST, path=f"{HOME}/9.changelog"), False),
        (replace(LOST, path=None), False),
    ],
)
def test_a_lineage_lacks_a_zip_where_its_changelog_is_there(
    found: Finding, *, expected: bool
) -> None:
    assert lacks_base(rocks_store("1c 2c 3c"), found) is expected


@pytest.mark.parametrize(
    ("version", "reads"), [(2, False), (3, False), (4, True), (5, True), (6, False)]
)
def test_a_retained_version_reads_from_the_snapshot_at_its_start_or_above(
    version: int, *, reads: bool
) -> None:
    assert _reads_from(store("2s 4s 6s"), version, range(4, 6)) is reads


# -- what a file can be compared with


def side(found: Store, owner: str) -> ChecksumFile:
    sides = (one for one in found.files if isinstance(one, ChecksumFile))
    return next(one for one in sides if one.owner == f"{HOME}/{owner}")


def compared(notation: str, owner: str, *, ours: bool = False) -> tuple[str, list[str]] | None:
    found = store(notation)
    proof = Attestation(f"{HOME}/2.snapshot", 2, 100, 1.0, "0", 0, 0, ours=ours)
    proved = replace(found, attestations=(proof,))
    pair = witness(proved, side(found, owner))
    return (pair[0].entry.name, names(pair[1].paths)) if pair else None


def test_a_change_is_compared_with_the_next_snapshot() -> None:
    changes = ["1.delta", "2.delta"]
    assert compared("1d 1c 2d 2s 3d", "1.delta") == ("2.snapshot", changes)
    assert compared("1d 2d 2s 2k", "2.snapshot") == ("2.snapshot", changes)
    assert compared("1d 2d 2s 3d 3c", "3.delta") is None
    assert compared("2d 1c 2s", "1.delta") is None


def test_a_snapshot_of_ours_is_no_witness_of_the_changes_in_it() -> None:
    assert compared("1d 1c 2d 2s", "1.delta", ours=True) is None
    assert compared("1d 2d 2s 2k", "2.snapshot", ours=True) is not None


@pytest.mark.parametrize("ours", [[], ["2.zip"]])
def test_a_zip_with_our_mark_is_no_witness_of_the_changes_in_it(ours: list[str]) -> None:
    found = rocks_store("1c 2c 2z:a sa", written=ours)
    entry = Entry(f"{HOME}/.1.changelog.crc", 12, None)
    pair = witness(found, ChecksumFile(1, f"{HOME}/1.changelog", entry))
    assert (pair is None) is bool(ours)
