"""A real Pushgateway and a real Prometheus on this machine, for the tests and for `make up`.

Each server leads its own process session, so that it can outlive the program that started it
(`start_*`, later `stop` or `stop_all`) or end with everything it started
(`with pushgateway(folder) as server:`). A folder holds at most one server of each kind: starting a
second one there ends the first.
"""

import json
import os
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from statemaint.demo import processes
from statemaint.demo.processes import Process
from statemaint.errors import ConfigError, StatemaintError

_DEBIAN_PACKAGES = {
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "prometheus-pushgateway": "prometheus-pushgateway",
}
_START_SECONDS = 30.0
_STOP_SECONDS = 10.0


class MissingPart(ConfigError):  # noqa: N818 -- reads as what happened: a part is missing
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
    """A server started by this module.

    Attributes:
        url: its address, without a slash at the end.
        process: its program, which leads its own session.
    """

    url: str
    process: Process


@dataclass(frozen=True, slots=True)
class Sample:
    """One element of the answer to an instant query."""

    labels: Mapping[str, str]
    value: float


def find(program: str) -> str:
    """Returns the path of `prometheus`, `promtool` or `prometheus-pushgateway`.

    Raises:
        MissingPart: when it is not on the PATH; the error names the Debian package.
    """
    # Upstream's own archive calls the program `pushgateway`.
    path = shutil.which(program) or shutil.which(program.removeprefix("prometheus-"))
    if path is None:
        raise MissingPart(program, _DEBIAN_PACKAGES[program])
    return path


@contextmanager
def pushgateway(folder: Path) -> Iterator[Server]:
    """Runs a Pushgateway for the duration of a `with` block; its log is written to `folder`."""
    server = start_pushgateway(folder)
    try:
        yield server
    finally:
        stop(server)


@contextmanager
def prometheus(
    folder: Path, *, scrape: Sequence[str], rules: Sequence[Path] = ()
) -> Iterator[Server]:
    """Runs a Prometheus for the duration of a `with` block; see `start_prometheus`."""
    server = start_prometheus(folder, scrape=scrape, rules=rules)
    try:
        yield server
    finally:
        stop(server)


def start_pushgateway(folder: Path, *, port: int | None = None) -> Server:
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


def start_prometheus(
    folder: Path, *, scrape: Sequence[str], rules: Sequence[Path] = (), port: int | None = None
) -> Server:
    """Starts a Prometheus that runs until `stop`, and waits until it has scraped every target.

    Metrics that were in a Pushgateway before the call can therefore be queried right after it.

    Args:
        folder: the folder for the configuration, data, log and the note that `stop_all` reads.
        scrape: addresses of the Pushgateways, as in `Server.url`; they must be up.
        rules: files with alerting or recording rules.
        port: the port on 127.0.0.1; a free one by default.

    Raises:
        MissingPart: when the program is not installed.
        NotReadyError: when it did not answer, or did not reach a target, in time; it is ended.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "prometheus.yml"
    config.write_text(yaml.safe_dump(_config(scrape, rules)), encoding="utf-8")
    arguments = [f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
    server = _launch("prometheus", arguments, folder=folder, port=port or processes.free_port())
    return _awaited(
        server,
        lambda: _answers(server) and _targets_up(server) == len(scrape),
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


def _config(scrape: Sequence[str], rules: Sequence[Path]) -> dict[str, Any]:
    job = {
        "job_name": "pushgateway",
        # The groups carry their own `job`; without this it would become `exported_job`.
        "honor_labels": True,
        "static_configs": [{"targets": [urllib.parse.urlsplit(url).netloc for url in scrape]}],
    }
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(path.resolve()) for path in rules],
        "scrape_configs": [job] if scrape else [],
    }


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


def _targets_up(server: Server) -> int:
    return int(sum(sample.value for sample in instant_query(server.url, "up")))


def _get(url: str) -> bytes:
    # Never through a proxy: these servers are on this machine, whatever the environment sets.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=5) as answer:
        body: bytes = answer.read()
    return body
