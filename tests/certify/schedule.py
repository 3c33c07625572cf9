"""Schedules from seeds: the same seed is the same schedule, step by step."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from types import MappingProxyType
from typing import Any

from statemaint.model.policy import Policy
from statemaint.plan import Request
from tests.certify.judge import Loss
from tests.certify.maintainer import ON, Halt, Stop
from tests.certify.query import Habits
from tests.certify.stage import Setting, Stage

_NONE: Mapping[str, Any] = MappingProxyType({})
_STORES = (
    ("state/0/0",),
    ("state/0/0",),
    ("state/0/0", "state/0/1"),
    ("state/0/0/left-keys", "state/0/0/right-keys"),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one schedule ended; `loss` is `None` when nothing was found."""

    seed: int
    tally: Counter[str]
    loss: str | None = None


def setting(random: Random) -> Setting:
    """Returns what one schedule is about."""
    habits = Habits(
        stores=random.choice(_STORES),
        min_deltas=random.randint(1, 4),
        retain=random.randint(1, 4),
        in_executor=random.random() < 0.4,
        side_files=random.random() < 0.3,
        checksums=random.random() < 0.2,
    )
    return Setting(habits, local=random.random() < 0.7, two=random.random() < 0.5)


def policy(random: Random) -> Policy:
    """Returns one of the policies that the certificate covers."""
    return Policy(
        min_deltas_for_snapshot=random.randint(1, 4),
        min_batches_to_retain=random.randint(1, 4),
        grace=random.choice((0.0, 0.0, 30.0, 100.0)),
        orphan_age=random.choice((0.0, 60.0, 200.0)),
        rebase=random.random() < 0.8,
        max_deletes_per_run=random.choice((2, 1000, 1000)),
        trash_for=random.choice((0.0, 0.0, 50.0, 1000.0)),
    )


def run(seed: int, *, log: list[str] | None = None, switches: Mapping[str, Any] = _NONE) -> Outcome:
    """Runs one schedule.

    Args:
        seed: of everything in it.
        log: is told what happens, step by step.
        switches: fields of the setting that are not left to the seed.
    """
    random = Random(seed)  # noqa: S311 -- no secret depends on it
    stage = Stage(replace(setting(random), **switches), random, log=log)
    loss = None
    try:
        _play(stage, random)
    except Loss as found:
        loss = str(found)
    finally:
        stage.close()
    stage.tally["snapshots"] = stage.certificate.written
    stage.tally["deletions"] = stage.certificate.removed
    return Outcome(seed, stage.tally, loss)


def _play(stage: Stage, random: Random) -> None:
    stage.batch(random.randint(1, 8))
    usual, mood = policy(random), random.choice(_MOODS)
    weights = [weight * (_BOOST if step in mood else 1) for step, weight in _STEPS]
    steps = [step for step, _ in _STEPS]
    for step in random.choices(steps, weights, k=random.randint(5, 40)):
        step(stage, random, usual)
    stage.settle(usual.override(max_deletes_per_run=1000))


Step = Callable[[Stage, Random, Policy], None]


def _batch(stage: Stage, random: Random, _: Policy) -> None:
    stage.batch(random.randint(1, 2))


def _part(stage: Stage, random: Random, _: Policy) -> None:
    for _again in range(random.randint(1, 4)):
        stage.part(random.randrange(2))


def _abort(stage: Stage, random: Random, _: Policy) -> None:
    stage.abort(random.randrange(2), tidy=random.random() < 0.3)


def _linger(stage: Stage, random: Random, _: Policy) -> None:
    number = random.randrange(2)
    stage.query.begin()
    stage.query.task(stage.stores[number % len(stage.stores)])
    stage.linger(number)


def _land(stage: Stage, random: Random, _: Policy) -> None:
    stage.land(random.randrange(8))


def _restart(stage: Stage, _random: Random, _: Policy) -> None:
    stage.restart()


def _rewind(stage: Stage, random: Random, _: Policy) -> None:
    stage.rewind(random.randrange(5), tidy=random.random() < 0.5)


def _spark_snapshot(stage: Stage, random: Random, _: Policy) -> None:
    number = random.randrange(2)
    stage.spark_snapshot(number)
    if random.random() < 0.8:
        stage.land(-1)


