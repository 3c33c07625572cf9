"""A storage at its worst, with a trash: whatever it refuses, the undo of every run brings all back.

The storage refuses requests, loses their answers, and copies without deleting. Maintenance, repairs
and rollbacks with their undos go on as they can. A schedule ends with the undo of every run, newest
first or in any other order; what an undo leaves in the trash for a true reason is offered again
after the others. The judge is what the query has written: each file of its log, byte for byte.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from statemaint.errors import StorageError
from statemaint.model.policy import Policy
from tests.certify.files import spot
from tests.certify.judge import Loss
from tests.certify.maintainer import ON
from tests.certify.stage import Stage
from tests.certify.world import Doer, File, Judge

_CHANGES = ("write", "append", "delete", "move")
_RATES = (0.01, 0.03, 0.1)
_KEPT = 1e6
_LEASE = 61.0
_TRASH = "_statemaint/trash/"


@dataclass(slots=True)
class Flaky:
    """A storage that fails now and then: what a request asked for is not done, or is.

    Attributes:
        random: decides.
        rate: how often it fails.
        tally: counts its faults.
    """

    random: Random
    rate: float
    tally: Counter[str]

    def refuse(self, verb: str, path: str) -> None:
        """Refuses a request that changes something, or the second half of a move."""
        self._fail("refused", verb, path)

    def lose(self, verb: str, path: str) -> None:
        """Loses the answer to a request that has changed something."""
        self._fail("lost", verb, path)

    def _fail(self, how: str, verb: str, path: str) -> None:
        if verb in _CHANGES and self.random.random() < self.rate:
            self.tally[f"{how}: {verb}"] += 1
            raise StorageError(path, "503: Slow Down")


@dataclass(slots=True)
class Kept:
    """The log of the query as it was written, beside the judge that it passes each change on to.

    Attributes:
        judge: the judge of every schedule.
        files: each change of the log, by its path.
    """

    judge: Judge
    stage: Stage
    files: dict[str, bytes] = field(default_factory=dict)

    def look(self, before: Mapping[str, File | None], doer: Doer | None) -> None:
        """Notes what the query writes, and has every change judged."""
        if doer is None:
            self.note(before)
        self.judge.look(before, doer)

    def note(self, paths: Mapping[str, object]) -> None:
        """Notes the files of the log among some paths."""
        for path in paths:
            one, file = spot(path), self.stage.world.files.get(path)
            if one and one.kind == "delta" and not one.trashed and file:
                self.files[path] = file.content

    def check(self) -> None:
        """Makes sure that each file of the log is in its place.

        Raises:
            Loss: when one is not.
        """
        there = self.stage.world.files
        for path, content in self.files.items():
            if path not in there or there[path].content != content:
                where = [one for one in self.stage.world.index.under(_TRASH) if one.endswith(path)]
                raise Loss(
                    f"S17: every run is undone, and {path} is "
                    f"{'another file' if path in there else 'missing'}; in the trash: {where}"
                )


def play(stage: Stage, random: Random, usual: Policy) -> None:
    """Plays one schedule, with a query that has just begun.

    Raises:
        Loss: when a file of the log has not come back in the end, and as in every schedule.
    """
    world = stage.world
    assert world.judge
    kept = Kept(world.judge, stage)
    kept.note(dict.fromkeys(world.files))
    world.judge = kept
    policy = usual.override(trash_for=_KEPT, grace=0.0, orphan_age=0.0)
    world.flaky = Flaky(random, random.choice(_RATES), stage.tally)
    stage.tally["schedules on a failing storage"] += 1
    for _ in range(random.randint(3, 9)):
        stage.batch(random.choice((0, 1, 1, 2, 4)))
        stage.wait(_LEASE)
        _work(stage, random, policy)
    kinds = ("newest first", "oldest first", "any order")
    order = random.choice(kinds)
    stage.step(f"every run is undone, {order}")
    stage.tally[f"undone: {order}"] += 1
    for _ in range(random.randrange(3)):
        _undo_all(stage, random, order)
    world.flaky = None
    while (left := len(world.index.under(_TRASH))) and _undo_all(stage, random, order) < left:
        continue
    kept.check()


def _work(stage: Stage, random: Random, policy: Policy) -> None:
    kind = random.random()
    if kind < 0.7:
        stage.maintain(policy.override(max_deletes_per_run=random.choice((3, 1000, 1000))), ON)
    elif kind < 0.8:
        stage.repair(ON)
    elif kind < 0.9:
        _go_back_and_forth(stage, random)
    else:
        _undo(stage, random.choice([*_runs(stage), ""]))


def _go_back_and_forth(stage: Stage, random: Random) -> None:
    """A rollback, perhaps repeated, that is undone before the query continues."""
    before = _runs(stage)
    back = random.randrange(3)
    for _ in range(random.randint(1, 2)):
        stage.rollback(back, ON)
        stage.wait(_LEASE)
    stage.query.held = True
    flaky, looks = stage.world.flaky, random.choice((4, 1, 2))  # so often it may still fail
    while new := [run for run in _runs(stage) if run not in before]:
        _undo(stage, new[-1])
        looks -= 1
        if looks == 0:
            stage.world.flaky = None
        if looks < -8:
            raise Loss(f"S17: the rollback {new[-1]} is not undone, and nothing has happened since")
    stage.world.flaky = flaky
    stage.hold()


def _runs(stage: Stage) -> list[str]:
    """Returns the runs with files in the trash, the oldest first."""
    since: dict[str, float] = {}
    for path in stage.world.index.under(_TRASH):
        run, time = path.split("/")[2], stage.world.files[path].modified
        if "/manifest/" in path:
            since[run] = min(time, since.get(run, time))
    return sorted(since, key=lambda run: (since[run], run))


def _undo_all(stage: Stage, random: Random, order: str) -> int:
    """Undoes every run once, and returns how many files are left in the trash."""
    runs = _runs(stage)
    if order == "newest first":
        runs.reverse()
    elif order == "any order":
        random.shuffle(runs)
    for run in runs:
        _undo(stage, run)
    return len(stage.world.index.under(_TRASH))


def _undo(stage: Stage, run: str) -> None:
    trashed = sorted({path.split("/")[2] for path in stage.world.index.under(_TRASH)})
    if run in trashed:
        stage.wait(_LEASE)
        stage.undo(trashed.index(run), ON)
