"""Savepoints of live queries: `python -m tests.soak.live_savepoints --savepoints 60 --every 10`.

Three queries run as fast as they can, with Spark's maintenance on and ours beside it, while
savepoints are made of them. The rows of each savepoint must be those that plain Python computes;
every tenth is started by Spark, and must put out what the original does. `make
test-savepoint-live` writes what it has seen to docs/safety.md.
"""

import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from threading import Event, Thread

import click

from statemaint.audit import verify
from statemaint.audit.digests import digest_stores
from statemaint.errors import Superseded
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.savepoint import savepoint
from statemaint.state import read_state
from statemaint.storage import LocalStorage
from tests.soak.live_query import KINDS, RESTARTED, RETAINED
from tests.soak.live_truth import State, Truth
from tests.soak.rewind import committed
from tests.support.documents import commit, of_commits, rewrite
from tests.support.paths import ROOT

_DOCUMENT = ROOT / "docs" / "safety.md"
_POLICY = Policy(
    min_deltas_for_snapshot=2, min_batches_to_retain=RETAINED, grace=2.0, orphan_age=20.0
)
_MAINTAINED_EVERY = 3.0
_TENTH = 10
_FULL = 60
_POLL = 0.1


@dataclass
class Live:
    """One query, what was done beside it, and what was wrong.

    Attributes:
        kind: the kind of its state.
        root: where its checkpoint and its output are.
        counts: what was done.
        wrong: what should not have been.
        kept: the batches of the savepoints that Spark will start, by name.
        paths: every file of the state that was seen.
        damage: what the last run has reported; while a clean-up deletes a zip after its tables, one
            run may see a table missing, and the next one does not.
        slowest: seconds of the slowest savepoint.
    """

    kind: str
    root: Path
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    kept: dict[str, int] = field(default_factory=dict)
    paths: set[str] = field(default_factory=set)
    damage: set[str] = field(default_factory=set)
    slowest: float = 0.0

    @property
    def storage(self) -> LocalStorage:
        return LocalStorage(self.root / "checkpoint")

    @property
    def newest(self) -> int:
        """Returns the newest committed batch; -1 without one."""
        return max(committed(self.root / "checkpoint"), default=-1)

    def maintain(self) -> None:
        if self.newest < 0:
            return
        self._look()
        try:
            report = maintain(self.storage, _POLICY)
        except Superseded:
            self.counts["superseded"] += 1
            return
        self.counts["runs"] += 1
        self.counts["snapshots"] += report.snapshots_written
        self.counts["deleted"] += report.files_deleted.total()
        damage = {str(one) for one in report.findings if one.damage}
        self.counts["transient findings"] += len(damage - self.damage)
        self.wrong += [f"two runs: {one}" for one in damage & self.damage]
        self.damage = damage

    def save(self, name: str, truth: Truth, *, keep: bool) -> None:
        """Makes a savepoint, and compares it with what is true."""
        self._look()
        dest = LocalStorage(self.root / "saved" / name / "checkpoint")
        begun = time.monotonic()
        report = savepoint(self.storage, dest)
        self.slowest = max(self.slowest, time.monotonic() - begun)
        batch = report.note.batch
        self.counts["savepoints"] += 1
        self.counts["started over"] += report.starts - 1
        if state_of(dest) != truth.state(batch):
            self.wrong.append(f"savepoint {name} of batch {batch}: other rows")
        version, digests = digest_stores(dest)
        found = {store.directory: state.digest for store, state in digests}
        noted = {one.directory: one.digest for one in report.note.stores}
        if (version, found) != (batch + 1, noted):
            self.wrong.append(f"savepoint {name} of batch {batch}: other digests")
        if keep:
            self.kept[name] = batch
        else:
            shutil.rmtree(self.root / "saved" / name)

    def cleaned_up(self) -> int:
        """Returns the number of files that Spark has deleted, of those that were ever seen."""
        there = {one.path for one in self.storage.list("state")}
        return len(self.paths - there) - self.counts["deleted"]

    def _look(self) -> None:
        self.paths |= {one.path for one in self.storage.list("state")}

    def check_end(self, truth: Truth) -> None:
        """Compares every batch of the original, and of what Spark has started, with the truth."""
        newest = self.newest
        self._check_output(self.root, range(newest + 1), truth)
        if state_of(self.storage) != truth.state(newest):
            self.wrong.append(f"the original after batch {newest}: other rows")
        if not verify(self.storage, deep=True).healthy:
            self.wrong.append("the original is damaged")
        for name, batch in self.kept.items():
            restarted = Live(self.kind, self.root / "saved" / name)
            self._check_output(restarted.root, range(batch + 1, batch + RESTARTED + 1), truth)
            if state_of(restarted.storage) != truth.state(restarted.newest):
                self.wrong.append(f"savepoint {name} after batch {restarted.newest}: other rows")

    def _check_output(self, root: Path, batches: range, truth: Truth) -> None:
        for batch in batches:
            found = json.loads((root / "output" / f"{batch}.json").read_text())
            if found != {"times": 1, "rows": truth.output(batch)}:
                self.wrong.append(f"{root}: other output of batch {batch}, or more than once")


