"""What the tests of Airflow share: tiny checkpoints on disk, and a place that takes pushes."""

import hashlib
import re
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.utils import floatToGoString

from statemaint.airflow.settings import Options, QuerySettings
from statemaint.airflow.tasks import maintain_bundle
from statemaint.maintain.bundles import Bundle
from statemaint.report.task import BundleReport
from statemaint.storage import LocalStorage
from tests.support.checkpoints import write_checkpoint
from tests.support.paths import ROOT
from tests.systems.prometheus.support import part
from tools.demo.prometheus import pushgateway

DAGS = ROOT / "dags"
PLUGINS = ROOT / "plugins"

# Of every Airflow here: it looks for work twice a second rather than ten times, and for changes of
# its DAG files every 40 s. A busy machine may fail to parse a file, or to write the result, in
# time: Airflow deactivates a file's DAGs once they are older than its last parse by the threshold,
# so one failure must fit in. A Java that a task starts is made for a short life.
THRIFTY = {
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "40",
    "AIRFLOW__DAG_PROCESSOR__STALE_DAG_THRESHOLD": "70",
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


def work_on(
    where: QuerySettings,
    bundle: Bundle,
    options: Options = Options(),  # noqa: B008 -- frozen
    *,
    run: str = "r",
    handover: str | None = None,
) -> BundleReport:
    """Does the work of the task `maintain`."""
    order = options.order(where, [bundle], run=run, handover=handover)
    return maintain_bundle(where, order, bundle)


def damaged(folder: Path, *, partition: int = 2, partitions: int = 4) -> Path:
    """Makes a neglected checkpoint in which one partition lacks a delta."""
    neglected(folder, partitions=partitions)
    (folder / f"state/0/{partition}/7.delta").unlink()
    return folder


def uncommitted(folder: Path) -> Path:
    """Makes a checkpoint whose first batch has begun but is not committed."""
    neglected(folder)
    first, *later = (folder / "offsets").iterdir()
    first.rename(first.with_name("0"))
    for entry in (*later, *(folder / "commits").iterdir()):
        entry.unlink()
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
    """A real Pushgateway, and what it has taken of us; still readable after it has ended."""

    url: str
    ended: dict[str, str] | None = None

    @property
    def groups(self) -> dict[str, str]:
        """The series of each group by its path, in the text format, without shared labels."""
        if self.ended is not None:
            return self.ended
        groups = defaultdict[str, list[str]](list)
        for sample in self._samples():
            labels = dict(sample.labels)
            if labels.pop("job", None) == "statemaint" and not sample.name.startswith("push_"):
                del labels["instance"]  # which the Pushgateway adds
                shared = {name: labels.pop(name, None) for name in _SHARED}
                apart = {name: labels.pop(name, None) for name in ("detail", "task")}
                grouped = {**shared, **apart, "query": labels["query"]}
                path = "".join(f"/{key}/{grouped[key]}" for key in _GROUPED if grouped[key])
                groups[_PATH + path].append(_line(sample.name, labels, sample.value))
        return {path: "\n".join(lines) for path, lines in groups.items()}

    def _samples(self) -> list[Any]:
        with urllib.request.urlopen(f"{self.url}/metrics") as answer:  # noqa: S310 -- our own
            text = answer.read().decode()
        return [one for family in text_string_to_metric_families(text) for one in family.samples]

    def clear(self) -> None:
        """Deletes all groups."""
        for path in self.groups:
            request = urllib.request.Request(self.url + path, method="DELETE")  # noqa: S310
            with urllib.request.urlopen(request):  # noqa: S310 -- our own
                pass

    def query(self, query: str) -> str:
        """Returns what was pushed of a query as a whole."""
        return self._of(f"/query/{query}")

    def partitions(self, query: str, metric: str) -> dict[str, str]:
        """Returns what was pushed of each partition of a query with one operator, by partition."""
        body = self._of(f"/query/{query}/detail/partition")
        line = re.compile(rf'statemaint_{metric}{{.*partition="(\d+)".*}} (.*)')
        matches = filter(None, map(line.match, body.splitlines()))
        return {found[1]: found[2] for found in matches}

    def tasks(self, query: str) -> dict[str, dict[str, Any]]:
        """Returns what each task of a query has pushed, its state, and when it has pushed."""
        found = defaultdict[str, dict[str, Any]](dict)
        for sample in self._samples():
            labels = sample.labels
            if labels.get("query") == query and "task" in labels:
                name = sample.name.removeprefix("statemaint_task_")
                found[labels["task"]][name] = labels.get("state", sample.value)
        return dict(found)

    def _of(self, end: str) -> str:
        return next((text for path, text in self.groups.items() if path.endswith(end)), "")


_PATH = "/metrics/job/statemaint"
_SHARED = ("origin", "namespace", "owner", "storage")
_GROUPED = ("origin", "query", "detail", "task")


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    named = ",".join(f'{label}="{labels[label]}"' for label in sorted(labels))
    return f"{name}{{{named}}} {floatToGoString(value)}"  # type: ignore[no-untyped-call]


@contextmanager
def takings() -> Iterator[Takings]:
    """Takes pushes for the length of a `with` block."""
    part("prometheus-pushgateway")
    with TemporaryDirectory() as folder, pushgateway(Path(folder)) as server:
        taken = Takings(server.url)
        yield taken
        taken.ended = taken.groups
