"""The bundles of runs that Airflow's `plan` has handed over, maintained by executors.

The lease of each query is that of its run, which `plan` has taken: the driver joins and renews it,
and leaves its end to Airflow's `report`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from statemaint.maintain.work import WorkOrder, read_order, store_reports
from statemaint.report.task import BundleReport
from statemaint.spark.engine import Tell, maintain_orders
from statemaint.spark.fleet import Target
from statemaint.spark.leases import leases, tried


def carry_out(
    spark: Any, handed: Sequence[tuple[str, str]], *, attempt: int, tell: Tell
) -> list[BundleReport]:
    """Maintains the handed-over bundles, and stores the reports of each query; safe to repeat.

    A bundle with a report that counts is not maintained again by a later attempt. A query whose
    storage fails has no reports, and does not stop the others (S16).

    Args:
        spark: the session.
        handed: for each query, the address of its checkpoint for driver and executors, and the key
            of its handover.
        attempt: the number of this attempt.
        tell: receives the progress, in lines.
    """
    orders = _read(handed, tell)
    reports = _maintained(spark, orders, tell)

    def store(target: Target) -> None:
        store_reports(target.open(), orders[target].key, attempt, reports[target.query])

    for target, error in tried(store, orders).items():
        tell(f"{target.query}: the outcomes are not stored: {error.code}: {error}")
    return [report for each_query in reports.values() for report in each_query]


def _read(handed: Sequence[tuple[str, str]], tell: Tell) -> dict[Target, WorkOrder]:
    orders: dict[Target, WorkOrder] = {}

    def read(place: tuple[str, str]) -> None:
        checkpoint, key = place
        order = read_order(Target("", checkpoint).open(), key)
        orders[Target(order.query, checkpoint, order.policy)] = order

    errors = tried(read, handed)
    for (checkpoint, _), error in errors.items():
        tell(f"{checkpoint}: {error.code}: {error}")
    if errors and not orders:
        raise next(iter(errors.values()))
    return dict(sorted(orders.items(), key=lambda item: item[0].query))


def _maintained(
    spark: Any, orders: Mapping[Target, WorkOrder], tell: Tell
) -> dict[str, list[BundleReport]]:
    """Returns the reports of each query; errors if its lease cannot be taken."""
    holders = {target: order.bundles[0].holder for target, order in orders.items()}
    with leases() as held:
        held.take({target: holder for target, holder in holders.items() if holder})
        reports: dict[str, list[BundleReport]] = {target.query: [] for target in orders}
        ready = {}
        for target, order in orders.items():
            if refused := held.refused.get(target.query):
                reports[target.query] = [
                    BundleReport.of_error(bundle.label, refused) for bundle in order.bundles
                ]
            else:
                ready[target] = order
        return reports | maintain_orders(spark, ready, tell=tell).reports
