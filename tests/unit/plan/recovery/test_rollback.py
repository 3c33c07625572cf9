"""Which files a rollback moves away, in which order, and how far it may go back."""

from dataclasses import replace

import pytest

from statemaint.listing import Entry
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.files import ChecksumFile
from statemaint.model.findings import Finding, FindingCode
from statemaint.plan.recovery.rollback import newest_to_go_back_to, rolled_back
from tests.support.checkpoints import STORE, names, store
from tests.support.rocks import rocks_store, table

HOME = STORE.directory
LOGS = [
    Entry(path, 1, None)
    for path in (
        "commits/3", "commits/4", "commits/.4.crc", "commits/5", "commits/10", "offsets/4",
        "offsets/5", "offsets/.5.crc", "offsets/6", "offsets/10", "offsets/x", "commits/05",
        "state/0/_metadata/v2/4", "state/0/_metadata/v2/5", "state/0/_metadata/v2/9",
    )
]  # fmt: skip


def logs(batch: int, **keep: bool) -> list[str]:
    return [one.path for one in rolled_back((), LOGS, batch, **keep)]


METADATA = ["state/0/_metadata/v2/5", "state/0/_metadata/v2/9"]
TOP = ["commits/10", "offsets/10", "offsets/6"]
ABOVE_4 = [*TOP, "commits/5", "offsets/.5.crc", "offsets/5"]


def test_the_logs_go_from_the_top_down_a_commit_before_its_offsets() -> None:
    assert logs(4, keep_next=False, keep_metadata=False) == [*METADATA, *ABOVE_4]
    assert logs(3, keep_next=False, keep_metadata=False) == [
        "state/0/_metadata/v2/4", *METADATA, *ABOVE_4, "commits/.4.crc", "commits/4", "offsets/4"
    ]  # fmt: skip


def test_other_files_of_the_logs_stay_even_after_the_first_batch() -> None:
    others = [Entry(path, 1, None) for path in ("commits/x", "commits/01", "offsets/.x.crc")]
    assert rolled_back((), others, 0, keep_next=False, keep_metadata=False) == ()


def test_the_next_batch_keeps_its_offsets_and_metadata() -> None:
    assert logs(4, keep_next=True) == [METADATA[1], *TOP, "commits/5"]
    assert logs(4, keep_next=False) == [METADATA[1], *ABOVE_4]
    assert logs(4, keep_next=True, keep_metadata=False) == [*METADATA, *TOP, "commits/5"]


def test_state_goes_before_the_logs_by_version_changes_first_and_checksums_before_their_files() -> (
    None
):
    one = store("5d 6d 6c 7d 7s 7k 8d 8t x:strange")
    found = rolled_back([one], LOGS[2:3], 4, keep_next=False)
    assert [one.path for one in found if one.store is None] == []
    assert names(one.path for one in found) == [
        "8.delta", "7.delta", ".7.snapshot.crc", "7.snapshot", ".6.delta.crc", "6.delta"
    ]  # fmt: skip
    assert {(one.store, one.version) for one in found} == {(STORE, 6), (STORE, 7), (STORE, 8)}


def test_spark_s_checksums_go_before_their_files_too() -> None:
    found = rolled_back([store("5d x:5.delta.crc 5s x:5.snapshot.crc")], (), 3, keep_next=False)
    assert names(one.path for one in found) == [
        "5.delta.crc", "5.delta", "5.snapshot.crc", "5.snapshot"
    ]  # fmt: skip


def test_tables_go_after_a_zip_of_the_first_version() -> None:
    one = rocks_store("1c 1z:a 2c sa")
    found = [one.path for one in rolled_back([one], (), -1, keep_next=False)]
    assert names(found) == ["2.changelog", "1.changelog", "1.zip", "a.sst"]


def test_tables_that_only_zips_above_name_go_last() -> None:
    one = rocks_store("4c 5c 5z:a+b 6c 7c 7z:b+c 7k sa sb sc sd")
    found = [one.path for one in rolled_back([one], (), 4, keep_next=False)]
    assert names(found) == ["7.changelog", ".7.zip.crc", "7.zip", "6.changelog", "c.sst"]


def test_the_checksum_of_a_table_goes_with_it() -> None:
    one = rocks_store("4c 5c 6z:a sa sb")
    sides = [Entry(f"{HOME}/SSTs/.{name}.sst.crc", 1, None) for name in "ab"]
    checksums = [ChecksumFile(0, table(name), side) for name, side in zip("ab", sides, strict=True)]
    found = rolled_back([replace(one, files=(*one.files, *checksums))], (), 4, keep_next=False)
    assert names(one.path for one in found) == ["6.zip", ".a.sst.crc", "a.sst"]


@pytest.mark.parametrize(
    ("offsets", "loadable", "bad", "newest"),
    [
        ("3 4 5", "3 4 5", "", 5),
        ("3 4 5", "3 4", "", 4),
        ("3 4 5", "3 4 5", "commits/5", 4),
        ("3 4 5", "3 4 5", "offsets/5", 4),
        ("3 5", "3 4 5", "", None),
        ("5 6", "3 4 5", "", 5),
        ("4 5", "3 4 5", "", 5),
        ("0", "0", "", 0),
        ("1", "1", "", None),
        ("0 5", "0 5", "", 0),
        ("", "0 1", "", None),
    ],
)
def test_a_batch_to_go_back_to_has_its_commit_its_offsets_and_those_beside(
    offsets: str, loadable: str, bad: str, newest: int | None
) -> None:
    checkpoint = Checkpoint("memory:", offsets=tuple(map(int, offsets.split())))
    found = [Finding(FindingCode.UNREADABLE_COMMIT, "", path=bad)] if bad else []
    assert newest_to_go_back_to(checkpoint, found, map(int, loadable.split())) == newest
