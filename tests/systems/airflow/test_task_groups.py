"""The groups of metrics in which tasks of a real Airflow report, in a real Pushgateway.

A proxy holds the snapshots of a partition until a test has seen what it waits for.
"""

import json
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.checkpoints import COMMIT, changes, delta_bytes, offsets_bytes
from tests.support.fault_proxy import FaultProxy, Seen, Then, fault_proxy
from tests.systems.airflow.conftest import Ended, Scene
from tests.systems.airflow.support import TARGET, kill_process_of, neglected
from tests.systems.airflow.test_connections import upload
from tests.systems.airflow.test_runs import xcom

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.prometheus]

PARTITIONS = 16
_SNAPSHOT = re.compile(r"/state/0/(\d+)/\d+\.snapshot")


@dataclass(slots=True)
class Held:
    """A server of S3 behind a proxy, which holds snapshots until their partition is let go."""

    proxy: FaultProxy
    scene: Scene
    gone: dict[int, Event] = field(default_factory=lambda: defaultdict(Event))

    def hold(self, query: str, partitions: Iterator[int] | range) -> None:
        """Holds the snapshots of some partitions of a query."""
        for partition in partitions:
            self.gone[partition].clear()
            self.proxy.fail(
                "PUT",
                Then(self.gone[partition].wait),
                times=100,
                when=lambda seen, wanted=(query, partition): _snapshot(seen) == wanted,  # type: ignore[misc]
            )

    def let_go(self, *partitions: int) -> None:
        """Lets the snapshots of some partitions go on."""
        for partition in partitions:
            self.gone[partition].set()

    def trigger(self, query: str, conf: Mapping[str, object] | None = None) -> Ended:
        """Begins a run."""
        dag = f"statemaint__{query}"
        return Ended(self.scene.admin, dag, self.scene.admin.trigger(dag, conf), "running")


def _snapshot(seen: Seen) -> tuple[str, int] | None:
    found = _SNAPSHOT.search(seen.target)
    return (seen.target.split("/")[2], int(found[1])) if found else None


@pytest.fixture(scope="module")
def held(scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Held]:
    folder = tmp_path_factory.mktemp("held")
    scene.s3.client.create_bucket(Bucket="held")
    for query in ("sixteen", "rising", "slain"):
        number = PARTITIONS if query == "sixteen" else 8
        upload(scene.s3, neglected(folder / query, partitions=number), f"s3://held/{query}")
    with fault_proxy(scene.s3.url) as proxy:
        extra = json.dumps({"endpoint_url": proxy.url, "region_name": "us-east-1"})
        fields = {"login": scene.s3.access_key, "password": scene.s3.secret_key, "extra": extra}
        body = {"connection_id": "the_held_lake", "conn_type": "aws", **fields}
        scene.admin.post("/api/v2/connections", body)
        place = Held(proxy, scene)
        yield place
        place.let_go(*range(PARTITIONS))


