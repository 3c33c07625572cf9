"""A real Pushgateway, Alertmanager and Prometheus on this machine, for the tests and `make up`.

Each server leads its own process session, so that it can outlive the program that started it
(later `stop` or `stop_all`) or end with everything it started (`with pushgateway(folder) as
server:`). A folder holds at most one server of each kind: starting a second one there ends the
first. At the end: the dashboards' queries, sent to a Prometheus as Grafana would send them.
"""

import json
import os
import re
import shutil
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import yaml

from statemaint.errors import ConfigError, StatemaintError
from tools.demo import processes
from tools.demo.processes import Process

_DEBIAN_PACKAGES = {
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "prometheus-pushgateway": "prometheus-pushgateway",
    "prometheus-alertmanager": "prometheus-alertmanager",
}
# Airflow and the exporter are one installation.
ORIGIN = "demo"
_VARIABLE = re.compile(r"\$(query|origin|namespace|operator|partition)\b")
_START_SECONDS = 90.0
_STOP_SECONDS = 10.0


class MissingPart(ConfigError):  # noqa: N818 -- reads as the fault: a part is missing
    """A program that the demo needs is not installed."""

    code = "MISSING_PART"


class NotReadyError(StatemaintError):
    """A server was started but did not answer in time; has the end of its output."""

    code = "NOT_READY"


class QueryRefusedError(ConfigError):
    """Prometheus would not evaluate the given PromQL."""

    code = "QUERY_REFUSED"


@dataclass(frozen=True, slots=True)
class Server:
    """A running server, whose URL ends without a slash; a `with` block ends it."""

    url: str
    process: Process

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        stop(self)


@dataclass(frozen=True, slots=True)
class Sample:
    """One element of the answer to an instant query."""

    labels: Mapping[str, str]
    value: float


def find(program: str) -> str:
    """Returns the path of a program of Prometheus, by its name in Debian."""
    # Upstream's archives call the programs `pushgateway` and `alertmanager`.
    path = shutil.which(program) or shutil.which(program.removeprefix("prometheus-"))
    if path is None:
        package = _DEBIAN_PACKAGES[program]
        raise MissingPart(f"{program} is not installed; it is in the Debian package {package}")
    return path


def pushgateway(folder: Path, *, port: int | None = None) -> Server:
    """Starts a Pushgateway that runs until `stop`; it keeps pushed metrics in memory only.

    As all servers here it listens on 127.0.0.1, by default on a free port, has its files in
    `folder`, and is ended if it does not answer in time (`NotReadyError`).
    """
    # Debian's default would be a file under /var/lib, shared by all servers of the machine.
    return _launch("prometheus-pushgateway", "--persistence.file=", folder=folder, port=port)


def alertmanager(
    folder: Path, *, port: int | None = None, inhibition: Path | None = None
) -> Server:
    """Starts an Alertmanager that runs until `stop`; it sends no notifications.

    `inhibition` is a file with `inhibit_rules`.
    """
    rules = yaml.safe_load(inhibition.read_text(encoding="utf-8")) if inhibition else {}
    routes = {"receiver": "nobody", "group_by": ["alertname", "query"], "group_wait": "0s"}
    settings = {"route": routes, "receivers": [{"name": "nobody"}], **rules}
    return _launch(
        "prometheus-alertmanager",
        f"--config.file={_write_config(folder / 'alertmanager.yml', settings)}",
        f"--storage.path={folder / 'alertmanager'}",
        "--cluster.listen-address=",
        folder=folder,
        port=port,
    )


def exporter(folder: Path, queries: Path, *, port: int | None = None, every: str = "1s") -> Server:
    """Starts `statemaint exporter`, which reads the records of a queries file `every` second."""
    folder.mkdir(parents=True, exist_ok=True)
    port = port or processes.free_port()
    options = ["--queries", str(queries), "--host", "127.0.0.1", "--port", str(port)]
    command = [sys.executable, "-m", "statemaint", "exporter", *options, "--every", every]
    ready = partial(_answers, page="/metrics", text=b"statemaint_exporter_queries")
    return _start("statemaint-exporter", command, folder=folder, port=port, ready=ready)


def prometheus(  # noqa: PLR0913 -- each is a separate choice
    folder: Path,
    *,
    scrape: Sequence[str],
    rules: Sequence[Path] = (),
    exporters: Sequence[str] = (),
    alertmanagers: Sequence[str] = (),
    port: int | None = None,
    every: str = "1s",
) -> Server:
    """Starts a Prometheus that runs until `stop`, and waits until it has scraped every target.

    Metrics that were in a Pushgateway before the call can therefore be queried right after it. The
    Pushgateways to `scrape` and the exporters are addresses as in `Server.url`; they must be up.
    `every` is the time between two scrapes, and between two evaluations of the files with rules.
    """
    jobs = {"pushgateway": scrape, "statemaint-exporter": exporters}
    settings = {
        "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
        "rule_files": [str(path.resolve()) for path in rules],
        "alerting": {"alertmanagers": [{"static_configs": [_targets(alertmanagers)]}]},
        "scrape_configs": [
            # The groups carry their own `job`; without `honor_labels` it would be `exported_job`.
            {"job_name": job, "honor_labels": True, "static_configs": [_targets(urls)]}
            for job, urls in jobs.items()
            if urls
        ],
    }
    return _launch(
        "prometheus",
        f"--config.file={_write_config(folder / 'prometheus.yml', settings)}",
        f"--storage.tsdb.path={folder / 'data'}",
        folder=folder,
        port=port,
        ready=lambda url: _answers(url) and _targets_up(url) == len([*scrape, *exporters]),
    )


