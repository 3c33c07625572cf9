"""The trial: `python -m tests.soak.trial --minutes 6 --kills 9 --trials 4`.

Where the soak has maintenance alone, here Spark's own is on as well: a RocksDB query with V1 ids,
whose executors upload and clean up every four seconds, is killed with -9 at random, while
`maintain` runs every 1.5 seconds with ages of seconds. That is far below what docs/safety.md asks
for, and meant to show what a store looks like when both interfere. Each table and zip that appears
or disappears is noted, and who deleted it: the ledger says what we did, Spark's log what it did.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from threading import Event as Flag
from threading import Thread
from typing import Any, Self

import click

from statemaint.audit import verify
from statemaint.errors import NotACheckpointError
from statemaint.listing import Entry
from statemaint.maintain import maintain
from statemaint.model.findings import FindingCode
from statemaint.model.policy import Policy
from statemaint.storage import LocalStorage
from tests.soak.evidence import deletions, expected, lacking, repairs
from tests.soak.inputs import write_inputs
from tests.soak.watch import Watcher, tables_of
from tests.support.paths import ROOT

_STATE = "spark.sql.streaming.stateStore"
_EVERY = 1.5
_INTERVAL = "4s"
_POLL = 0.1
_LEAST_LIFE = 3.0
_LONGEST = 10.0
_SWITCH = 0.0005  # the watcher strikes within a clean-up of some milliseconds
_EARLY = 0.2  # so many are killed while they start
_LOG_TAIL = 120
_TABLE = re.compile(r"SSTs/([0-9A-Za-z_-]+\.sst)")


@dataclass(frozen=True, slots=True)
class Setting:
    """What one trial draws: the query's own maintenance, and ours."""

    min_deltas: int
    retain: int
    cores: int
    policy: Policy

    def conf(self, interval: str) -> dict[str, str]:
        """Returns the query's settings."""
        return {
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.streaming.minBatchesToRetain": str(self.retain),
            f"{_STATE}.minDeltasForSnapshot": str(self.min_deltas),
            f"{_STATE}.maintenanceInterval": interval,
        }


def drawn(random: Random) -> Setting:
    retain = random.randint(5, 10)
    policy = Policy(
        min_deltas_for_snapshot=random.randint(1, 2),
        min_batches_to_retain=retain,
        grace=random.choice((1.0, 2.0)),
        orphan_age=random.choice((2.0, 3.0, 5.0)),
    )
    return Setting(random.choice((2, 3, 5, 10)), retain, random.randint(1, 2), policy)


@dataclass(frozen=True, slots=True)
class Span:
    """How long a trial lasts, and what is done to the query in it.

    Attributes:
        minutes: how long it lasts.
        kills: how often the query is killed, about.
        every: seconds between two of our runs.
        interval: `maintenanceInterval` of the query.
        python: the one that runs the query, and so has the Spark that is tried.
        how: `random` kills, or `strike`: when tables or zips begin to disappear, in the middle
            of an executor's clean-up; with `-alone` we only look.
    """

    minutes: float
    kills: int
    how: str = "random"
    python: str = sys.executable
    every: float = _EVERY
    interval: str = _INTERVAL


