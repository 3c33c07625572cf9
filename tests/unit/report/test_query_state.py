"""What the metrics tell of a query as a whole, from what its plan has found."""

from statemaint.model.policy import Policy
from statemaint.planning import plan_checkpoint
from statemaint.report.task import lag
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import write_checkpoint


def test_a_query_lags_as_far_as_its_worst_store() -> None:
    storage = write_checkpoint(MemoryStorage(), partitions=2)
    checkpoint, plan = plan_checkpoint(storage, Policy(min_deltas_for_snapshot=1000))
    assert plan.committed is not None
    assert plan.target == plan.committed + 1
    newest = {store.id: max(store.versions.snapshots, default=0) for store in checkpoint.stores}
    worst = max(plan.target - version for version in newest.values())
    assert worst > 0
    assert lag(checkpoint.stores, plan.target) == worst
    one = min(checkpoint.stores, key=lambda store: newest[store.id])
    assert lag([one], plan.target + 3) == plan.target + 3 - newest[one.id]


def test_a_query_without_stores_does_not_lag_and_one_without_a_target_cannot() -> None:
    storage = write_checkpoint(MemoryStorage())
    checkpoint, _ = plan_checkpoint(storage, Policy())
    assert lag([], 7) == 0
    assert lag(checkpoint.stores, None) is None
