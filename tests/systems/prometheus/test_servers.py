import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import psutil
import pytest

from tests.support.metrics import ORIGIN
from tests.support.paths import ROOT
from tests.systems.prometheus.support import QUERIES, part
from tools.demo.processes import Process
from tools.demo.prometheus import (
    MissingPart,
    NotReadyError,
    QueryRefusedError,
    Server,
    find,
    instant_query,
    prometheus,
    pushgateway,
    stop,
    stop_all,
)

pytestmark = pytest.mark.prometheus


def answers(server: Server) -> bool:
    try:
        with build_opener(ProxyHandler({})).open(f"{server.url}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def lives(server: Server) -> bool:
    return any(
        _group(one.pid) == server.process.pid and one.info["status"] != psutil.STATUS_ZOMBIE
        for one in psutil.process_iter(["status"])
    )


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def test_what_was_pushed_before_the_start_can_be_queried_at_once(monitored: Server) -> None:
    found = instant_query(monitored.url, "max by (query) (statemaint_last_committed_batch)")
    assert {sample.labels["query"]: sample.value for sample in found} == dict.fromkeys(
        QUERIES, 24.0
    )


def test_series_keep_the_labels_of_their_group(monitored: Server) -> None:
    [sample] = instant_query(
        monitored.url,
        'statemaint_last_run_failed{job="statemaint",query="click_join",cause="damage"}',
    )
    assert dict(sample.labels) == {
        "__name__": "statemaint_last_run_failed",
        "job": "statemaint",
        "namespace": "streams",
        "origin": ORIGIN,
        "query": "click_join",
        "cause": "damage",
    }


def test_a_scalar_is_one_sample_without_labels(monitored: Server) -> None:
    [sample] = instant_query(monitored.url, "1 + 1")
    assert (dict(sample.labels), sample.value) == ({}, 2.0)


def test_a_query_that_does_not_parse_is_refused_with_the_reason(monitored: Server) -> None:
    with pytest.raises(QueryRefusedError, match=r"unclosed left parenthesis .*in 'sum\('"):
        instant_query(monitored.url, "sum(")


def test_stop_ends_the_process_group_and_may_be_repeated(tmp_path: Path) -> None:
    part("prometheus-pushgateway")
    server = pushgateway(tmp_path)
    assert answers(server)
    assert lives(server)
    pid = server.process.pid
    assert os.getsid(pid) == os.getpgid(pid) == pid
    stop(server)
    assert not lives(server)
    stop(server)


def test_a_server_outlives_the_program_that_started_it_and_any_other_can_end_it(
    tmp_path: Path,
) -> None:
    part("prometheus-pushgateway")
    program = (
        "import pathlib, sys; from tools.demo.prometheus import pushgateway;"
        "server = pushgateway(pathlib.Path(sys.argv[1]));"
        "print(server.url, server.process.pid, server.process.started)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    url, pid, began = done.stdout.split()
    server = Server(url, Process(int(pid), float(began)))
    assert answers(server)
    stop_all(tmp_path)
    assert not lives(server)
    stop_all(tmp_path)


def test_a_second_start_in_a_folder_ends_the_first(tmp_path: Path) -> None:
    part("prometheus-pushgateway")
    first = pushgateway(tmp_path)
    second = pushgateway(tmp_path)
    try:
        assert not lives(first)
        assert answers(second)
    finally:
        stop(second)


def test_a_server_that_does_not_start_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    part("prometheus")
    broken = tmp_path / "broken.yaml"
    broken.write_text("groups: [{name: x, rules: [{record: a, expr: 'sum('}]}]")
    started = time.monotonic()
    with pytest.raises(NotReadyError, match="unclosed left parenthesis"):
        prometheus(tmp_path, scrape=[], rules=[broken])
    assert time.monotonic() - started < 10, "it waited for a process that had ended"
    noted = json.loads((tmp_path / "prometheus.server.json").read_text(encoding="utf-8"))
    assert not lives(Server("", Process(**noted["prometheus"])))


def test_stop_spares_a_process_that_got_the_number_of_a_dead_server() -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as other:
        try:
            stop(Server("http://127.0.0.1:9091", Process(other.pid, started=0.0)))
            assert other.poll() is None
        finally:
            os.killpg(other.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("program", "package"),
    [
        ("prometheus", "prometheus"),
        ("promtool", "prometheus"),
        ("prometheus-pushgateway", "prometheus-pushgateway"),
        ("prometheus-alertmanager", "prometheus-alertmanager"),
    ],
)
def test_a_missing_part_names_its_debian_package(
    program: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingPart, match=rf"^{program} is not .* package {package}$"):
        find(program)


def test_upstreams_name_of_the_pushgateway_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "pushgateway"
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find("prometheus-pushgateway") == str(program)