class Witness(LocalStorage):
    """A directory that remembers the last listings of the state, to be compared with the events."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.looks: list[dict[str, Any]] = []

    def list(self, prefix: str) -> Iterator[Entry]:
        """Yields every file below a directory, and remembers them."""
        started = time.time()
        found = [*super().list(prefix)]
        if prefix == "state":
            names = [one.path for one in found if one.path.endswith((".zip", ".sst"))]
            self.looks.append({"started": started, "ended": time.time(), "files": names})
        return iter(found)


@dataclass
class Maintenance:
    """Maintenance every 1.5 seconds, in a thread of its own, with a record of each run."""

    root: Path
    policy: Policy
    watcher: Watcher
    span: Span
    runs: list[dict[str, Any]] = field(default_factory=list)
    missing: list[dict[str, Any]] = field(default_factory=list)
    _done: Flag = field(default_factory=Flag)

    def __enter__(self) -> Self:
        self._thread = Thread(target=self._loop)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _loop(self) -> None:
        while not self._done.wait(self.span.every):
            storage, started = Witness(self.root / "checkpoint"), time.time()
            try:
                run = self._once(storage)
            except NotACheckpointError:
                continue  # the query has not begun yet
            except Exception as error:  # noqa: BLE001 -- it is the result
                run = {"outcome": "failed", "error": f"{type(error).__name__}: {error}"}
            self.runs.append({"time": started, "seconds": time.time() - started, **run})

    def _once(self, storage: Witness) -> dict[str, Any]:
        report = maintain(storage, self.policy, dry_run="alone" in self.span.how)
        findings = [
            {"code": one.code, "store": str(one.store), "path": one.path, "detail": one.detail}
            for one in report.findings
        ]
        if any(one.code is FindingCode.MISSING_SST for one in report.findings):
            self.missing.append(self._scene(storage, findings))
        return {
            "run": report.run,
            "outcome": [one.state.value for one in report.stores],
            "target": report.plan.target,
            "written": report.snapshots_written,
            "deleted": dict(report.files_deleted),
            "findings": findings,
        }

    def _scene(self, storage: Witness, findings: list[dict[str, Any]]) -> dict[str, Any]:
        """Returns all that is there to see at the moment of a missing table."""
        checkpoint = self.root / "checkpoint"
        wanted = {found for one in findings for found in _TABLE.findall(one["detail"])}
        return {
            "time": time.time(),
            "findings": findings,
            "looks": storage.looks,
            "state": _listing(checkpoint / "state"),
            "commits": sorted(one.name for one in (checkpoint / "commits").glob("[0-9]*")),
            "zips": {
                one.relative_to(checkpoint).as_posix(): _tables(one)
                for one in checkpoint.glob("state/*/*/*.zip")
            },
            "ledger": [*_ledger(checkpoint, wanted)],
            "events": [one.json() for name in wanted for one in self.watcher.history(name)],
            "log": _log_tail(self.root),
        }


def _listing(folder: Path) -> list[dict[str, Any]]:
    found = []
    for file in sorted(folder.rglob("*")):
        try:
            status = file.stat()
        except FileNotFoundError:
            continue
        if file.is_file():
            name = file.relative_to(folder).as_posix()
            found.append({"path": name, "size": status.st_size, "modified": status.st_mtime})
    return found


def _tables(file: Path) -> tuple[str, ...] | None:
    try:
        return tables_of(file.read_bytes())
    except FileNotFoundError:
        return None


def _ledger(checkpoint: Path, wanted: set[str]) -> Iterator[dict[str, Any]]:
    """Yields the ledger's lines that name any of some tables."""
    for file in checkpoint.glob("_statemaint/ledger/[0-9]*/**/*.jsonl"):
        for line in file.read_text().splitlines():
            if any(name in line for name in wanted):
                yield json.loads(line)


def _log_tail(root: Path) -> list[str]:
    logs = sorted(root.glob("spark-[0-9]*.log"))
    return logs[-1].read_text(errors="replace").splitlines()[-_LOG_TAIL:] if logs else []


@dataclass
class Query:
    """The query, in one process after another."""

    root: Path
    python: str
    strike: Watcher | None = None
    failures: list[str] = field(default_factory=list)
    lives: list[dict[str, float]] = field(default_factory=list)

    @property
    def committed(self) -> int:
        """Returns the newest committed batch, -1 without one."""
        names = [one.name for one in (self.root / "checkpoint" / "commits").glob("[0-9]*")]
        return max(map(int, names), default=-1)

    def live(self, until: float, random: Random, mean: float) -> None:
        """Runs it until a random moment, as a rule after it has committed something."""
        process, before, started = self._start(), self.committed, time.time()
        waits = random.random() > _EARLY
        while waits and self.committed == before:
            if process.poll() is not None or time.time() > until:
                break
            time.sleep(_POLL)
        ends = min(until, time.time() + random.uniform(_LEAST_LIFE, 2 * mean - _LEAST_LIFE))
        while time.time() < ends and process.poll() is None:
            time.sleep(_POLL)
        if process.poll() is not None:
            self.failures.append((self.root / "query.log").read_text()[-4000:])
        elif self.strike and ends < until:
            self.strike.omen = random.choice((".sst", ".zip"))
            self._strike(process, self.strike)
        else:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        found = {"started": started, "killed": time.time(), "from": before, "to": self.committed}
        self.lives.append(found)
        shutil.rmtree(self.root / "local", ignore_errors=True)

    def _strike(self, process: "subprocess.Popen[bytes]", watcher: Watcher) -> None:
        """Has it killed when it begins to delete, as it does every few seconds."""
        watcher.victim, last = process.pid, time.time() + _LONGEST
        while process.poll() is None:
            if time.time() > last:
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(_POLL)
        watcher.victim = None

    def finish(self) -> None:
        """Runs it to the end of its input, and has Spark show the state."""
        process = self._start("--finish")
        if process.wait():
            self.failures.append((self.root / "query.log").read_text()[-4000:])

    def _start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        command = [self.python, "-m", "tests.soak.trial_query", str(self.root), *arguments]
        with (self.root / "query.log").open("w") as said:
            return subprocess.Popen(
                command, cwd=ROOT, stdout=said, stderr=said, start_new_session=True
            )


