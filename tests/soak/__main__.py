"""The live soak: `python -m tests.soak --batches 340 --kills 30 --rewinds 12`.

Real queries at full speed, killed with -9 at random and started again, while maintenance runs in a
loop with the tightest policy that the query allows. Some are rewound before they are started: their
newest batches go out of the logs, and run again on the same input. And some of what maintenance and
repairs have moved to the trash is brought back at random. What the queries put out must be what the
same query puts out undisturbed. `make soak` writes the counts to docs/safety.md.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from threading import Event, Lock, Thread
from typing import Self

import click

from statemaint.audit import verify
from statemaint.errors import ConfigError, NotACheckpointError
from statemaint.maintain import list_runs, maintain, undo
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.policy import Policy
from statemaint.recover import repair
from statemaint.storage import LocalStorage
from tests.soak import rewind
from tests.soak.inputs import write_inputs
from tests.soak.query import BATCHES_TO_RETAIN
from tests.support.documents import commit, of_commits, rewrite
from tests.support.paths import ROOT

_DOCUMENT = ROOT / "docs" / "safety.md"
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
# What is in the trash of half of the runs, and for how long; what a repair moved stays.
_TRASH, _MONTH = 30.0, 30 * 86_400.0
_UNDOS = 1 / 40
# So many of the rewinds give other batches than before, where a snapshot that stays is wrong.
_OTHERWISE = 0.7


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything a query has to go through.

    Attributes:
        batches: files of input; fewer batches where a source gives several of them in one.
        kills: how often it is killed.
        rewinds: after how many of the kills batches are taken back, at most.
    """

    batches: int
    kills: int
    rewinds: int


_FULL, _LEAST = Size(340, 30, 12), Size(300, 30, 10)


