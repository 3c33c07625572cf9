"""The live soak: `python -m tests.soak --batches 300 --kills 30`.

Real queries at full speed, killed with -9 at random and started again, while maintenance runs in a
loop with the tightest policy that the query allows. What they put out must be what the same query
puts out undisturbed. `make soak` writes the counts to docs/safety.md.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Self

import click

from statemaint.errors import NotACheckpointError
from statemaint.maintain import maintain, verify
from statemaint.model.policy import Policy
from statemaint.storage import LocalStorage
from tests.soak.inputs import write_inputs
from tests.soak.query import BATCHES_TO_RETAIN
from tests.support.documents import rewrite

_ROOT = Path(__file__).parents[2]
_DOCUMENT = _ROOT / "docs" / "safety.md"
KINDS = ("aggregation", "outer-join", "aggregation-rocksdb", "outer-join-rocksdb-ids")
# A reader that listed before a snapshot appeared has this long to finish; here that takes
# milliseconds, on a machine that may be busy.
_GRACE = 10.0
POLICY = Policy(
    min_deltas_for_snapshot=1,
    min_batches_to_retain=BATCHES_TO_RETAIN,
    grace=_GRACE,
    orphan_age=120.0,
)
_POLL = 0.05
# A few more files than 300: now and then Spark takes two of them in one batch.
_FULL = (310, 30)
_LEAST = (300, 30)


@dataclass
class Maintenance:
    """Maintenance in a loop, in a thread of its own."""

    checkpoint: Path
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    _done: Event = field(default_factory=Event)

    def __enter__(self) -> Self:
        self._thread = Thread(target=self._loop)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _loop(self) -> None:
        while not self._done.wait(_POLL):
            try:
                self._once()
            except NotACheckpointError:
                continue  # the query has not begun yet
            except Exception as error:  # noqa: BLE001 -- it is the result
                self.findings.append(f"{type(error).__name__}: {error}")

    def _once(self) -> None:
        report = maintain(LocalStorage(self.checkpoint), POLICY)
        self.counts["runs"] += 1
        self.counts["snapshots"] += report.snapshots_written
        self.counts["deleted"] += report.files_deleted.total()
        self.findings += [str(one) for one in report.findings if one.damage]


@dataclass
class Query:
    """One query in a process of its own."""

    kind: str
    root: Path
    failures: list[str] = field(default_factory=list)

    @property
    def checkpoint(self) -> Path:
        """Returns its checkpoint."""
        return self.root / "checkpoint"

    @property
    def committed(self) -> int:
        """Returns the newest committed batch, -1 without one."""
        commits = self.checkpoint / "commits"
        names = [path.name for path in commits.glob("[0-9]*")] if commits.is_dir() else []
        return max(map(int, names), default=-1)

    def run(self, kill_at: int | None, delay: float) -> bool:
        """Runs it until its end, or to some time after a batch; tells whether it ended itself."""
        log = self.root / "log.txt"
        command = [sys.executable, "-m", "tests.soak.query", self.kind, str(self.root)]
        with log.open("w") as said:
            process = subprocess.Popen(
                command, cwd=_ROOT, stdout=said, stderr=said, start_new_session=True
            )
            killed = self._wait(process, kill_at, delay)
        if not killed and process.returncode:
            self.failures.append(log.read_text()[-3000:])
        return not killed and process.returncode == 0

    def _wait(self, process: "subprocess.Popen[bytes]", kill_at: int | None, delay: float) -> bool:
        while process.poll() is None:
            if kill_at is not None and self.committed >= kill_at:
                time.sleep(delay)
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return True
            time.sleep(_POLL)
        return False

    def output(self) -> list[str]:
        """Returns all rows that it has put out, sorted."""
        files = (self.root / "output").glob("*.json")
        return sorted(line for file in files for line in file.read_text().splitlines())


def soak(kind: str, place: Path, batches: int, kills: int, random: Random) -> dict[str, object]:
    """Runs a query twice, once disturbed, and returns what was counted and found."""
    quiet, disturbed = Query(kind, place / f"{kind}-quiet"), Query(kind, place / kind)
    for query in (quiet, disturbed):
        shutil.rmtree(query.root, ignore_errors=True)
        query.root.mkdir(parents=True)
    quiet.run(None, 0)
    times, ended = 0, False
    with Maintenance(disturbed.checkpoint) as maintenance:
        while not ended and len(disturbed.failures) < 3:
            left = times < kills
            # Never the last batches: after them the query ends by itself.
            goal = disturbed.committed + random.randint(1, 2 * batches // (kills + 1) - 1)
            ended = disturbed.run(min(goal, batches - 3) if left else None, random.random())
            times += left and not ended
            click.echo(f"{kind}: {times} kills, batch {disturbed.committed}, {maintenance.counts}")
    return {
        "query": kind,
        "batches": disturbed.committed + 1,
        "kills": times,
        "maintenance runs": maintenance.counts["runs"],
        "snapshots": maintenance.counts["snapshots"],
        "files deleted": maintenance.counts["deleted"],
        "failures": quiet.failures + disturbed.failures + maintenance.findings,
        "equal output": bool(quiet.output()) and quiet.output() == disturbed.output(),
        "healthy": verify(LocalStorage(disturbed.checkpoint), deep=True).healthy,
    }


@click.command()
@click.option("--batches", default=_FULL[0], show_default=True, help="Input files of each query.")
@click.option("--kills", default=_FULL[1], show_default=True, help="Kills of each query.")
@click.option("--seed", default=1, show_default=True, help="Of the moments at which it is killed.")
@click.option("--only", type=click.Choice(KINDS), help="Only this query.")
def main(batches: int, kills: int, seed: int, only: str | None) -> None:
    """Soaks every query; ends with 1 where anything failed or came out otherwise."""
    place = _ROOT / ".run" / "soak"
    write_inputs(place / "input", batches)
    found = [
        soak(kind, place, batches, kills, Random(f"{seed} {kind}"))  # noqa: S311
        for kind in KINDS
        if only in (None, kind)
    ]
    click.echo(json.dumps(found, indent=2))
    for one in found:
        (place / f"{one['query']}.json").write_text(json.dumps(one))
    _note(place)
    sys.exit(not all(map(_good, found)))


def _good(found: dict[str, object]) -> bool:
    return bool(found["equal output"] and found["healthy"] and not found["failures"])


def _note(place: Path) -> None:
    """Writes the newest run of each query to the document, once all were full and good."""
    files = [place / f"{kind}.json" for kind in KINDS]
    if not all(file.exists() for file in files):
        return
    found = [json.loads(file.read_text()) for file in files]
    full = all(one["batches"] >= _LEAST[0] and one["kills"] >= _LEAST[1] for one in found)
    if full and all(map(_good, found)):
        rewrite(_DOCUMENT, _markdown(found), by="make soak")


def _markdown(found: list[dict[str, object]]) -> str:
    columns = [name for name in found[0] if name != "failures"]
    rows = [[str(one[name]) for name in columns] for one in found]
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
