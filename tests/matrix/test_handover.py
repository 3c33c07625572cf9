"""A task that was handed what the plan read decides as one that reads everything itself."""

from dataclasses import replace

import pytest

from statemaint.model.policy import Policy
from statemaint.plan.actions import Plan, Request
from statemaint.planning import plan_checkpoint
from statemaint.scan.handover import Handover, Recorder
from tests.checkpoints.archive import recorded
from tests.checkpoints.environments import VERSIONS
from tests.support.archived import archived
from tests.support.marks import rotated

TIGHT = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=4, grace=0, orphan_age=0)
ARCHIVES = [*VERSIONS, "rocks-3.5.9", "rocks-4.0.5", "rocks-4.3.0", "rocks-maintained-4.3.0"]
EVERY = [(archive, kind) for archive in ARCHIVES for kind in recorded(archive)]


@pytest.mark.parametrize("name", rotated(EVERY))
def test_each_partition_of_a_real_checkpoint_is_planned_the_same(name: tuple[str, str]) -> None:
    storage = archived(name)
    recorder = Recorder(storage)
    checkpoint, whole = plan_checkpoint(recorder, TIGHT)
    handover = Handover.from_json(recorder.handover(checkpoint).to_json())
    for unit in {one.store.id.unit for one in whole.stores}:
        request = Request(
            target=whole.target,
            operators=frozenset({unit.operator}),
            partitions=frozenset({unit.partition}),
        )
        handed = plan_checkpoint(storage, TIGHT, request=request, handover=handover)[1]
        alone = plan_checkpoint(storage, TIGHT, request=request)[1]
        assert timeless(handed) == timeless(alone)


def timeless(plan: Plan) -> Plan:
    """Returns a plan without the times at which it was made."""
    stores = tuple(replace(one, store=replace(one.store, listed=0.0)) for one in plan.stores)
    return replace(plan, now=0.0, stores=stores, unclassified=())