def stop(server: Server) -> None:
    """Ends a server and everything in its session; does nothing if it has already ended."""
    processes.stop([server.process], seconds=_STOP_SECONDS)


def stop_all(folder: Path) -> None:
    """Ends every server that was started in `folder`, by any program."""
    for note in sorted(folder.glob("*.server.json")):
        processes.stop_noted(note, seconds=_STOP_SECONDS)


def instant_query(url: str, promql: str) -> list[Sample]:
    question = urllib.parse.urlencode({"query": promql})
    try:
        data = json.loads(_get(f"{url}/api/v1/query?{question}"))["data"]
    except urllib.error.HTTPError as error:
        with error:
            raise QueryRefusedError(f"{_reason(error.read())} (in {promql!r})") from None
    if data["resultType"] == "scalar":
        return [Sample({}, float(data["result"][1]))]
    return [Sample(each["metric"], float(each["value"][1])) for each in data["result"]]


def _reason(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError):
        return body.decode("utf-8", "replace")


def alerts_of(url: str) -> list[dict[str, str]]:
    alerts = json.loads(_get(f"{url}/api/v2/alerts"))
    return sorted((one["labels"] for one in alerts), key=lambda labels: str(labels["alertname"]))


def _write_config(file: Path, settings: Mapping[str, Any]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return file


def _targets(urls: Sequence[str]) -> dict[str, list[str]]:
    return {"targets": [urllib.parse.urlsplit(url).netloc for url in urls]}


def _answers(url: str, page: str = "/-/ready", text: bytes = b"") -> bool:
    try:
        return text in _get(f"{url}{page}")
    except OSError:  # refused, timed out, or "503 not yet": all of them are OSErrors
        return False


def _targets_up(url: str) -> int:
    return int(sum(sample.value for sample in instant_query(url, "up")))


def _launch(
    program: str,
    *arguments: str,
    folder: Path,
    port: int | None,
    ready: Callable[[str], bool] = _answers,
) -> Server:
    path, port = find(program), port or processes.free_port()
    folder.mkdir(parents=True, exist_ok=True)
    command = [path, f"--web.listen-address=127.0.0.1:{port}", *arguments]
    return _start(program, command, folder=folder, port=port, ready=ready)


def _start(
    name: str,
    command: Sequence[str],
    *,
    folder: Path,
    port: int,
    ready: Callable[[str], bool],
) -> Server:
    note, log = folder / f"{name}.server.json", folder / f"{name}.log"
    processes.stop_noted(note, seconds=_STOP_SECONDS)
    process = processes.spawn(command, log=log, environ={"STATEMAINT_ORIGIN": ORIGIN, **os.environ})
    processes.write_note(note, {name: process})
    url = f"http://127.0.0.1:{port}"
    with ExitStack() as ending:
        server = ending.enter_context(Server(url, process))
        if not processes.wait_until(lambda: ready(url), seconds=_START_SECONDS, needed=[process]):
            end = processes.end_of(log)
            raise NotReadyError(f"{name} did not become ready; the end of its log:\n{end}")
        ending.pop_all()
    return server


def _get(url: str) -> bytes:
    # Never through a proxy: these servers are on this machine, whatever the environment sets.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=5) as answer:
        body: bytes = answer.read()
    return body


@dataclass(frozen=True, slots=True)
class BoardQuery:
    """One query of one panel, or of the marks on all of them."""

    board: str  # its uid
    panel: str  # its title
    ref: str  # the query within the panel
    expr: str  # PromQL, with the dashboard's variables

    @property
    def only_in_trouble(self) -> bool:
        """Whether it has no data while nothing is wrong."""
        return "ALERTS_FOR_STATE" in self.expr or self.ref == "Failed runs"

    def chosen(self, query: str = ".*") -> str:
        """Returns the expression with a value for the variable `query`, and all of the others."""
        return _VARIABLE.sub(lambda name: query if name[1] == "query" else ".*", self.expr)


def board_queries(folder: Path) -> tuple[BoardQuery, ...]:
    texts = [file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.json"))]
    return tuple(query for text in texts for query in _of(json.loads(text)))


def silent_queries(folder: Path, prometheus: str) -> tuple[BoardQuery, ...]:
    """Returns the dashboards' queries for which a Prometheus of healthy queries has no data.

    Without those that have none without an exporter.
    """
    return tuple(
        query
        for query in board_queries(folder)
        if not query.only_in_trouble and "statemaint_exporter_" not in query.expr
        if not instant_query(prometheus, query.chosen())
    )


def _of(board: dict[str, Any]) -> Iterator[BoardQuery]:
    uid = board["uid"]
    for mark in board["annotations"]["list"]:
        yield BoardQuery(uid, "annotations", mark["name"], mark["expr"])
    for panel in board["panels"]:
        for target in panel.get("targets") or ():
            yield BoardQuery(uid, panel["title"], target["refId"], target["expr"])
