"""The rules in a real Prometheus, and the inhibition rules in a real Alertmanager."""

import json
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import yaml

from helm.alerts import ALERTS as RULES
from tests.support.serving import served
from tests.systems.prometheus.support import ALERTS, CHART, part
from tools.demo.processes import wait_until
from tools.demo.prometheus import Server, alertmanager, alerts_of, instant_query, prometheus

pytestmark = pytest.mark.prometheus

INHIBITION = CHART / "files" / "alertmanager.yaml"
QUERIES = 5_000
QUERY = {"query": "q", "origin": "blue", "namespace": "one", "owner": "ann"}
STORED = {**QUERY, "storage": "s3://lake"}
INSTALLATION = {"origin": "blue", "namespace": "one"}


@contextmanager
def page(text: str) -> Iterator[str]:
    """Serves metrics, for the length of a `with` block."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text.encode())

    with served(Page) as url:
        yield url


def series(name: str, value: float, **labels: str) -> str:
    listed = ",".join(f'{key}="{one}"' for key, one in labels.items())
    return f"statemaint_{name}{{{listed}}} {value}\n"


def known(now: float, **labels: str) -> str:
    ended = series("last_run_timestamp_seconds", now, **labels)
    return series("query_info", 1, dag="", **labels) + ended


def now_firing(folder: Path) -> Path:
    """Writes the rules, none of which waits, or allows more than a minute without a run."""
    rules = re.sub(r"for: \d+[mh]", "for: 0m", ALERTS.read_text())
    file = folder / "rules.yaml"
    file.write_text(rules.replace("* 0 + 21600", "* 0 + 1"))
    return file


def test_5000_queries_on_a_storage_that_is_down_are_one_alert(tmp_path: Path) -> None:
    part("prometheus")
    part("prometheus-alertmanager")
    place = {"namespace": "one", "storage": "s3://lake"}
    now = time.time() + 3600  # so that no query is late while the servers start
    text = "".join(
        known(now, query=f"q{number}", origin="blue", namespace="one", owner="ann")
        + series("exporter_read_failed", 1, query=f"q{number}", origin="blue", **place)
        + series("last_run_failed", 1, query=f"q{number}", origin="blue", cause="storage", **place)
        for number in range(QUERIES)
    )
    # The other installation has a query of the same name, with damage.
    other = {"query": "q1", "origin": "green", "namespace": "two", "owner": "bob"}
    text += known(now, **other) + series("stores", 1, outcome="halted", **other)
    with (
        page(text) as url,
        alertmanager(tmp_path, inhibition=INHIBITION) as manager,
        prometheus(
            tmp_path,
            scrape=[],
            exporters=[url],
            rules=[now_firing(tmp_path)],
            alertmanagers=[manager.url],
            every="5s",
        ) as server,
    ):
        # A scrape that a busy machine does not end in time is a source that is down, for a while.
        assert wait_until(lambda: len(alerts_of(manager.url)) == 2, seconds=150)
        halted, down = alerts_of(manager.url)
        evaluated = "statemaint_query_info"
        assert len(instant_query(server.url, evaluated)) == QUERIES + 1
        # Alerts are sent before their series are stored.
        firing = 'count(ALERTS{alertstate="firing"}) == 2'
        assert wait_until(lambda: bool(instant_query(server.url, firing)), seconds=60)
    assert own(halted) == {
        "alertname": "StatemaintHalted", "query": "q1", "origin": "green", "namespace": "two",
        "owner": "bob", "severity": "critical",
    }  # fmt: skip
    assert own(down) == {
        "alertname": "StatemaintStorageDown", "origin": "blue", "severity": "critical", **place,
    }  # fmt: skip


def test_what_is_silent_is_told_in_a_real_prometheus(tmp_path: Path) -> None:
    part("prometheus")
    part("prometheus-alertmanager")
    now, where = time.time() + 3600, {"origin": "green", "namespace": "two"}
    text = (
        known(now, query="fine", owner="ann", **INSTALLATION)
        + series("exporter_last_reading_timestamp_seconds", 0, **INSTALLATION)
        + series("query_info", 1, dag="", query="new", owner="bob", **where)
        + series("exporter_last_reading_timestamp_seconds", now, **where)
        + series("exporter_problems", 1, **where)
        + series("configuration_problem", 1, file="/queries.yaml", line="7", query="bad", **where)
    )
    with (
        page(text) as url,
        alertmanager(tmp_path, inhibition=INHIBITION) as manager,
        prometheus(
            tmp_path,
            scrape=[],
            exporters=[url],
            rules=[now_firing(tmp_path)],
            alertmanagers=[manager.url],
        ),
    ):
        assert wait_until(lambda: len(alerts_of(manager.url)) == 3, seconds=60)
        found = alerts(manager)
    named = [(one["labels"]["alertname"], one["labels"]["origin"]) for one in found]
    assert named == [
        ("StatemaintConfigurationProblem", "green"),
        ("StatemaintExporterStale", "blue"),
        ("StatemaintNeverRan", "green"),
    ]
    assert found[0]["annotations"]["summary"] == "The queries file has 1 mistake"
    assert "/queries.yaml:7 bad" in found[0]["annotations"]["description"]
    assert found[2]["labels"]["owner"] == "bob"


# A cause, what it inhibits, and what is close and stays.
INHIBITED: dict[str, tuple[Mapping[str, str], Sequence[str], Mapping[str, str]]] = {
    "StatemaintStorageDown": (
        {**INSTALLATION, "storage": "s3://lake"},
        ["StatemaintRunFailed", "StatemaintUnreadable"],
        {**STORED, "storage": "s3://sea"},
    ),
    "StatemaintExporterStale": (
        INSTALLATION,
        ["StatemaintStale", "StatemaintNeverRan"],
        {**QUERY, "origin": "green"},
    ),
    "StatemaintHalted": (
        QUERY,
        ["StatemaintVerifyFailed", "StatemaintChainTooLong"],
        {**QUERY, "namespace": "two"},
    ),
    "StatemaintPlanFailed": (QUERY, ["StatemaintSnapshotLag"], {**QUERY, "query": "other"}),
    "StatemaintRunFailed": (STORED, ["StatemaintRunStalled"], {**STORED, "query": "other"}),
}


@pytest.mark.parametrize("cause", INHIBITED)
def test_an_alert_inhibits_what_follows_from_it_and_nothing_of_others(
    cause: str, tmp_path: Path
) -> None:
    part("prometheus-alertmanager")
    labels, follows, elsewhere = INHIBITED[cause]
    with alertmanager(tmp_path, inhibition=INHIBITION) as manager:
        sent = [{"alertname": cause, **labels}]
        sent += [{"alertname": name, **one} for name in follows for one in (STORED, elsewhere)]
        post(manager, [{"labels": one} for one in sent])
        assert wait_until(lambda: len(alerts_of(manager.url)) == len(sent), seconds=30)
        # It shows an alert before its rules know it.
        expected = {(name, "s3://lake", "blue", "one", "q") for name in follows}
        assert wait_until(lambda: silent(manager) == expected, seconds=30), silent(manager)


def silent(manager: Server) -> set[tuple[str | None, ...]]:
    """Returns what is inhibited."""
    names = ("alertname", "storage", "origin", "namespace", "query")
    return {
        tuple(map(one["labels"].get, names))
        for one in alerts(manager)
        if one["status"]["inhibitedBy"]
    }


def test_the_inhibition_rules_are_valid_and_name_alerts_that_there_are(tmp_path: Path) -> None:
    part("prometheus-alertmanager")
    content = yaml.safe_load(INHIBITION.read_text())
    file = tmp_path / "alertmanager.yml"
    receivers = {"route": {"receiver": "x"}, "receivers": [{"name": "x"}]}
    file.write_text(yaml.safe_dump({**content, **receivers}))
    amtool = shutil.which("amtool") or "amtool"
    done = subprocess.run(
        [amtool, "check-config", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(content['inhibit_rules'])} inhibit rules" in done.stdout
    named = set(re.findall(r"Statemaint\w+", yaml.safe_dump(content)))
    assert named <= {one.name for one in RULES}


def own(labels: Mapping[str, str]) -> dict[str, str]:
    return {key: one for key, one in labels.items() if key not in {"job", "instance"}}


def alerts(manager: Server) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{manager.url}/api/v2/alerts") as answer:  # noqa: S310 -- our own
        found: list[dict[str, Any]] = json.load(answer)
    return sorted(found, key=lambda one: str(one["labels"]["alertname"]))


def post(manager: Server, sent: Sequence[Mapping[str, Any]]) -> None:
    request = urllib.request.Request(  # noqa: S310 -- our own
        f"{manager.url}/api/v2/alerts",
        data=json.dumps(sent).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request):  # noqa: S310 -- our own
        pass
