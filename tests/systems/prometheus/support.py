"""What the tests of alerts and dashboards share: an example of everything that is ever pushed."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry, Gauge, pushadd_to_gateway

from statemaint.maintain import maintain
from statemaint.maintain.record import write_record
from statemaint.metrics.catalogue import METRICS, Detail
from statemaint.metrics.options import Targets
from statemaint.metrics.publish import Gateway, publish_record
from statemaint.metrics.tasks import Task, TaskState, task_families
from statemaint.report.record import LastVerification, Record, next_record
from statemaint.storage import LocalStorage
from tests.support.checkpoints import JOIN, write_checkpoint
from tests.support.metrics import TIGHT, ended, named, saved
from tests.support.paths import ROOT
from tools.demo.processes import wait_until
from tools.demo.prometheus import MissingPart, find

CHART = ROOT / "helm" / "statemaint"
ALERTS = CHART / "files" / "alerts.yaml"

QUERIES = ("click_join", "hourly_revenue")


Sample = tuple[str, dict[str, str], float]


def promtool() -> str:
    """Returns the path of promtool, or skips the test and says which package has it."""
    return part("promtool")


def part(program: str) -> str:
    """Returns the path of a program, or skips the test and says which package has it."""
    try:
        return find(program)
    except MissingPart as missing:
        pytest.skip(str(missing))


def write_example(folder: Path, url: str, *, now: float) -> Path:
    """Publishes two queries an hour after a run of each, and returns their queries file.

    The join has a halted store, and the other query series for each partition.
    """
    entries: dict[str, dict[str, str]] = {}
    for query, partitions, stores in (("click_join", 2, JOIN), ("hourly_revenue", 4, ("default",))):
        (folder / query).mkdir()
        storage = LocalStorage(folder / query)
        write_checkpoint(storage, partitions=partitions, stores=stores)
        if query == "click_join":
            storage.delete(f"state/0/1/{JOIN[0]}/20.delta")
        each = query == "hourly_revenue"
        last = ended(maintain(storage, TIGHT), now - 3600, every_unit=each)
        verified = LastVerification(now, healthy=True)
        record = next_record(Record(last, verified=verified, savepoint=saved(now)), last)
        write_record(storage, record)
        about = named(
            query, interval=3600.0, savepoint_interval=86400.0, every_unit=each, namespace="streams"
        )
        assert publish_record(about, record, Targets(gateway=url))
        push_tasks(url, query, now=now)
        entries[query] = {"checkpoint": str(folder / query), "schedule": "@hourly"}
    entries["hourly_revenue"]["detail"] = "partition"
    file = folder / "queries.yaml"
    file.write_text(yaml.safe_dump({"queries": entries}))
    return file


def push_tasks(url: str, query: str, *, now: float) -> None:
    """Pushes two tasks of a query, as they do: one that works, and one that has ended."""
    gateway = Gateway(url)
    counted = dict.fromkeys((one.name for one in METRICS if one.detail is Detail.TASK), 4.0)
    figures = {
        **{name.removeprefix("task_"): value for name, value in counted.items()},
        "stores_planned": 8.0,
        "started_timestamp_seconds": now - 60,
        "reported_timestamp_seconds": now - 30,
        "ended_timestamp_seconds": now - 30,
    }
    del figures["state"]
    for number, state in enumerate((TaskState.SUCCEEDED, TaskState.WORKING)):
        task = Task(named(query, namespace="streams"), f"maintain-{number}", Targets(url))
        group = {**task.of.group, "task": task.name}
        gateway.replace(group, [*task_families(task, state, figures)])
        figures.pop("ended_timestamp_seconds", None)


def soon(holds: Callable[[], bool]) -> bool:
    """Waits for something after a deletion: a Pushgateway deletes soon after it has answered."""
    return wait_until(holds, seconds=60)


def push(url: str, samples: Iterable[Sample], group: Mapping[str, str]) -> None:
    """Adds samples to a group of the Pushgateway, in the way that tasks do."""
    registry = CollectorRegistry()
    gauges: dict[str, Gauge] = {}
    for name, labels, value in samples:
        if name not in gauges:
            gauges[name] = Gauge(f"statemaint_{name}", name, list(labels), registry=registry)
        gauges[name].labels(**labels).set(value)
    pushadd_to_gateway(url, "statemaint", registry, grouping_key=dict(group))