def state_of(storage: LocalStorage) -> State:
    """Returns the newest state as the truth has it."""
    found = {}
    for row in read_state(storage):
        assert isinstance(row.value, dict)
        end = datetime.fromisoformat(row.key["window"]["end"])
        key = int(end.timestamp()), row.key["_groupingexpression"]
        found[key] = row.value["count"], row.value["sum"]
    return found


@contextmanager
def maintained(queries: list[Live]) -> Iterator[None]:
    """Maintains them every few seconds, from another thread."""
    done = Event()

    def loop() -> None:
        while not done.wait(_MAINTAINED_EVERY):
            for one in queries:
                try:
                    one.maintain()
                except Exception as error:  # noqa: BLE001 -- it is the result
                    one.wrong.append(f"maintain: {type(error).__name__}: {error}")

    thread = Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextmanager
def running(root: Path) -> Iterator[Callable[[], None]]:
    """Runs the queries; yields what raises an error once one of them has failed."""
    log = root / "log.txt"
    command = [sys.executable, "-m", "tests.soak.live_query", str(root)]
    with log.open("w") as said:
        process = subprocess.Popen(command, cwd=ROOT, stdout=said, stderr=said)

    def check() -> None:
        if process.poll() is not None:
            raise RuntimeError(f"the queries have ended: {log.read_text()[-3000:]}")

    try:
        yield check
    finally:
        (root / "stop").touch()
        if process.wait():
            raise RuntimeError(f"a query has failed: {log.read_text()[-3000:]}")


def live(root: Path, savepoints: int, every: float) -> list[dict[str, object]]:
    """Makes savepoints of live queries, and returns what was counted and wrong of each query."""
    shutil.rmtree(root, ignore_errors=True)
    code = commit()
    queries, truth = [Live(kind, root / kind) for kind in KINDS], Truth()
    root.mkdir(parents=True)
    with running(root) as check, maintained(queries):
        _reach(queries, dict.fromkeys(KINDS, 2 * RETAINED), check)
        started = time.monotonic()
        for number in range(savepoints):
            while time.monotonic() < started + number * every:
                time.sleep(_POLL)
            check()
            keep = number % _TENTH == 0 or number == savepoints - 1
            for one in queries:
                one.save(str(number), truth, keep=keep)
            click.echo(
                f"{number}: " + "; ".join(f"{one.newest} {dict(one.counts)}" for one in queries)
            )
        ends = {one.kind: max(one.kept.values()) + RESTARTED + 2 for one in queries}
        _reach(queries, ends, check)
    for one in queries:
        (one.root / "restart.json").write_text(json.dumps(one.kept))
    command = [sys.executable, "-m", "tests.soak.live_query", str(root), "--restart"]
    with (root / "restart.txt").open("w") as said:
        subprocess.run(command, cwd=ROOT, stdout=said, stderr=said, check=True)
    for one in queries:
        one.check_end(truth)
    return [_found(one, code) for one in queries]


def _reach(queries: list[Live], batches: dict[str, int], check: Callable[[], None]) -> None:
    while any(one.newest < batches[one.kind] for one in queries):
        check()
        time.sleep(_POLL)


def _found(query: Live, code: str) -> dict[str, object]:
    counts = query.counts
    return {
        "commit": code,
        "query": query.kind,
        "batches": query.newest + 1,
        "deleted by Spark": query.cleaned_up(),
        "our runs": counts["runs"],
        "snapshots": counts["snapshots"],
        "deleted": counts["deleted"],
        "transient findings": counts["transient findings"],
        "savepoints": counts["savepoints"],
        "started over": counts["started over"],
        "slowest, s": round(query.slowest, 1),
        "started by Spark": len(query.kept),
        "wrong": query.wrong,
    }


@click.command()
@click.option("--savepoints", default=_FULL, show_default=True, help="Of each query.")
@click.option("--every", default=10.0, show_default=True, help="Seconds from one to the next.")
def main(savepoints: int, every: float) -> None:
    """Makes savepoints of live queries; ends with 1 where anything failed or came out otherwise."""
    found = live(ROOT / ".run" / "live-savepoints", savepoints, every)
    click.echo(json.dumps(found, indent=2))
    good = not any(one["wrong"] for one in found)
    if good and savepoints >= _FULL:
        rewrite(_DOCUMENT, _markdown(found), by="make test-savepoint-live")
    sys.exit(not good)


def _markdown(found: list[dict[str, object]]) -> str:
    columns = [name for name in found[0] if name != "commit"]
    rows = [[str(one[name] or 0) for name in columns] for one in found]
    lines = [columns, ["---"] * len(columns), *rows]
    said = of_commits(str(one["commit"]) for one in found)
    return "\n".join([f"{said}.", "", *(f"| {' | '.join(line)} |" for line in lines)])


if __name__ == "__main__":
    main()
