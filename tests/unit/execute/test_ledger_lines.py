"""A line of the ledger says all that was done, and why (S18)."""

import json
from dataclasses import replace
from typing import Any

import pytest

from statemaint.execute.ledger import Ledger
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.files import Snapshot
from statemaint.model.proof import Attestation, FileRecord
from statemaint.model.rocks import Upload, Uploads
from statemaint.plan.actions import Attest, Delete, WriteSnapshot
from statemaint.plan.reasons import DeleteReason, SnapshotReason
from statemaint.plan.recovery.recovery_plan import Remove, RemoveReason
from statemaint.records.attestations import StoreNotes, attestation_path
from statemaint.report.outcome import SnapshotWritten
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import STORE, store
from tests.support.faults import Clock
from tests.support.ledgers import ledger_lines

PATH = "state/0/0/2.snapshot"
ENTRY = Entry(PATH, 30, 1000.5)
INPUT = FileRecord("state/0/0/1.delta", 10, 1000.0)
PROOF = Attestation(PATH, 2, 30, 1000.5, "0" * 32, 3, 40, files=2, inputs=(INPUT,))
CHAIN = store("1d 2d").versions.chain(2)
STAMP = {"run": "run", "fence": 0, "time": 7.0}


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(MemoryStorage(clock=Clock(7.0)), "run")


def write() -> WriteSnapshot:
    assert isinstance(CHAIN, Chain)
    return WriteSnapshot(STORE, PATH, CHAIN, next(iter(SnapshotReason)))


def shown(proof: Attestation | None) -> dict[str, Any] | None:
    return {**proof.shown(), "inputs": len(proof.inputs)} if proof else None


def without(line: Any, *names: str) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in names}


@pytest.mark.parametrize("trash", [False, True])
def test_a_deletion_says_which_bytes_go_where(ledger: Ledger, *, trash: bool) -> None:
    reason = next(iter(DeleteReason))
    deletes = [Delete(STORE, 2, ENTRY, reason)]
    ledger.deleting(deletes, trash=True) if trash else ledger.deleting(deletes)
    (line,) = ledger_lines(ledger.storage, "0/0")
    assert line == {
        **STAMP, "action": "delete", **without(line, *STAMP, "action", "bytes", "trash"),
        "bytes": 30, **({"trash": True} if trash else {}),
    }  # fmt: skip
    assert (line["path"], line["reason"]) == (PATH, reason.value)


def test_what_the_operator_removes_goes_to_the_trash(ledger: Ledger) -> None:
    reason = next(iter(RemoveReason))
    ledger.removing("rollback", [Remove(ENTRY, reason)])
    (line,) = ledger_lines(ledger.storage, "rollback")
    assert line == {
        **STAMP, "action": "remove", "path": PATH, "reason": reason.value, "bytes": 30,
        "modified": 1000.5, "trash": True,
    }  # fmt: skip


def test_what_is_brought_back_names_the_run_that_took_it(ledger: Ledger) -> None:
    ledger.restoring("first", [{"path": PATH, "bytes": 30, "modified": None}])
    (line,) = ledger_lines(ledger.storage, "undo")
    assert line == {
        **STAMP, "action": "restore", "path": PATH, "bytes": 30, "modified": None, "of": "first"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("done", "more"),
    [
        (SnapshotWritten(write(), ENTRY, PROOF, 30), {"checksum": None}),
        (SnapshotWritten(write(), ENTRY, None, 30), {"checksum": None}),
        (
            SnapshotWritten(write(), ENTRY, PROOF, 30, replace(ENTRY, path="a.crc"), (ENTRY,)),
            {"checksum": "a.crc", "parts": [PATH]},
        ),
    ],
    ids=["proved", "not read back", "with a checksum and a table"],
)
def test_a_snapshot_is_noted_with_its_proof(
    ledger: Ledger, done: SnapshotWritten, more: dict[str, Any]
) -> None:
    ledger.note(STORE, [ledger.wrote(done)])
    (line,) = ledger_lines(ledger.storage, "0/0")
    assert line["action"] == "write_snapshot"
    assert line["path"] == PATH
    assert without(line, *STAMP, "action") == {
        **without(line, *STAMP, "action", "bytes", "attestation", "checksum", "parts"),
        "bytes": 30, "attestation": shown(done.attestation), **more,
    }  # fmt: skip


def test_a_comparison_is_noted_with_its_proof(ledger: Ledger) -> None:
    former = replace(PROOF, path="state/0/0/1.snapshot", version=1)
    uploads = Uploads((Upload(2, PATH, 3.5),), 3)
    notes = StoreNotes((former, PROOF), (PATH,), 4, uploads)
    ledger.note(STORE, [ledger.attested(Attest(STORE, Snapshot(2, ENTRY), None), ENTRY, PROOF)])
    ledger.knows(STORE, notes)
    (line,) = ledger_lines(ledger.storage, "0/0")
    assert (line["action"], line["path"], line["bytes"]) == ("attest", PATH, 30)
    assert (line["attestation"], line["checksum"]) == (shown(PROOF), None)
    noted = json.loads(ledger.storage.read(attestation_path(STORE)))
    assert [one["version"] for one in noted["attestations"]] == [1, 2]
    assert (noted["written"], noted["since"]) == ([PATH], 4)
    (upload,) = noted["uploads"]["newest"]
    assert upload == {"version": 2, "path": PATH, "modified": 3.5}
