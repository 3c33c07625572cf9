"""A real Pushgateway, Alertmanager and Prometheus on this machine, for the tests and `make up`.

Each server leads its own process session, so that it can outlive the program that started it
(later `stop` or `stop_all`) or end with everything it started (`with pushgateway(folder) as
server:`). A folder holds at most one server of each kind: starting a second one there ends the
first.
"""

import json
import os
import shutil
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
_START_SECONDS = 90.0
_STOP_SECONDS = 10.0


class MissingPart(ConfigError):  # noqa: N818 -- reads as the fault: a part is missing
    """A program that the demo needs is not installed."""

    code = "MISSING_PART"

    def __init__(self, program: str, package: str) -> None:
        super().__init__(program, package)
        self.program, self.package = program, package

    def __str__(self) -> str:
        return f"{self.program} is not installed; it is in the Debian package {self.package}"


class NotReadyError(StatemaintError):
    """A server was started but did not answer in time; `log` is the end of its output."""

    code = "NOT_READY"

    def __init__(self, program: str, log: str) -> None:
        super().__init__(program, log)
        self.program, self.log = program, log

    def __str__(self) -> str:
        return f"{self.program} did not become ready; the end of its log:\n{self.log}"


class QueryRefusedError(ConfigError):
    """Prometheus would not evaluate the given PromQL."""

    code = "QUERY_REFUSED"

    def __init__(self, promql: str, reason: str) -> None:
        super().__init__(promql, reason)
        self.promql, self.reason = promql, reason

    def __str__(self) -> str:
        return f"{self.reason} (in {self.promql!r})"


@dataclass(frozen=True, slots=True)
class Server:
    """A running server; a `with` block ends it.

    Attributes:
        url: its address, without a slash at the end.
        process: its program, which leads its own session.
    """

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
    """Returns the path of a program of Prometheus, by its name in Debian.

    Raises:
        MissingPart: when it is not on the PATH; the error names the Debian package.
    """
    # Upstream's archives call the programs `pushgateway` and `alertmanager`.
    path = shutil.which(program) or shutil.which(program.removeprefix("prometheus-"))
    if path is None:
        raise MissingPart(program, _DEBIAN_PACKAGES[program])
    return path


def pushgateway(folder: Path, *, port: int | None = None) -> Server:
    """Starts a Pushgateway that runs until `stop`; it keeps pushed metrics in memory only.

    Args:
        folder: the folder for the log and the note that `stop_all` reads.
        port: the port on 127.0.0.1; a free one by default.

    Raises:
        MissingPart: when the program is not installed.
        NotReadyError: when it did not answer in time; it is ended.
    """
    port = port or processes.free_port()
    # Debian's default would be a file under /var/lib, shared by all servers of the machine.
    server = _launch("prometheus-pushgateway", ["--persistence.file="], folder=folder, port=port)
    return _awaited(server, lambda: _answers(server), log=folder / "prometheus-pushgateway.log")


