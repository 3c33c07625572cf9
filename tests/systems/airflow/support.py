"""What the tests of Airflow share: tiny checkpoints on disk, and a place that takes pushes."""

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil

from statemaint.storage import LocalStorage
from tests.support.checkpoints import write_checkpoint
from tests.support.paths import ROOT

DAGS = ROOT / "dags"
PLUGINS = ROOT / "plugins"

# Of every Airflow here: it looks for work twice a second rather than ten times, and for changes of
# its DAG files once a minute; and a Java that a task starts is made for a short life.
THRIFTY = {
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "60",
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "60",
    "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}

# What every checkpoint here is: batches 16 to 24 are still in the commit log.
TARGET = 25
FLOOR = 17


def neglected(folder: Path, *, partitions: int = 4, last: int = TARGET) -> Path:
    """Makes a checkpoint with deltas from 1 on in each partition, and no snapshot."""
    folder.mkdir(parents=True)
    batches = range(last - (TARGET - FLOOR + 1), last)
    write_checkpoint(LocalStorage(folder), last=last, batches=batches, partitions=partitions)
    return folder


def damaged(folder: Path, *, partition: int = 2, partitions: int = 4) -> Path:
    """Makes a neglected checkpoint in which one partition lacks a delta."""
    neglected(folder, partitions=partitions)
    (folder / f"state/0/{partition}/7.delta").unlink()
    return folder


def uncommitted(folder: Path) -> Path:
    """Makes a checkpoint whose first batch has begun but is not committed."""
    neglected(folder)
    for commit in (folder / "commits").iterdir():
        commit.unlink()
    return folder


def unreadable(folder: Path) -> Path:
    """Makes a checkpoint with a commit that was cut off."""
    neglected(folder)
    (folder / "commits/24").write_text("v1\n{", encoding="utf-8")
    return folder


def obstacle(checkpoint: Path) -> Path:
    """Returns a file in the place of one partition's ledger: until it goes, its storage fails."""
    return checkpoint / "_statemaint/ledger/0/1"


def snapshots(folder: Path) -> dict[int, list[int]]:
    """Returns the versions of the snapshots of each partition."""
    found: dict[int, list[int]] = {}
    for file in (folder / "state/0").glob("*/*.snapshot"):
        found.setdefault(int(file.parent.name), []).append(int(file.stem))
    return {partition: sorted(versions) for partition, versions in sorted(found.items())}


def tree_hash(folder: Path, *, without: str = "") -> str:
    """Returns a digest of every path, content and time below a folder, but for one folder in it."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if without in path.relative_to(folder).parts:
            continue
        status = path.lstat()
        digest.update(f"{path.relative_to(folder)} {status.st_size} {status.st_mtime_ns}".encode())
        digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()


def kill_process_of(task: str) -> None:
    """Kills the process of a running task; it, and the one that watches it, have its id as name."""
    named = [one for one in psutil.process_iter(["cmdline"]) if task in str(one.info["cmdline"])]
    max(named, key=lambda one: one.create_time()).kill()


@dataclass(slots=True)
class Takings:
    """An address that takes pushes as a Pushgateway does, and the bodies it took by group."""

    url: str
    groups: dict[str, str] = field(default_factory=dict)

    def query(self, query: str) -> str:
        """Returns what was pushed of a query as a whole."""
        return self.groups.get(f"/metrics/job/statemaint/query/{query}", "")

    def partitions(self, query: str, metric: str) -> dict[str, str]:
        """Returns what was pushed of each partition of a query with one operator, by partition."""
        body = self.groups.get(f"/metrics/job/statemaint/query/{query}/detail/partition", "")
        line = re.compile(rf'statemaint_{metric}{{.*partition="(\d+)".*}} (.*)')
        matches = filter(None, map(line.match, body.splitlines()))
        return {found[1]: found[2] for found in matches}


@contextmanager
def takings() -> Iterator[Takings]:
    """Takes pushes for the length of a `with` block."""
    groups: dict[str, str] = {}
    # A class for each: an Airflow that all tests share pushes while others come and go.
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Taker", (_Taker,), {"taken": groups}))
    taken = Takings(f"http://127.0.0.1:{server.server_port}", groups)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield taken
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Taker(BaseHTTPRequestHandler):
    taken: dict[str, str]

    def do_POST(self) -> None:
        self._take(self.taken.get(self.path, ""))

    def do_PUT(self) -> None:
        self._take("")

    def do_GET(self) -> None:
        """Lists no groups, so that none is removed."""
        self._answer(b'{"data": []}')

    def _take(self, before: str) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.taken[self.path] = before + body
        self._answer(b"")

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""
