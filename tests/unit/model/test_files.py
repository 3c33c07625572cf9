"""File names: what each is, and that everything else is unknown."""

import pytest

from statemaint.listing import Entry
from statemaint.model.files import (
    ChecksumFile,
    Delta,
    FileNames,
    Snapshot,
    SstFile,
    StateFile,
    TempFile,
    UnknownFile,
    checksum_file_of,
    classify,
    classify_any,
    disables_spark,
    temp_of,
)
from statemaint.model.ids import StoreId, batch_of, version_of
from tests.support.checkpoints import UUID


def entry(name: str) -> Entry:
    return Entry(f"state/0/3/{name}", 1, 0.0)


def test_ids_say_where_they_are() -> None:
    assert StoreId(0, 3).directory == "state/0/3"
    assert StoreId(1, 2, "left-keyToNumValues").directory == "state/1/2/left-keyToNumValues"
    assert str(StoreId(0, 3)) == "op 0 / part 3 / default"
    assert str(StoreId(0, 3).unit) == "op 0 / part 3"
    assert batch_of(version_of(24)) == 24


def test_tells_deltas_and_snapshots() -> None:
    assert classify(entry("12.delta")) == Delta(12, entry("12.delta"))
    assert classify(entry("7.snapshot")) == Snapshot(7, entry("7.snapshot"))


@pytest.mark.parametrize("name", [".7.delta.crc", "7.delta.crc", ".7.delta.crc.crc"])
def test_a_side_file_belongs_to_its_file(name: str) -> None:
    assert classify(entry(name)) == ChecksumFile(7, "state/0/3/7.delta", entry(name))


@pytest.mark.parametrize(
    "name",
    [
        f".7.delta.{UUID}.tmp",
        f"..7.snapshot.{UUID}.tmp.crc",
        f".7.delta.crc.{UUID}.tmp",
        f".7.delta.{UUID}.TID125.tmp",
        f"..7.delta.{UUID}.TID125.tmp.crc",
    ],
)
def test_tells_temp_files(name: str) -> None:
    assert classify(entry(name)) == TempFile(7, entry(name))


@pytest.mark.parametrize(
    ("name", "final"),
    [
        (f".metadata.{UUID}.tmp", "metadata"),
        (f"..7.zip.{UUID}.TID125.tmp.crc", "7.zip"),
        (f".7.zip.{UUID}", None),
        ("metadata", None),
    ],
)
def test_a_temp_file_has_the_name_of_the_file_it_was_to_become(
    name: str, final: str | None
) -> None:
    assert temp_of(name) == final


@pytest.mark.parametrize(
    "name",
    [
        "foo.bar",
        "0.delta",
        "07.delta",
        "7.DELTA",
        "-7.delta",
        "7.zip",
        "7.delta.bak",
        "7.delta\n",
        "\u0667.delta",
        ".lock",
        "7",
        "1234567890123456789.delta",
        f".7.delta.{UUID}",
        "7.changelog",
    ],
)
def test_everything_else_is_unknown(name: str) -> None:
    assert classify(entry(name)) == UnknownFile(entry(name))


SST = f"000008-{UUID}.sst"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("7.delta", Delta(7, entry("7.delta"))),
        ("7.zip", Snapshot(7, entry("7.zip"))),
        (f"7_{UUID}.zip", Snapshot(7, entry(f"7_{UUID}.zip"), UUID)),
        (SST, SstFile(entry(SST))),
        (f".{SST}.crc", ChecksumFile(0, f"state/0/3/{SST}", entry(f".{SST}.crc"))),
        ("7.txt", UnknownFile(entry("7.txt"))),
    ],
)
def test_tells_files_of_any_provider(name: str, kind: StateFile) -> None:
    assert classify_any(entry(name)) == kind
    side = kind if isinstance(kind, ChecksumFile) else None
    assert checksum_file_of(entry(name)) == side


@pytest.mark.parametrize(("middle", "unique"), [("", None), ("_(?P<id>[a-z]+)", "a")])
def test_a_provider_has_ids_where_the_pattern_of_its_names_has(
    middle: str, unique: str | None
) -> None:
    pattern = rf"(?P<version>[0-9]+){middle}\.(?P<kind>changelog|zip)"
    name = "7.zip" if unique is None else f"7_{unique}.zip"
    found = FileNames(pattern).classify(entry(name))
    assert found == Snapshot(7, entry(name), unique)


@pytest.mark.parametrize(
    ("name", "harm"),
    [("foo.bar", True), (".lock", True), ("a.b.c", False), ("7.zip", False), ("README", False)],
)
def test_tells_which_names_stop_sparks_maintenance(name: str, harm: bool) -> None:  # noqa: FBT001
    assert disables_spark(entry(name)) is harm