def trial(root: Path, setting: Setting, span: Span, random: Random) -> dict[str, Any]:
    """Runs one trial, and returns its record."""
    minutes, kills = span.minutes, span.kills
    shutil.rmtree(root, ignore_errors=True)
    write_inputs(root / "input", int(minutes * 60 / 0.3))
    settings = {"conf": setting.conf(span.interval), "master": f"local[{setting.cores}]"}
    (root / "settings.json").write_text(json.dumps(settings))
    watcher = Watcher(root / "checkpoint")
    query = Query(root, span.python, watcher if "strike" in span.how else None)
    ends = time.time() + minutes * 60
    with watcher, Maintenance(root, setting.policy, watcher, span) as maintenance:
        while time.time() < ends - 1 and len(query.failures) < 3:
            # A start takes about ten seconds; what is left of the time the lives share.
            left = kills + 1 - len(query.lives)
            mean = (ends - time.time()) / left - 10 if left > 1 else minutes * 60
            query.live(ends, random, max(mean, _LEAST_LIFE))
    query.finish()
    checkpoint, shown = root / "checkpoint", root / "state.json"
    state = json.loads(shown.read_text()) if shown.exists() else []
    found = verify(LocalStorage(checkpoint), deep=True)
    deleted = [*deletions(root, watcher.events)]
    return {
        "settings": {**asdict(setting)},
        "lives": query.lives,
        "failures": query.failures,
        "equal state": bool(state) and state == expected(root / "input" / "left"),
        "healthy": found.healthy,
        "findings at the end": [str(one) for one in found.findings],
        "zips that lacked a table": [*lacking(watcher.events)],
        "deleted by": dict(Counter(one["by"] for one in deleted)),
        "repairs": [*repairs(root)],
        "runs": maintenance.runs,
        "missing": maintenance.missing,
        "deletions": deleted,
        "events": [one.json() for one in watcher.events],
    }


@click.command()
@click.option("--minutes", default=6.0, show_default=True, help="How long each trial lasts.")
@click.option("--kills", default=9, show_default=True, help="Kills of each trial, about.")
@click.option("--trials", default=4, show_default=True, help="How many, one after another.")
@click.option("--seed", default=1, show_default=True, help="Of the settings and the moments.")
@click.option(
    "--how",
    type=click.Choice(("random", "strike", "random-alone", "strike-alone")),
    default="random",
    show_default=True,
    help="When to kill; `alone`: look only, at what Spark does without us.",
)
@click.option("--every", default=_EVERY, show_default=True, help="Seconds between our runs.")
@click.option("--interval", default=_INTERVAL, show_default=True, help="Of Spark's maintenance.")
@click.option("--python", default=sys.executable, help="Whose Spark runs the query.")
@click.option("--keep", type=click.Path(path_type=Path), help="Where all files of a trial stay.")
def main(*, trials: int, seed: int, keep: Path | None, **span: Any) -> None:
    """Runs trials; ends with 1 where a query failed or its state came out otherwise."""
    sys.setswitchinterval(_SWITCH)
    place, good = (keep or ROOT / ".run" / "trial"), True
    for number in range(seed, seed + trials):
        random = Random(f"trial {number}")  # noqa: S311 -- the same at each run
        root = (place / f"{number:03d}").resolve()
        found = trial(root, drawn(random), Span(**span), random)
        (place / f"{number:03d}.json").write_text(json.dumps(found, default=str, indent=1))
        click.echo(_line(number, found))
        good = good and found["equal state"] and found["healthy"] and not found["failures"]
        if not keep:
            shutil.rmtree(root)
    sys.exit(not good)


def _line(number: int, found: dict[str, Any]) -> str:
    codes = Counter(str(one["code"]) for run in found["runs"] for one in run.get("findings", ()))
    failed = sum(run["outcome"] == "failed" for run in found["runs"])
    return (
        f"trial {number}: {len(found['lives'])} lives to batch {found['lives'][-1]['to']}, "
        f"{len(found['runs'])} runs ({failed} failed), {len(found['missing'])} with MISSING_SST, "
        f"{len(found['zips that lacked a table'])} zips lacked a table, "
        f"{dict(codes)}, deleted by {found['deleted by']}, {len(found['failures'])} failures, "
        f"{len(found['repairs'])} lines of repairs, equal state {found['equal state']}, "
        f"healthy {found['healthy']}"
    )


if __name__ == "__main__":
    main()