@dataclass
class Maintenance:
    """Maintenance in a loop, in a thread of its own, some of it undone.

    Attributes:
        checkpoint: of the query.
        random: decides what goes to the trash and what is undone.
        counts: what was done.
        findings: what should not be.
        repairs: those that will be undone, each with the batch that the query has to pass first.
        above: the newest version that has ever been of a batch that was taken back.
    """

    checkpoint: Path
    random: Random
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    repairs: dict[str, int] = field(default_factory=dict)
    above: int = 0
    _done: Event = field(default_factory=Event)
    _working: Lock = field(default_factory=Lock)

    def __enter__(self) -> Self:
        self._thread = Thread(target=self._loop)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stops maintenance meanwhile: a run that began before a rewind knows nothing of it."""
        with self._working:
            yield

    def repair(self, newest: int, before: int) -> None:
        """Moves away what lies above the logs of a query that was rewound, to be undone soon.

        Args:
            newest: the batch after which the query goes on.
            before: the one that it had come to.
        """
        if run := repair(LocalStorage(self.checkpoint), trash_for=_MONTH).run:
            self.repairs[run] = self.random.randrange(newest, before)
            self.counts["repairs"] += 1

    def _loop(self) -> None:
        while not self._done.wait(_POLL):
            try:
                with self._working:
                    self._once()
            except NotACheckpointError:
                continue  # the query has not begun yet
            except Exception as error:  # noqa: BLE001 -- it is the result
                self.findings.append(f"{type(error).__name__}: {error}")

    def _once(self) -> None:
        storage = LocalStorage(self.checkpoint)
        policy = replace(POLICY, trash_for=self.random.choice((0.0, _TRASH)))
        report = maintain(storage, policy)
        self.counts["runs"] += 1
        self.counts["snapshots"] += report.snapshots_written
        self.counts["deleted"] += report.files_deleted.total()
        self.findings += [str(one) for one in report.findings if one.damage and self._wrong(one)]
        for run in list(self._to_undo(storage)):
            self._undo(storage, run)

    def _to_undo(self, storage: LocalStorage) -> Iterator[str]:
        """Yields repairs whose batch the query has passed, and other runs at random."""
        newest = max(rewind.committed(self.checkpoint), default=-1)
        yield from (run for run, batch in self.repairs.items() if newest > batch)
        runs = [one.run for one in list_runs(storage) if one.in_trash]
        others = [run for run in runs if run not in self.repairs]
        if others and self.random.random() < _UNDOS:
            yield self.random.choice(others)

    def _wrong(self, finding: Finding) -> bool:
        """Returns whether a finding is more than what a rewind leaves behind for a while."""
        above = finding.code is FindingCode.SNAPSHOT_ABOVE_TARGET
        return not above or (finding.version or 0) > self.above

    def _undo(self, storage: LocalStorage, run: str) -> None:
        self.repairs.pop(run, None)
        try:
            undo(storage, run)
            self.counts["undos"] += 1
        except ConfigError:
            self.counts["undos refused"] += 1


@dataclass
class Query:
    """One query in a process of its own."""

    kind: str
    root: Path
    failures: list[str] = field(default_factory=list)

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def committed(self) -> int:
        """Returns the newest committed batch, -1 without one."""
        return max(rewind.committed(self.checkpoint), default=-1)

    def run(self, kill_at: int | None, delay: float) -> bool:
        """Runs it until its end, or to some time after a batch; returns whether it ended itself."""
        log = self.root / "log.txt"
        command = [sys.executable, "-m", "tests.soak.query", self.kind, str(self.root)]
        with log.open("w") as said:
            process = subprocess.Popen(
                command, cwd=ROOT, stdout=said, stderr=said, start_new_session=True
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
        files = (self.root / "output").glob("*.json")
        return sorted(line for file in files for line in file.read_text().splitlines())


@dataclass
class Disturbance:
    """What is done to a query while it runs and between its runs.

    Attributes:
        query: which.
        maintenance: of its checkpoint.
        size: how much there is to be done.
        random: decides when.
        kills: done so far.
        rewinds: done so far.
        merged: batches that there will be less, because a source gave several in one.
    """

    query: Query
    maintenance: Maintenance
    size: Size
    random: Random
    kills: int = 0
    rewinds: int = 0
    merged: int = 0

    def run(self) -> None:
        """Runs the query to its end, or until it has failed three times."""
        ended = False
        while not ended and len(self.query.failures) < 3:
            left = self.size.kills - self.kills
            ended = self.query.run(self._goal() if left else None, self.random.random())
            self.kills += bool(left) and not ended
            wanted = self.size.rewinds - self.rewinds
            if left and not ended and self._near(10) and self.random.random() * left < wanted:
                self._rewind()
            click.echo(
                f"{self.query.kind}: {self.kills} kills, {self.rewinds} rewinds, "
                f"batch {self.query.committed}, {dict(self.maintenance.counts)}"
            )

    def _goal(self) -> int:
        most = 2 * self.size.batches // (self.size.kills + 1) - 1
        goal = self.query.committed + self.random.randint(1, most)
        # Never the last batches: after them the query ends by itself.
        return min(goal, self.query.committed + self._near(3))

    def _near(self, margin: int) -> int:
        """Returns how many batches are left until so many before the end, 0 or more."""
        return max(0, self.size.batches - self.merged - margin - self.query.committed)

    def _rewind(self) -> None:
        """Takes batches back; at least two stay, or Spark does not restart.

        Where they come again as they were the old snapshots are right, and the query may go on at
        once. Where they do not, those above the log have to go first, as the runbook says; it goes
        as far back as it can then, so that there are some.
        """
        batches = rewind.committed(self.query.checkpoint)
        if len(batches) < 3:
            return
        otherwise = self.random.random() < _OTHERWISE
        newest = batches[1] if otherwise else self.random.choice(batches[1:-1])
        with self.maintenance.stopped():
            rewind.take_back(self.query.root, newest, keep_sources=otherwise)
            # A batch that was not committed yet may have left its version as well.
            self.maintenance.above = max(self.maintenance.above, batches[-1] + 2)
            if otherwise:
                self.maintenance.repair(newest, batches[-1])
        self.rewinds += 1
        self.merged += (batches[-1] - newest + 1) * otherwise


def soak(kind: str, place: Path, size: Size, seed: int) -> dict[str, object]:
    """Runs a query twice, once disturbed, and returns what was counted and found."""
    quiet, disturbed = Query(kind, place / f"{kind}-quiet"), Query(kind, place / kind)
    for query in (quiet, disturbed):
        shutil.rmtree(query.root, ignore_errors=True)
        query.root.mkdir(parents=True)
    quiet.run(None, 0)
    random, other = (Random(f"{seed} {kind}{what}") for what in ("", " undone"))  # noqa: S311
    with Maintenance(disturbed.checkpoint, other) as maintenance:
        disturbance = Disturbance(disturbed, maintenance, size, random)
        disturbance.run()
    counts = maintenance.counts
    return {
        "commit": commit(),
        "query": kind,
        "batches": disturbed.committed + 1,
        "kills": disturbance.kills,
        "rewinds": disturbance.rewinds,
        "maintenance runs": counts["runs"],
        "snapshots": counts["snapshots"],
        "files deleted": counts["deleted"],
        "repairs": counts["repairs"],
        "undos": counts["undos"],
        "undos refused": counts["undos refused"],
        "failures": quiet.failures + disturbed.failures + maintenance.findings,
        "equal output": bool(quiet.output()) and quiet.output() == disturbed.output(),
        "healthy": verify(LocalStorage(disturbed.checkpoint), deep=True).healthy,
    }


@click.command()
@click.option("--batches", default=_FULL.batches, show_default=True, help="Files of each query.")
@click.option("--kills", default=_FULL.kills, show_default=True, help="Kills of each query.")
@click.option(
    "--rewinds", default=_FULL.rewinds, show_default=True, help="Rewinds after so many kills."
)
@click.option("--seed", default=1, show_default=True, help="Of what is done to them when.")
@click.option("--only", type=click.Choice(KINDS), help="Only this query.")
def main(batches: int, kills: int, rewinds: int, seed: int, only: str | None) -> None:
    """Soaks every query; ends with 1 where anything failed or came out otherwise."""
    place = ROOT / ".run" / "soak"
    write_inputs(place / "input", batches)
    size = Size(batches, kills, rewinds)
    found = [soak(kind, place, size, seed) for kind in KINDS if only in (None, kind)]
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
    if all(_full(one) and _good(one) for one in found):
        rewrite(_DOCUMENT, _markdown(found), by="make soak")


def _full(found: dict[str, int]) -> bool:
    least = {"batches": _LEAST.batches, "kills": _LEAST.kills, "rewinds": _LEAST.rewinds}
    return all(found.get(name, 0) >= number for name, number in least.items())


def _markdown(found: list[dict[str, object]]) -> str:
    columns = [name for name in found[0] if name not in ("failures", "commit")]
    rows = [[str(one[name]) for name in columns] for one in found]
    lines = [columns, ["---"] * len(columns), *rows]
    said = of_commits(str(one["commit"]) for one in found)
    return "\n".join([f"{said}.", "", *(f"| {' | '.join(line)} |" for line in lines)])


if __name__ == "__main__":
    main()
