"""The groups of tasks in a real Pushgateway: two installations, a kill, and the documents."""

import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import pytest
from prometheus_client.parser import text_string_to_metric_families

from helm import dashboards
from statemaint.maintain import maintain
from statemaint.metrics.catalogue import METRICS, Detail
from statemaint.metrics.options import Named, Targets
from statemaint.metrics.publish import publish_record
from statemaint.metrics.tasks import Task, reporting
from tests.support.metrics import TIGHT, maintained, neglected, series_of
from tests.support.paths import ROOT
from tests.systems.prometheus.support import ALERTS, part, soon
from tools.demo.processes import wait_until
from tools.demo.prometheus import Server, board_queries, instant_query, prometheus

pytestmark = pytest.mark.prometheus

OURS, THEIRS = Named("q", origin="ours"), Named("q", origin="theirs")
EARLIER = tuple(f"maintain-{number}" for number in range(16))

# A task that works until it is killed; it pushes every second.
WORKING = """
import sys, time
from statemaint.metrics import tasks
from statemaint.metrics.options import Named, Targets

tasks.EVERY = 1.0
of = Named(sys.argv[2], origin="ours")
with tasks.reporting(tasks.Task(of, "maintain-3", Targets(sys.argv[1])), clock=time.time):
    time.sleep(600)
"""


def served(gateway: Server) -> str:
    with build_opener(ProxyHandler({})).open(f"{gateway.url}/metrics", timeout=5) as answer:
        return str(answer.read().decode())


def tasks_of(gateway: Server, origin: str) -> set[str]:
    """Returns the names of an installation's tasks in the Pushgateway."""
    families = text_string_to_metric_families(served(gateway))
    found = [one.labels for family in families for one in family.samples]
    return {one["task"] for one in found if "task" in one and one.get("origin") == origin}


def report(gateway: Server, of: Named, name: str, earlier: tuple[str, ...] = ()) -> None:
    with reporting(Task(of, name, Targets(gateway.url), earlier=earlier), clock=time.time):
        pass


def test_two_installations_with_a_query_of_one_name_keep_their_own_groups(
    gateway: Server,
) -> None:
    for of in (OURS, THEIRS):
        for name in ("maintain-plan", "maintain-0", "maintain-15", "verify-0"):
            report(gateway, of, name)
    before = tasks_of(gateway, "theirs")
    report(gateway, OURS, "maintain-plan", EARLIER)
    assert tasks_of(gateway, "ours") == {"maintain-plan", "verify-0"}
    assert tasks_of(gateway, "theirs") == before
    assert len(before) == 4


def test_the_groups_of_a_removed_querys_tasks_go_and_those_of_another_installation_stay(
    gateway: Server,
) -> None:
    for of in (OURS, THEIRS):
        report(gateway, of, "maintain-0")  # of a first run that was killed: there is no record
    kept, now = Named("kept", origin="ours"), time.time()
    where = Targets(gateway.url, known=frozenset({"kept"}))
    assert publish_record(kept, maintained(neglected(now), now), where)
    assert soon(lambda: not tasks_of(gateway, "ours"))
    assert tasks_of(gateway, "theirs") == {"maintain-0"}


def test_the_groups_of_a_larger_max_tasks_go_with_the_next_report(gateway: Server) -> None:
    now, task = time.time(), Task(OURS, "maintain-63", Targets(gateway.url))
    other = replace(task, of=THEIRS)
    with reporting(task, clock=lambda: now - 3600), reporting(other, clock=lambda: now - 3600):
        pass
    for name in ("maintain-plan", "maintain-0"):
        report(gateway, OURS, name, EARLIER if name.endswith("plan") else ())
    assert tasks_of(gateway, "ours") == {"maintain-63", "maintain-plan", "maintain-0"}
    where = Targets(gateway.url, known=frozenset({"q"}))
    assert publish_record(OURS, maintained(neglected(now), now), where)
    left = {"maintain-plan", "maintain-0"}
    assert soon(lambda: tasks_of(gateway, "ours") == left)
    assert tasks_of(gateway, "theirs") == {"maintain-63"}


def test_nothing_counts_twice_where_a_task_and_a_record_are_pushed(gateway: Server) -> None:
    now, storage = time.time(), neglected(time.time())
    task = Task(OURS, "maintain-0", Targets(gateway.url))
    with reporting(task, clock=time.time) as (progress,):
        maintain(storage, TIGHT, on_outcome=progress.changes())
    assert publish_record(OURS, maintained(neglected(now), now), Targets(gateway.url))
    names = [name for name, labels in series_of(served(gateway)) if "task" in dict(labels)]
    assert names
    assert all(name.startswith("task_") for name in names)


def test_every_series_that_a_task_pushes_is_documented_and_on_a_dashboard(
    gateway: Server,
) -> None:
    task = Task(OURS, "maintain-0", Targets(gateway.url))
    with reporting(task, clock=time.time) as (progress,):
        maintain(neglected(time.time()), TIGHT, on_outcome=progress.changes())
    pushed = set(re.findall(r"^statemaint_(task_\w+)\{", served(gateway), re.MULTILINE))
    assert pushed == {one.name for one in METRICS if one.detail is Detail.TASK}
    document = (ROOT / "docs/metrics.md").read_text()
    shown = " ".join(query.expr for query in board_queries(dashboards.FOLDER))
    for name in pushed:
        assert f"| `{name}` |" in document
        assert re.search(rf"\bstatemaint_{name}\b", shown)


def test_a_killed_task_fires_an_alert_until_its_query_runs_again(
    gateway: Server, tmp_path: Path
) -> None:
    part("prometheus")
    rules = tmp_path / "rules.yaml"
    rules.write_text(ALERTS.read_text().replace("> 600", "> 20"))
    command = [sys.executable, "-c", WORKING, gateway.url]
    with (
        subprocess.Popen([*command, "killed"]) as killed,
        subprocess.Popen([*command, "alive"]) as alive,
        prometheus(tmp_path, scrape=[gateway.url], rules=[rules]) as server,
    ):
        try:
            working = 'statemaint_task_state{state="working"}'
            assert wait_until(lambda: len(instant_query(server.url, working)) == 2, seconds=300)
            killed.send_signal(signal.SIGKILL)
            assert wait_until(lambda: bool(stalled(server)), seconds=300)
            assert stalled(server) == [("killed", "ours")]
            assert len(instant_query(server.url, working)) == 2
            report(gateway, Named("killed", origin="ours"), "maintain-plan", EARLIER)
            assert wait_until(lambda: not stalled(server), seconds=300)
        finally:
            killed.kill()
            alive.kill()


def stalled(server: Server) -> list[tuple[str, str]]:
    """Returns the query and the installation of each run that is known to be stalled."""
    firing = 'ALERTS{alertname="StatemaintRunStalled",alertstate="firing"}'
    found = instant_query(server.url, firing)
    return [(one.labels["query"], one.labels["origin"]) for one in found]
