"""What carrying out a plan yields for each store: its findings, faults and limits by value."""

from dataclasses import replace
from typing import Any

import pytest

from statemaint.codec.integrity.digest import StateDigest
from statemaint.errors import UnsupportedError
from statemaint.execute.ledger import Ledger
from statemaint.execute.stores import _context, execute
from statemaint.fold import ClearEngine, Source
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.plan.actions import Plan
from statemaint.planning import plan_checkpoint
from statemaint.records.attestations import ANNOUNCED, attestation_path
from statemaint.report.outcome import Halted, Skipped, SnapshotWritten
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import write_checkpoint
from tests.support.faults import HookedStorage, refuse

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0)
FIRST, SECOND = StoreId(0, 0), StoreId(0, 1)


@pytest.fixture
def storage() -> MemoryStorage:
    return write_checkpoint(MemoryStorage())


def planned(storage: MemoryStorage, policy: Policy = TIGHT) -> Plan:
    return plan_checkpoint(storage, policy)[1]


def test_a_store_with_damage_is_halted_with_its_finding(storage: MemoryStorage) -> None:
    storage.delete("state/0/0/20.delta")
    decided = planned(storage)
    damage = [one for one in decided.stores[0].findings if one.damage]
    found = [one for one in execute(decided, storage, run="r") if isinstance(one, Halted)]
    assert found == [Halted(FIRST, one) for one in damage]
    assert damage


def test_a_store_that_the_query_left_behind_is_skipped_with_its_finding(
    storage: MemoryStorage,
) -> None:
    decided = planned(storage)
    moved_on = Finding(FindingCode.SUPERSEDED, "the query moved on", FIRST)
    stores = (replace(decided.stores[0], actions=(), findings=(moved_on,)),)
    found = list(execute(replace(decided, stores=stores), storage, run="r"))
    assert found == [Skipped(FIRST, moved_on)]


def test_a_storage_that_fails_halts_its_store_with_the_reason(storage: MemoryStorage) -> None:
    refusing = HookedStorage(storage.files, before=refuse("write", "state/0/1/*"))
    (found,) = (
        one for one in execute(planned(storage), refusing, run="r") if isinstance(one, Halted)
    )
    assert found.store == SECOND
    assert found.finding is not None
    assert (found.finding.code, found.finding.store) == (FindingCode.STORAGE_FAILED, SECOND)
    assert found.finding.detail != "None"
    assert found.finding.path == "state/0/1/25.snapshot"


UNSUPPORTED = UnsupportedError("memory:", "files of this kind", "another storage")


@pytest.mark.parametrize(
    ("error", "code"),
    [(UNSUPPORTED, FindingCode.UNSUPPORTED), (KeyError("files of this kind"), FindingCode.FAULT)],
)
def test_what_a_storage_does_not_support_or_a_fault_halts_its_store(
    storage: MemoryStorage, error: Exception, code: FindingCode
) -> None:
    lacking = HookedStorage(storage.files, before=refuse("write", "state/0/1/*", error))
    outcomes = execute(planned(storage), lacking, run="r")
    (found,) = (one for one in outcomes if isinstance(one, Halted))
    assert found.finding is not None
    assert (found.finding.code, found.finding.store, found.store) == (code, SECOND, SECOND)
    assert "files of this kind" in found.finding.detail


def test_a_plan_is_carried_out_with_the_engine_that_it_is_given(storage: MemoryStorage) -> None:
    class Counting(ClearEngine):
        digests = 0

        def digest(self, source: Source, path: str) -> StateDigest:
            Counting.digests += 1
            return super().digest(source, path)

    outcomes = [*execute(planned(storage), storage, run="r", engine=Counting())]
    assert Counting.digests == sum(isinstance(one, SnapshotWritten) for one in outcomes) > 0


@pytest.mark.parametrize("together", [None, False, True])
def test_the_newest_record_of_each_store_is_handed_over_and_stores_announce_together_on_request(
    storage: MemoryStorage, *, together: bool | None
) -> None:
    watched, noted = HookedStorage(storage), dict[str, bytes]()
    request: dict[str, Any] = {} if together is None else {"together": together}
    list(execute(planned(storage), watched, run="r", noted=noted.__setitem__, **request))
    paths = [attestation_path(store) for store in (FIRST, SECOND)]
    assert noted == {path: storage.read(path) for path in paths}
    assert (f"{ANNOUNCED}/r.json" in watched.paths("write")) is bool(together)


@pytest.mark.parametrize("trash_for", [0.0, 60.0])
def test_stale_snapshots_are_kept_for_a_week_under_every_policy(
    storage: MemoryStorage, trash_for: float
) -> None:
    decided = planned(storage, replace(TIGHT, trash_for=trash_for))
    found = _context(decided, Ledger(storage, "r"), ClearEngine(), 1)
    assert found.aside is not None
    assert found.aside.seconds == 7 * 86400.0
    assert (found.trash and found.trash.seconds) == (trash_for or None)


@pytest.mark.parametrize(
    ("limit", "seconds", "out"),
    [(5.0, 4.9, False), (5.0, 5.0, True), (5.0, 6.0, True), (None, 9e9, False), (0.0, 0.0, True)],
)
def test_the_time_is_up_at_the_limit(limit: float | None, seconds: float, *, out: bool) -> None:
    policy = replace(TIGHT, max_seconds_per_run=limit)
    storage = write_checkpoint(MemoryStorage(), last=2, batches=range(2), partitions=1)
    outcomes = execute(planned(storage, policy), storage, run="r", elapsed=lambda: seconds)
    assert any(isinstance(outcome, Skipped) for outcome in outcomes) is out
