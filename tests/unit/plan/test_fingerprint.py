"""What tells one plan from another counts every file that it is about."""

from dataclasses import replace

from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.model.files import Delta, Snapshot
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.plan.actions import Attest, Plan, StorePlan
from statemaint.report.to_json import fingerprint

STORE = StoreId(0, 0)
BASE = Snapshot(3, Entry("state/0/0/3.snapshot", 9, 1.0))
BELOW = Chain(3, None, tuple(Delta(one, Entry(f"state/0/0/{one}.delta", 5, 1.0)) for one in (1, 2)))


def plan(attest: Attest) -> Plan:
    store = StorePlan(Store(STORE), None, (attest,), (), ())
    return Plan("/ck", "id", 4, 5, 3, Policy(), (store,), ())


def test_a_comparison_counts_with_what_it_is_made_with() -> None:
    alone, compared = Attest(STORE, BASE, None), Attest(STORE, BASE, BELOW)
    touched = replace(BELOW, deltas=(Delta(1, Entry("state/0/0/1.delta", 5, 2.0)), BELOW.deltas[1]))
    replaced = Snapshot(3, Entry("state/0/0/3.snapshot", 10, 1.0))
    plans = [alone, compared, Attest(STORE, BASE, touched), Attest(STORE, replaced, BELOW)]
    assert len({fingerprint(plan(one)) for one in plans}) == 4
    assert fingerprint(plan(compared)) == fingerprint(plan(Attest(STORE, BASE, BELOW)))