def alertmanager(
    folder: Path, *, port: int | None = None, inhibition: Path | None = None
) -> Server:
    """Starts an Alertmanager that runs until `stop`; it sends no notifications.

    Args:
        folder: the folder for its configuration, data, log and note.
        port: the port on 127.0.0.1; a free one by default.
        inhibition: a file with `inhibit_rules`.

    Raises:
        MissingPart: when the program is not installed.
        NotReadyError: when it did not answer in time; it is ended.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "alertmanager.yml"
    rules = yaml.safe_load(inhibition.read_text(encoding="utf-8")) if inhibition else {}
    routes = {"receiver": "nobody", "group_by": ["alertname", "query"], "group_wait": "0s"}
    settings = {"route": routes, "receivers": [{"name": "nobody"}], **rules}
    config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    arguments = [
        f"--config.file={config}",
        f"--storage.path={folder / 'alertmanager'}",
        "--cluster.listen-address=",
    ]
    name = "prometheus-alertmanager"
    server = _launch(name, arguments, folder=folder, port=port or processes.free_port())
    return _awaited(server, lambda: _answers(server), log=folder / f"{name}.log")


def exporter(folder: Path, queries: Path, *, port: int | None = None, every: str = "1s") -> Server:
    """Starts `statemaint exporter` for a queries file.

    Args:
        folder: the folder for its log and note.
        queries: the queries file.
        port: the port on 127.0.0.1; a free one by default.
        every: the time between two readings of the records.

    Raises:
        NotReadyError: when it did not answer in time; it is ended.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port, name = port or processes.free_port(), "statemaint-exporter"
    note, log = folder / f"{name}.server.json", folder / f"{name}.log"
    processes.stop_noted(note, seconds=_STOP_SECONDS)
    options = ["--queries", str(queries), "--host", "127.0.0.1", "--port", str(port)]
    command = [sys.executable, "-m", "statemaint", "exporter", *options, "--every", every]
    process = processes.spawn(command, log=log, environ={"STATEMAINT_ORIGIN": ORIGIN, **os.environ})
    processes.write_note(note, {name: process})
    server = Server(f"http://127.0.0.1:{port}", process)
    return _awaited(server, lambda: _exports(server), log=log)


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

    Metrics that were in a Pushgateway before the call can therefore be queried right after it.

    Args:
        folder: the folder for the configuration, data, log and the note that `stop_all` reads.
        scrape: addresses of the Pushgateways, as in `Server.url`; they must be up.
        rules: files with alerting or recording rules.
        exporters: addresses of `statemaint exporter`, likewise.
        alertmanagers: addresses of the Alertmanagers that receive firing alerts.
        port: the port on 127.0.0.1; a free one by default.
        every: the time between two scrapes, and between two evaluations.

    Raises:
        MissingPart: when the program is not installed.
        NotReadyError: when it did not answer, or did not reach a target, in time; it is ended.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "prometheus.yml"
    jobs = {"pushgateway": scrape, "statemaint-exporter": exporters}
    config.write_text(yaml.safe_dump(_config(jobs, rules, alertmanagers, every)), encoding="utf-8")
    arguments = [f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
    server = _launch("prometheus", arguments, folder=folder, port=port or processes.free_port())
    return _awaited(
        server,
        lambda: _answers(server) and _targets_up(server) == len([*scrape, *exporters]),
        log=folder / "prometheus.log",
    )


def stop(server: Server) -> None:
    """Ends a server and everything in its session; does nothing if it has already ended."""
    processes.stop([server.process], seconds=_STOP_SECONDS)


def stop_all(folder: Path) -> None:
    """Ends every server that was started in `folder`, by any program."""
    for note in sorted(folder.glob("*.server.json")):
        processes.stop_noted(note, seconds=_STOP_SECONDS)


def instant_query(url: str, promql: str) -> list[Sample]:
    """Returns the current value of an expression in a Prometheus.

    Raises:
        QueryRefusedError: when the expression does not parse or cannot be evaluated.
    """
    question = urllib.parse.urlencode({"query": promql})
    try:
        answer = json.loads(_get(f"{url}/api/v1/query?{question}"))
    except urllib.error.HTTPError as error:
        with error:
            raise QueryRefusedError(promql, _reason(error.read())) from None
    return _samples(answer["data"])


def _reason(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError):
        return body.decode("utf-8", "replace")


def _samples(data: Mapping[str, Any]) -> list[Sample]:
    if data["resultType"] == "scalar":
        return [Sample({}, float(data["result"][1]))]
    return [Sample(each["metric"], float(each["value"][1])) for each in data["result"]]


def alerts_of(url: str) -> list[dict[str, str]]:
    """Returns the labels of the alerts that an Alertmanager has, by their names."""
    alerts = json.loads(_get(f"{url}/api/v2/alerts"))
    return sorted((one["labels"] for one in alerts), key=lambda labels: str(labels["alertname"]))


def _config(
    jobs: Mapping[str, Sequence[str]],
    rules: Sequence[Path],
    alertmanagers: Sequence[str],
    every: str,
) -> dict[str, Any]:
    return {
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


def _targets(urls: Sequence[str]) -> dict[str, list[str]]:
    return {"targets": [urllib.parse.urlsplit(url).netloc for url in urls]}


def _launch(program: str, arguments: Sequence[str], *, folder: Path, port: int) -> Server:
    path = find(program)
    folder.mkdir(parents=True, exist_ok=True)
    note = folder / f"{program}.server.json"
    processes.stop_noted(note, seconds=_STOP_SECONDS)
    address = f"127.0.0.1:{port}"
    command = [path, f"--web.listen-address={address}", *arguments]
    process = processes.spawn(command, log=folder / f"{program}.log", environ=os.environ)
    processes.write_note(note, {program: process})
    return Server(f"http://{address}", process)


def _awaited(server: Server, ready: Callable[[], bool], *, log: Path) -> Server:
    try:
        _wait_until(ready, server, log)
    except BaseException:
        stop(server)
        raise
    return server


def _wait_until(ready: Callable[[], bool], server: Server, log: Path) -> None:
    if not processes.wait_until(ready, seconds=_START_SECONDS, needed=[server.process]):
        raise NotReadyError(log.stem, processes.end_of(log))


def _answers(server: Server) -> bool:
    try:
        _get(f"{server.url}/-/ready")
    except OSError:  # refused, timed out, or "503 not yet": all of them are OSErrors
        return False
    return True


def _exports(server: Server) -> bool:
    try:
        return b"statemaint_exporter_queries" in _get(f"{server.url}/metrics")
    except OSError:
        return False


def _targets_up(server: Server) -> int:
    return int(sum(sample.value for sample in instant_query(server.url, "up")))


def _get(url: str) -> bytes:
    # Never through a proxy: these servers are on this machine, whatever the environment sets.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=5) as answer:
        body: bytes = answer.read()
    return body