def wait_for(found: Callable[[], Any]) -> Any:
    """Returns something as soon as there is such a thing."""
    deadline = time.monotonic() + 300
    while not (one := found()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return one


def ended(scene: Scene, run: Ended) -> str:
    return scene.admin.wait_for_run(run.dag, run.run)


def test_the_group_of_every_task_appears_changes_and_ends(held: Held, scene: Scene) -> None:
    held.hold("sixteen", range(PARTITIONS))
    run = held.trigger("sixteen")
    wait_for(lambda: run.states.get("plan") == "success")
    bundles = xcom(scene, run, "plan", "return_value")
    working = {}
    left = {f"maintain-{index}": one["partitions"] for index, one in enumerate(bundles)}
    assert len(left) == PARTITIONS
    while left:
        for name, group in wait_for(lambda: _working(scene, "sixteen", left)).items():
            working[name] = group
            held.let_go(*left.pop(name))
    assert ended(scene, run) == "success"
    groups = scene.pushed.tasks("sixteen")
    assert groups.keys() == {*working, "maintain-plan", "maintain-report"}
    for name, group in groups.items():
        assert group["state"] == "succeeded"
        assert group["ended_timestamp_seconds"] >= group["started_timestamp_seconds"]
        assert group["retries"] == 0
        if name in working:
            assert "ended_timestamp_seconds" not in working[name]
            reported = "reported_timestamp_seconds"
            assert working[name][reported] < group[reported]
            assert (group["stores_done"], group["stores_planned"]) == (1, 1)
            assert group["snapshots_written"] == 2
            assert group["files_deleted"] == 16
            assert group["bytes_deleted"] > 0
            assert group["bytes_written"] > 0


def _working(scene: Scene, query: str, names: Mapping[str, object]) -> dict[str, dict[str, Any]]:
    groups = scene.pushed.tasks(query)
    return {name: groups[name] for name in names if groups.get(name, {}).get("state") == "working"}


def test_after_ten_runs_only_the_groups_of_the_last_one_are_there(held: Held, scene: Scene) -> None:
    assert len(scene.pushed.tasks("sixteen")) == PARTITIONS + 2
    for _ in range(8):
        assert scene.run("sixteen").state == "success"
    assert scene.pushed.tasks("sixteen").keys() == {"maintain-plan", "maintain-report"}
    scene.s3.fill("s3://held/sixteen", one_more_batch())
    held.let_go(*range(PARTITIONS))
    some = {"partitions": [3, 5, 7], "force_snapshot": True}
    assert scene.run("sixteen", some).state == "success"
    names = {f"maintain-{part}" for part in (0, 1, 2, "plan", "report")}
    assert scene.pushed.tasks("sixteen").keys() == names


def one_more_batch() -> dict[str, bytes]:
    """Returns the files with which the query of sixteen partitions goes on."""
    deltas = {
        f"state/0/{part}/{TARGET + 1}.delta": delta_bytes(changes(TARGET + 1, part))
        for part in range(PARTITIONS)
    }
    offsets = offsets_bytes({"shuffle.partitions": str(PARTITIONS)})
    return {**deltas, f"offsets/{TARGET}": offsets, f"commits/{TARGET}": COMMIT}


def test_the_figures_of_a_task_rise_while_it_works(held: Held, scene: Scene) -> None:
    held.hold("rising", range(8))
    run = held.trigger("rising")
    done: list[float] = []
    for partition in range(8):
        held.let_go(partition)
        if partition in (2, 5):
            before = (done or [0])[-1]
            group = wait_for(
                lambda: next(
                    (
                        group
                        for group in _working(scene, "rising", {"maintain-0": ()}).values()
                        if group.get("stores_done", 0) > before  # noqa: B023 -- called at once
                    ),
                    None,
                )
            )
            assert group["stores_planned"] == 8
            assert group["stores_done"] < 8
            assert group["snapshots_written"] >= group["stores_done"]
            done.append(group["stores_done"])
    assert ended(scene, run) == "success"
    assert scene.pushed.tasks("rising")["maintain-0"]["stores_done"] == 8
    assert done == sorted({*done})


def test_a_task_that_is_killed_keeps_the_state_working_and_pushes_no_more(
    held: Held, scene: Scene
) -> None:
    held.hold("slain", range(8))
    run = held.trigger("slain")
    seen = wait_for(lambda: _working(scene, "slain", {"maintain-0": ()}))["maintain-0"]
    path = f"/api/v2/dags/{run.dag}/dagRuns/{quote(run.run)}/taskInstances?task_id=maintain"
    (task,) = scene.admin.get(path)["task_instances"]
    kill_process_of(task["id"])
    assert ended(scene, run) == "failed"
    groups = scene.pushed.tasks("slain")
    assert groups["maintain-0"]["state"] == "working"
    assert groups["maintain-0"]["started_timestamp_seconds"] == seen["started_timestamp_seconds"]
    assert "ended_timestamp_seconds" not in groups["maintain-0"]
    # The report has pushed since, and its record has a task without a report.
    reported = "reported_timestamp_seconds"
    assert groups["maintain-report"][reported] > groups["maintain-0"][reported]
    assert 'statemaint_last_run_tasks{query="slain",state="silent"} 1' in scene.pushed.query(
        "slain"
    )
    held.let_go(*range(8))
    assert scene.run("slain").state == "success"
    assert scene.pushed.tasks("slain")["maintain-0"]["state"] == "succeeded"
