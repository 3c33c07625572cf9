"""What Spark's driver publishes of a fleet, and removes."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from statemaint.queries.reading import read_queries
from statemaint.spark.fleet import fleet_of
from statemaint.spark.reporting import reporting
from tests.support.serving import served


@contextmanager
def pushgateway(groups: dict[str, dict[str, str]]) -> Iterator[str]:
    """The address of a Pushgateway that keeps no series, only the labels of its groups."""

    class Groups(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            listed = [{"labels": labels} for labels in groups.values()]
            self.answer(json.dumps({"data": listed}).encode())

        def do_PUT(self) -> None:
            _, _, *pairs = self.path.split("/")
            groups[self.path] = dict(zip(pairs[::2], pairs[1::2], strict=True))
            self.rfile.read(int(self.headers["Content-Length"]))
            self.answer()

        def do_DELETE(self) -> None:
            groups.pop(self.path, None)
            self.answer()

        def answer(self, body: bytes = b"") -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

    with served(Groups) as url:
        yield url


def run(file: Path, *entries: str, of: str = "", **settings: object) -> None:
    """Reports on the queries of a file with some entries, or on one of them."""
    head = "".join(f"{name}: {value}\n" for name, value in settings.items())
    queries = "".join(f"  {entry}\n" for entry in entries)
    file.write_text(f"{head}queries:\n{queries}")
    reading = read_queries(file)
    fleet = [target for target in fleet_of(reading) if of in ("", target.query)]
    with reporting(reading, fleet, "maintain") as ended:
        ended([])


A, B, MISTAKE = "a: {checkpoint: /c/a}", "b: {checkpoint: /c/b}", "a: {chkpoint: /c/a}"


@pytest.fixture(autouse=True)
def _origin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATEMAINT_ORIGIN", "here")


def test_a_run_removes_the_groups_of_queries_that_are_no_longer_in_the_file(tmp_path: Path) -> None:
    group = "/metrics/job/statemaint/origin/here/query/{}/task/maintain-0"
    groups = dict[str, dict[str, str]]()
    with pushgateway(groups) as address:
        run(tmp_path / "queries.yaml", A, B, pushgateway=address)
        assert {*groups} == {group.format("a"), group.format("b")}
        run(tmp_path / "queries.yaml", B, pushgateway=address)
        assert {*groups} == {group.format("b")}


def test_a_run_removes_the_files_of_queries_that_are_no_longer_in_the_file(tmp_path: Path) -> None:
    file, folder = tmp_path / "queries.yaml", tmp_path / "metrics"
    run(file, A, B, textfile=folder)
    run(file, MISTAKE, B, textfile=folder)  # after which a query may only seem to be removed
    assert len([*folder.iterdir()]) == 2
    run(file, B, textfile=folder)
    assert [path.name for path in folder.iterdir()] == ["statemaint_b@maintain-0@here.prom"]


def test_a_run_without_the_first_query_leaves_the_removal_to_that_one(tmp_path: Path) -> None:
    file, folder = tmp_path / "queries.yaml", tmp_path / "metrics"
    run(file, A, B, "c: {checkpoint: /c/c}", textfile=folder)
    run(file, A, B, textfile=folder, of="b")
    assert len([*folder.iterdir()]) == 3


def test_a_pushgateway_that_is_away_fails_no_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(tmp_path / "queries.yaml", A, pushgateway="http://127.0.0.1:1")
    assert "metrics of missing queries are not removed" in caplog.text
