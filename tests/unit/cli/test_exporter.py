"""The program `statemaint exporter`, scraped."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import pytest
import yaml

from statemaint.maintain.record import write_record
from statemaint.storage import LocalStorage
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
def exporter(file: Path) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    command = [*EXPORTER, "--queries", str(file), "--listen", "127.0.0.1:0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield json.loads(process.stdout.readline())["url"], process
        finally:
            process.kill()


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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--queries", "/nowhere.yaml"], "/nowhere.yaml"),
        (["--queries", "{file}", "--listen", "here"], "--listen 'here' is not an address; write"),
        (["--queries", "{file}", "--listen", "127.0.0.1:1"], "--listen 127.0.0.1:1: "),
        (["--queries", "{file}", "--key", "x"], "--certificate and --key go together; give both"),
        (["--queries", "{file}", "--every", "soon"], "soon"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    file = queries(tmp_path, 1)
    if said.endswith(": "):  # a port that is taken
        import socket  # noqa: PLC0415

        taken = socket.create_server(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        arguments = [*arguments[:-1], f"127.0.0.1:{port}"]
        said = f"--listen 127.0.0.1:{port}: "
    command = [*EXPORTER, *(one.replace("{file}", str(file)) for one in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if said.endswith(": "):
        taken.close()
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
