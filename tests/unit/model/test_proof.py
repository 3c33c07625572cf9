"""Proofs of snapshots: which listed file is which, and what a copy keeps of a proof (S6)."""

from dataclasses import replace

import pytest

from statemaint.listing import Entry
from statemaint.model.proof import Attestation, FileRecord

INPUT = FileRecord("1.delta", 10, 1000.0, None, 7)
PART = FileRecord("a.sst", 20, 1000.5, "tag", 8)
PROOF = Attestation(
    "2.snapshot", 2, 30, 1000.0, "0" * 32, 3, 40, files=2, start=1, target=9, tag=None, sum=5,
    at=2000.0, ours=True, readable=True, inputs=(INPUT,), parts=(PART,), doubted=(INPUT,),
)  # fmt: skip


@pytest.mark.parametrize(
    ("record", "entry", "at", "same"),
    [
        (INPUT, Entry("1.delta", 10, 1000.0), 1302.1, True),
        (INPUT, Entry("1.delta", 10, 1000.0), 1302.0, False),  # stamped in whole seconds, and racy
        (INPUT, Entry("1.delta", 11, 1000.0), 9999.0, False),
        (INPUT, Entry("1.delta", 10, 1001.0), 9999.0, False),
        (INPUT._replace(modified=None), Entry("1.delta", 10, None), 9999.0, False),
        (INPUT._replace(modified=1000.5), Entry("1.delta", 10, 1000.5), 1000.5, True),
        (INPUT._replace(modified=1001.0), Entry("1.delta", 10, 1001.0), 1001.0, False),
        (PART, Entry("a.sst", 20, 5.0, "tag"), 0.0, True),
        (PART, Entry("a.sst", 20, 1000.5, "other"), 9999.0, False),
        (PART, Entry("a.sst", 20, 1000.5), 9999.0, True),
        (INPUT, Entry("1.delta", 10, 1000.0, "tag"), 9999.0, True),
    ],
)
def test_a_file_is_recognized_by_its_listing(
    record: FileRecord, entry: Entry, at: float, *, same: bool
) -> None:
    assert record.identifies(entry, at) is same


def test_a_record_has_the_mark_of_its_content() -> None:
    entry = Entry("a.sst", 20, 1000.5, "tag")
    assert FileRecord.of(entry, {"a.sst": 8}) == PART
    assert FileRecord.of(entry, {}) == PART._replace(sum=None)


def test_a_record_takes_over_all_that_is_listed_and_keeps_its_sum() -> None:
    entry = Entry("1.delta", 11, 3000.0, "new")
    assert INPUT.listed_as(entry) == FileRecord("1.delta", 11, 3000.0, "new", 7)


def test_a_proof_of_copied_inputs_stays_readable() -> None:
    entry = Entry("1.delta", 10, 3000.0, "new")
    listed = INPUT.listed_as(entry)
    assert PROOF.refreshed({INPUT: entry}, 4000.0) == replace(
        PROOF, at=4000.0, inputs=(listed,), doubted=(listed,)
    )


def test_a_proof_of_a_copied_snapshot_is_readable_no_more() -> None:
    entry = Entry("2.snapshot", 31, 3000.0, "new")
    assert PROOF.refreshed({PROOF.own: entry}, 4000.0) == replace(
        PROOF, size=31, modified=3000.0, tag="new", readable=False, at=4000.0
    )


def test_a_proof_of_a_zip_whose_table_was_copied_is_readable_no_more() -> None:
    entry = Entry("a.sst", 20, 3000.0, "new")
    assert PROOF.refreshed({PART: entry}, 4000.0) == replace(
        PROOF, readable=False, at=4000.0, parts=(PART.listed_as(entry),)
    )


def test_a_proof_of_the_very_files_only_becomes_younger() -> None:
    assert PROOF.refreshed({}, 4000.0) == replace(PROOF, at=4000.0)
