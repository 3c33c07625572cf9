"""The series that the exporter serves of a query: few of a healthy one, all that is wrong."""

import re
from dataclasses import replace

import pytest

from statemaint.maintain import maintain
from statemaint.metrics.exporter import served
from statemaint.metrics.families import families
from statemaint.report.facts import Unit
from statemaint.report.record import Cause, LastVerification, Record, next_record
from tests.support.metrics import (
    TIGHT,
    Series,
    ended,
    labelled,
    named,
    neglected,
    plain,
    series_of,
)
from tests.support.paths import ROOT
from tests.unit.metrics.test_families import text_of

NOW = 1_800_000_000.0
OF_THE_EXPORTER = 2  # exporter_read_failed and exporter_read_timestamp_seconds


@pytest.fixture(scope="module")
def healthy() -> Record:
    """Returns the record of a good run over 200 partitions, and of a good verification."""
    last = ended(maintain(neglected(NOW, 200), TIGHT), NOW)
    return replace(next_record(None, last), verified=LastVerification(NOW, healthy=True))


def shown(record: Record) -> Series:
    return series_of(text_of(served(families(named(interval=3600), record))))


def test_a_healthy_query_of_200_partitions_has_some_60_series(healthy: Record) -> None:
    assert len(shown(healthy)) + OF_THE_EXPORTER <= 63


def test_every_metric_of_a_rate_and_of_a_difference_in_time_is_always_served(
    healthy: Record,
) -> None:
    alerts = (ROOT / "helm/statemaint/files/alerts.yaml").read_text()
    earlier = set(re.findall(r"statemaint_(\w+)(?:\{[^}]*\})?(?:\[| offset)", alerts))
    names = {name for name, _ in shown(healthy)}
    assert earlier >= {"push_losses_total", "trash_bytes"}
    assert names >= {one for one in earlier if not one.startswith(("task_", "exporter_"))}


def test_a_query_in_trouble_has_a_series_for_each_cause_and_bad_partition(
    healthy: Record,
) -> None:
    assert healthy.last
    assert healthy.last.facts
    good = Unit(0, 3, 1, 1, 1, 1, 1, 1, 0, 0, seconds=1.0)
    bad = (good._replace(partition=4, chain=None), good._replace(partition=5, seconds=31.0))
    facts = replace(
        healthy.last.facts,
        worst=(good, *bad, good._replace(partition=6)),
        halted=((0, 4, "default"),),
        sums={**healthy.last.facts.sums, "unloadable": 1},
    )
    last = replace(
        healthy.last,
        run="later",
        failed=(Cause.DAMAGE, Cause.STORAGE),
        storage_errors=1,
        facts=facts,
    )
    found = shown(next_record(healthy, last))
    causes = dict(labelled(found, "last_run_failed"))
    assert {cause for (cause, *_), value in causes.items() if value} == {"damage", "storage"}
    assert [*labelled(found, "halted_store")] == [(("0", "4", "default"), 1)]
    assert plain(found)["stores_unloadable"] == 1
    assert plain(found)["last_run_storage_errors"] == 1
    slow = {partition for (_, partition), _ in labelled(found, "worst_partition_bytes")}
    assert slow == {"3", "4", "5"}
