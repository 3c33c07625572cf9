"""The program `statemaint exporter`, scraped."""

import gzip
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import pytest
import yaml

from statemaint.cli.queries import _places
from statemaint.maintain.record import write_record
from statemaint.metrics.exporter import Exporter, RecordPlaces, serving
from statemaint.queries.reading import QueriesReader
from statemaint.storage import LocalStorage, open_storage
from tests.support.metrics import maintained, neglected, plain, series_of

NOW = 1_800_000_000.0
EXPORTER = [sys.executable, "-m", "statemaint", "exporter"]


def queries(folder: Path, count: int) -> Path:
    """Writes a file of queries that have run once."""
    record = maintained(neglected(NOW), NOW)
    for number in range(count):
        (folder / f"ck{number}").mkdir()
        write_record(LocalStorage(folder / f"ck{number}"), record)
    listed = {f"q{number}": {"checkpoint": str(folder / f"ck{number}")} for number in range(count)}
    file = folder / "queries.yaml"
    file.write_text(yaml.safe_dump({"queries": listed}))
    return file


@contextmanager
def exporter(file: Path, *options: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    command = [*EXPORTER, "--queries", str(file), "--host=127.0.0.1", "--port=0", "--json"]
    command += options
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield json.loads(process.stdout.readline())["url"], process
        finally:
            process.kill()


@pytest.mark.no_cover
def test_it_can_be_asked_to_end_as_soon_as_it_says_where_it_serves(tmp_path: Path) -> None:
    with exporter(queries(tmp_path, 1)) as (_, process):
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


@pytest.mark.no_cover
def test_fifty_queries_are_scraped_at_once_and_it_ends_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with exporter(queries(tmp_path, 50)) as (url, process):
        began = time.monotonic()
        with build_opener(ProxyHandler({})).open(url, timeout=10) as answer:
            text = answer.read().decode()
        seconds = time.monotonic() - began
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    for number in range(50):
        assert plain(series_of(text, f"q{number}"))["last_run_timestamp_seconds"] == NOW
    with capsys.disabled():
        print(f"\na scrape of 50 queries: {seconds:.3f} s, {len(text)} bytes")  # noqa: T201


def test_series_have_the_labels_of_the_installation_and_of_the_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATEMAINT_ORIGIN", "blue")
    monkeypatch.setenv("STATEMAINT_NAMESPACE", "streams")
    content = {
        "alert_labels": ["team", "tier"],
        "queries": {"q": {"checkpoint": "s3://lake/q", "owner": "ann", "tags": ["team:x", "y:z"]}},
    }
    (tmp_path / "queries.yaml").write_text(yaml.safe_dump(content))
    reader = QueriesReader(tmp_path / "queries.yaml", clock=lambda: NOW)
    [place] = (places := _places(reader, (1, 1))).queries
    installation = {"origin": "blue", "namespace": "streams"}
    assert places.labels == installation
    assert place.named.labels == {**installation, "query": "q", "owner": "ann", "team": "x"}
    assert place.named.storage == "s3://lake"


def get(url: str, path: str) -> tuple[int, str]:
    """Returns the status and the text of an answer."""
    try:
        with build_opener(ProxyHandler({})).open(
            url.replace("/metrics", path), timeout=60
        ) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_probes_answer_and_the_process_measures_itself(tmp_path: Path) -> None:
    with exporter(queries(tmp_path, 1)) as (url, _):
        assert get(url, "/-/healthy") == (200, "yes\n")
        assert get(url, "/-/ready")[0] == 200
        assert get(url, "/nothing")[0] == 404
        assert "\nprocess_resident_memory_bytes " in get(url, "/metrics")[1]


def test_the_exporter_is_healthy_and_not_ready_before_its_first_reading() -> None:
    never = Exporter(lambda: RecordPlaces((), 0), open_storage, lambda: NOW)
    with serving(never, "127.0.0.1", 0, certificate=None, key=None) as port:
        url = f"http://127.0.0.1:{port}/metrics"
        assert get(url, "/-/healthy")[0] == 200
        assert get(url, "/-/ready")[0] == 503
        never.refresh()
        assert get(url, "/-/ready")[0] == 200


def test_compressed_and_plain_answers_have_the_same_text(tmp_path: Path) -> None:
    with exporter(queries(tmp_path, 2)) as (url, _):
        request = Request(url, headers={"Accept-Encoding": "gzip"})  # noqa: S310 -- our own
        with build_opener(ProxyHandler({})).open(request, timeout=60) as answer:
            assert answer.headers["Content-Encoding"] == "gzip"
            zipped = gzip.decompress(answer.read()).decode()
        assert series_of(zipped, "q1") == series_of(get(url, "/metrics")[1], "q1") != {}


def test_shards_share_the_queries_and_each_counts_all(tmp_path: Path) -> None:
    file, shown = queries(tmp_path, 12), []
    for number in (1, 2, 3):
        with exporter(file, f"--shard={number}/3") as (url, _):
            text = get(url, "/metrics")[1]
        assert re.search(r"^statemaint_exporter_queries(\{.*\})? 12\.0$", text, re.MULTILINE)
        shown.append({f"q{one}" for one in range(12) if series_of(text, f"q{one}")})
    assert all(shown)
    assert sorted(query for part in shown for query in part) == sorted(f"q{n}" for n in range(12))


def test_a_port_that_is_taken_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        found = failed("--queries", str(queries(tmp_path, 1)), "--host=127.0.0.1", "--port", port)
    assert f"127.0.0.1:{port}: " in found


def test_a_file_that_is_missing_is_one_line() -> None:
    assert "/nowhere.yaml" in failed("--queries", "/nowhere.yaml")


def test_a_spoiled_file_of_a_folder_is_a_mistake_and_the_others_are_served(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "queries"
    folder.mkdir()
    queries(tmp_path, 1).rename(folder / "one.yaml")
    (folder / "two.yaml").write_text("queries: [\n")
    with exporter(folder) as (url, _):
        text = get(url, "/metrics")[1]
    assert series_of(text, "q0")
    [problem] = re.findall("^statemaint_configuration_problem{.*", text, re.MULTILINE)
    assert f'file="{folder}/two.yaml",line="2"' in problem


def test_an_exporter_that_starts_with_an_empty_file_serves_the_last_good_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATEMAINT_STATE", str(tmp_path / "state"))
    file = queries(tmp_path, 1)
    with exporter(file):
        pass
    file.write_text("")
    with exporter(file) as (url, _):
        assert series_of(get(url, "/metrics")[1], "q0")


def test_half_a_certificate_is_one_line(tmp_path: Path) -> None:
    file = str(queries(tmp_path, 1))
    found = failed("--queries", file, "--key", file)
    assert "--certificate and --key require each other; use both or neither" in found


def failed(*arguments: str) -> str:
    """Runs the program, which must refuse; returns its only line."""
    command = [*EXPORTER, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    return line