def _spark_cleanup(stage: Stage, random: Random, _: Policy) -> None:
    for number in range(random.randint(1, 2)):
        stage.spark_cleanup(number)


def _wait(stage: Stage, random: Random, _: Policy) -> None:
    stage.wait(random.choice((0, 1, 10, 50, 150, 400)))


def _read(stage: Stage, random: Random, _: Policy) -> None:
    stage.read(random.randrange(2), random.randrange(5))


def _poison(stage: Stage, random: Random, _: Policy) -> None:
    stage.poison(random.randrange(8), cut=random.random() < 0.3)


def _heal(stage: Stage, _random: Random, _: Policy) -> None:
    stage.heal()


def _garble(stage: Stage, _random: Random, _: Policy) -> None:
    stage.garble()


def _leftover(stage: Stage, random: Random, _: Policy) -> None:
    kinds = ["checksum", "temp"] if stage.setting.habits.checksums else ["temp", "side", "unknown"]
    stage.leftover(random.randrange(6), random.choice(kinds))


def _maintain(stage: Stage, random: Random, usual: Policy) -> None:
    chosen = usual if random.random() < 0.7 else policy(random)
    stop = random.choice((Stop.NEVER, Stop.CRASH, Stop.CRASH, Stop.FAIL, Stop.PAUSE, Stop.PAUSE))
    if len(stage.paused) > 1:
        stop = Stop.CRASH
    stage.maintain(chosen, _halt(stage, random, stop), _request(stage, random))


def _request(stage: Stage, random: Random) -> Request:
    """Returns what is asked for: mostly everything, else what a DAG planned some time ago."""
    if random.random() < 0.7:
        return Request()
    target = max(1, stage.query.target - random.randrange(3))
    return Request(target=target, force_snapshot=random.random() < 0.5)


def _halt(stage: Stage, random: Random, stop: Stop) -> Halt:
    verb = random.choice(_VERBS)
    return Halt(stop, random.randrange(4 if verb else stage.usual), verb)


def _resume(stage: Stage, random: Random, _: Policy) -> None:
    if stage.paused:
        stop = random.choice((Stop.NEVER, Stop.NEVER, Stop.CRASH, Stop.PAUSE))
        stage.resume(random.choice(stage.paused), _halt(stage, random, stop))


def _undo(stage: Stage, random: Random, _: Policy) -> None:
    stop = random.choice((Stop.NEVER, Stop.NEVER, Stop.CRASH, Stop.FAIL, Stop.PAUSE))
    stage.undo(random.randrange(8), _halt(stage, random, stop))


def _ambush(stage: Stage, random: Random, usual: Policy) -> None:
    """Stops a maintainer in the middle of its work, lets something happen there, and goes on."""
    others = len(stage.paused)
    halt = Halt(Stop.PAUSE, random.randrange(6), random.choice(_BUSY))
    stage.maintain(usual, halt)
    random.choice((_poison, _batch, _part, _restart, _spark_snapshot, _spark_cleanup, _land))(
        stage, random, usual
    )
    if len(stage.paused) > others:
        stage.resume(stage.paused[-1], ON)


# What a maintainer does once it has decided.
_BUSY = ("open", "stat", "write", "publish", "written", "append", "delete", "move", "linked")
_STEPS: list[tuple[Step, int]] = [
    (_maintain, 36),
    (_resume, 14),
    (_ambush, 8),
    (_batch, 20),
    (_part, 10),
    (_wait, 14),
    (_spark_snapshot, 9),
    (_spark_cleanup, 8),
    (_read, 5),
    (_linger, 3),
    (_land, 5),
    (_abort, 2),
    (_restart, 3),
    (_rewind, 3),
    (_leftover, 5),
    (_poison, 3),
    (_garble, 1),
    (_heal, 1),
    (_undo, 4),
]
# Half of all stops are at any point, the others where something is decided.
_VERBS = (*[""] * 9, "read", "deleted", *_BUSY)
# What a schedule has more of than others.
_MOODS: list[tuple[Step, ...]] = [
    (),
    (_poison, _garble, _ambush),
    (_spark_snapshot, _spark_cleanup, _land, _linger),
    (_read, _leftover, _wait),
    (_rewind, _restart, _part),
]
_BOOST = 4
