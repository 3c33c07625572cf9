"""The steps of a schedule, and how often each is taken."""

from collections.abc import Callable
from random import Random

from statemaint.model.policy import Policy
from statemaint.plan.actions import Request
from tests.certify.maintainer import ON, Halt, Stop
from tests.certify.mishaps import ROCKS_STEPS
from tests.certify.rocks_query import RocksQuery
from tests.certify.stage import Stage
from tests.certify.troubles import kinds, mend, strike
from tests.certify.verdicts import Verdicts

_STORES = 8
"""No query has more; a number beyond them is counted from the first again."""
_ROOM = 600
"""The versions that leaps may reach: a lineage has 64 KiB, and without snapshots names them all."""


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


Step = Callable[[Stage, Random, Policy], None]


def _batch(stage: Stage, random: Random, _: Policy) -> None:
    stage.batch(random.randint(1, 2))


def _part(stage: Stage, random: Random, _: Policy) -> None:
    for _again in range(random.randint(1, 4)):
        stage.part(random.randrange(_STORES))


def _abort(stage: Stage, random: Random, _: Policy) -> None:
    stage.abort(random.randrange(_STORES), tidy=random.random() < 0.3)


def _linger(stage: Stage, random: Random, _: Policy) -> None:
    number = random.randrange(_STORES)
    stage.query.begin()
    stage.query.task(stage.stores[number % len(stage.stores)])
    stage.linger(number)


def _land(stage: Stage, random: Random, _: Policy) -> None:
    stage.land(random.randrange(8))


def _restart(stage: Stage, _random: Random, _: Policy) -> None:
    stage.restart()


def _rewind(stage: Stage, random: Random, _: Policy) -> None:
    """Taken back by somebody who knows the rules."""
    stage.operator.rewind(random.randrange(5), "tidy", same=random.random() < 0.3, stops=True)


def _rewind_by_hand(stage: Stage, random: Random, _: Policy) -> None:
    """Taken back by somebody who only knows the logs, often several times in a row."""
    how = random.choice(("left", "left", "left", "snapshots", "first"))
    if isinstance(stage.query, RocksQuery) and stage.query.copied:
        how = "tidy"  # Spark without unique ids fails at names that have them
    same, stops = random.random() < 0.3, random.random() < 0.6
    stage.operator.rewind(random.randrange(5), how, same=same, stops=stops)
    if random.random() < 0.6:
        stage.batch(random.randint(1, 6))


def _spark_snapshot(stage: Stage, random: Random, _: Policy) -> None:
    number = random.randrange(_STORES)
    stage.spark_snapshot(number)
    if random.random() < 0.8:
        stage.land(-1)


def _spark_cleanup(stage: Stage, random: Random, _: Policy) -> None:
    for number in range(random.randint(1, 2)):
        stage.spark_cleanup(number + random.choice((0, 0, 2)))


def _clean_late(stage: Stage, random: Random, _: Policy) -> None:
    stage.clean_late(random.randrange(4))


def _leap(stage: Stage, random: Random, _: Policy) -> None:
    """So many batches that executors upload again."""
    habits = stage.setting.habits
    if habits.rocks and not stage.paused:
        most = habits.every
        count = random.choice((most, most, most // 2 + 1, 21))
        stage.leap(min(count, max(0, _ROOM - stage.query.target)) if habits.ids else count)


def _again(stage: Stage, random: Random, _: Policy) -> None:
    """Another executor uploads the newest version again, with other tables."""
    if stage.setting.habits.rocks:
        stage.restart()
        stage.batch(0)
        stage.again(random.randrange(_STORES))


def _tend(stage: Stage, random: Random, usual: Policy) -> None:
    """Maintenance comes again and again, and the query goes on in between."""
    if stage.setting.habits.every > 20:
        for _again in range(random.randint(2, 4)):
            stage.wait(400)
            stage.maintain(usual, ON)
            stage.leap(random.randint(8, 12))


def _back_and_forth(stage: Stage, random: Random, _: Policy) -> None:
    """A rollback, or a repair, that somebody regrets after a while."""
    stop = random.choice((Stop.NEVER, Stop.CRASH))
    halt = Halt(stop, random.randrange(6), random.choice(("move", "linked", "stat")))
    if random.random() < 0.7:
        stage.rollback(random.randrange(4), halt)
    else:
        stage.repair(halt)
    stage.wait(100)  # whoever was killed has lost the lease by then
    stage.batch(random.choice((0, 0, 1, 2, 4)))
    stage.undo(-1, _halt(stage, random, random.choice((Stop.NEVER, Stop.NEVER, Stop.CRASH))))
    stage.batch(random.randrange(2))


def _copy_back(stage: Stage, random: Random, usual: Policy) -> None:
    """An older copy is put back, after the query and maintenance have gone on."""
    stage.operator.save()
    stage.batch(random.randint(1, 4))
    stage.maintain(usual, ON)
    stage.batch(random.randrange(2))
    _restore(stage, random, usual)
    stage.batch(random.randrange(4))


def _slow_cleanup(stage: Stage, random: Random, usual: Policy) -> None:
    """A clean-up chooses, maintenance works, and then the clean-up deletes."""
    if stage.setting.habits.rocks:
        number = random.randrange(_STORES)
        stage.spark_cleanup(number + 2)
        stage.batch(random.randrange(3))
        stage.maintain(usual, ON)
        stage.clean_late(-1)


def _wait(stage: Stage, random: Random, _: Policy) -> None:
    stage.wait(random.choice((0, 1, 10, 50, 150, 400)))


def _read(stage: Stage, random: Random, _: Policy) -> None:
    stage.read(random.randrange(_STORES), random.randrange(5))


def _poison(stage: Stage, random: Random, _: Policy) -> None:
    stage.operator.poison(random.randrange(8), cut=random.random() < 0.3)


def _heal(stage: Stage, _random: Random, _: Policy) -> None:
    stage.operator.heal()


def _garble(stage: Stage, _random: Random, _: Policy) -> None:
    stage.garble()


def _leftover(stage: Stage, random: Random, _: Policy) -> None:
    kinds = ["checksum", "temp"] if stage.setting.habits.checksums else ["temp", "side", "unknown"]
    _leave(stage, random.randrange(6), random.choice(kinds))


def _leave(stage: Stage, number: int, kind: str) -> None:
    """A writer that was killed left something behind."""
    directory, version = stage.store(number), max(1, stage.query.target - number % 3)
    names = {
        "temp": stage.world.temp_of(f"{directory}/{version}.snapshot"),
        "side": f"{directory}/.{version}.snapshot.crc",
        "checksum": f"{directory}/{version}.snapshot.crc",
        "unknown": f"{directory}/notes-{number}.old.txt",
    }
    path = names[kind]
    owner = f"{directory}/{version}.snapshot"
    # Spark deletes no snapshot of these versions, so that no checksum loses it while we look;
    # and none appears beside a snapshot that a paused run is about to put there.
    moves = kind in ("checksum", "side") and stage.paused
    if moves or path in stage.world.files or owner in stage.world.files:
        return
    stage.step(f"{path} is left behind")
    stale = b'{"algorithm":"CRC32C","value":1,"mainFileSize":1,"timestampMs":0}'
    if kind == "unknown":
        stage.deeds.foreign.add(path)
    stage.world.change({path: stale})


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


def _repair(stage: Stage, random: Random, _: Policy) -> None:
    stage.repair(_halt(stage, random, random.choice(_ENDS)))


def _rollback(stage: Stage, random: Random, _: Policy) -> None:
    stage.rollback(random.randrange(4), _halt(stage, random, random.choice(_ENDS)))


def _task(stage: Stage, random: Random, usual: Policy) -> None:
    stop = random.choice((Stop.NEVER, Stop.CRASH, Stop.PAUSE, Stop.PAUSE))
    if len(stage.paused) > 1:
        stop = Stop.CRASH
    stage.task(usual, _halt(stage, random, stop), random.randrange(_STORES))


def _end_tasks(stage: Stage, random: Random, _: Policy) -> None:
    stage.end_tasks(_halt(stage, random, random.choice((Stop.NEVER, Stop.CRASH))))


def _swap(stage: Stage, random: Random, _: Policy) -> None:
    stage.operator.swap(random.randrange(8), keeps_times=random.random() < 0.5)


def _edit(stage: Stage, random: Random, _: Policy) -> None:
    stage.operator.edit(random.randrange(8))


def _touch(stage: Stage, random: Random, _: Policy) -> None:
    stage.operator.touch(random.randrange(8), keeps_time=random.random() < 0.5)


def _save(stage: Stage, _random: Random, _: Policy) -> None:
    stage.operator.save()


def _restore(stage: Stage, random: Random, _: Policy) -> None:
    ledger = random.random() < 0.5
    if ledger:
        stage.certificate.pins.held.clear()
    stage.operator.restore(ledger=ledger, keeps_times=random.random() < 0.7)


def _litter(stage: Stage, random: Random, _: Policy) -> None:
    kinds = ["store", "commits", "offsets", "state"] + ["tables"] * stage.setting.habits.rocks
    stage.operator.litter(random.randrange(4), random.choice(kinds))


def _ask(stage: Stage, _random: Random, _: Policy) -> None:
    Verdicts(stage).ask()


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


def _remove_operator(stage: Stage, _random: Random, _: Policy) -> None:
    stage.operator.remove_operator()


def _move_aside(stage: Stage, _random: Random, _: Policy) -> None:
    stage.operator.move_aside()


def _forget(stage: Stage, random: Random, _: Policy) -> None:
    folder = random.choice(_OURS)
    if not folder:
        stage.certificate.pins.held.clear()
    stage.operator.forget(folder)


def _trouble(stage: Stage, random: Random, usual: Policy) -> None:
    """The storage refuses something from some point of a run on, and others come meanwhile."""
    verb = random.choice(("", "", "", "move", "delete", "append", "publish", "linked"))
    halt = Halt(Stop.TROUBLE, random.randrange(5 if verb else stage.usual), verb)
    kind = random.choice(sorted(kinds("")))
    stage.batch(random.randint(1, 3))
    strike(stage, kind, random.randrange(8), usual, halt)
    for _again in range(random.randrange(2)):
        stage.batch(random.randrange(2))
        stage.wait(random.choice((0, 100)))
        stage.maintain(usual, ON)
    if random.random() < 0.7:
        mend(stage)


def _agree(stage: Stage, random: Random, usual: Policy) -> None:
    if not stage.setting.habits.rocks or random.random() < 0.3:  # these are slow
        Verdicts(stage).agree(usual)


# What a maintainer does once it has decided.
_BUSY = ("open", "stat", "write", "publish", "written", "append", "delete", "move", "linked")
STEPS: list[tuple[Step, float]] = [
    (_maintain, 36),
    (_resume, 14),
    (_ambush, 8),
    (_batch, 20),
    (_part, 10),
    (_wait, 14),
    (_spark_snapshot, 9),
    (_spark_cleanup, 8),
    (_clean_late, 2),
    (_leap, 3),
    (_again, 2),
    (_tend, 2),
    (_back_and_forth, 1.5),
    (_copy_back, 0.7),
    (_slow_cleanup, 3),
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
    (_rewind_by_hand, 2),
    (_repair, 1),
    (_rollback, 1),
    (_task, 3),
    (_end_tasks, 2),
    (_swap, 0.5),
    (_edit, 0.3),
    (_touch, 2),
    (_save, 0.7),
    (_restore, 0.7),
    (_litter, 1),
    (_ask, 0.5),
    *ROCKS_STEPS,
]
# What happens now and then between two steps, in some schedules; decided apart from them.
EVENTS: list[tuple[Step, float]] = [
    (_forget, 15),
    (_trouble, 1.5),
    (_agree, 2),
    (_remove_operator, 4),
    (_move_aside, 0.5),
]
_OURS = ("attestations", "ledger", "runs", "")
_ENDS = (Stop.NEVER, Stop.NEVER, Stop.CRASH, Stop.FAIL, Stop.PAUSE)
# Half of all stops are at any point, the others where something is decided.
_VERBS = (*[""] * 9, "read", "deleted", *_BUSY)
# What a schedule has more of than others.
MOODS: list[tuple[Step, ...]] = [
    (),
    (_poison, _garble, _ambush),
    (_spark_snapshot, _spark_cleanup, _land, _linger),
    (_read, _leftover, _wait),
    (_rewind, _restart, _part),
    (_rewind_by_hand, _rewind_by_hand, _undo, _repair),
    (_rollback, _undo, _repair, _ask, _back_and_forth),
    (_task, _end_tasks),
    (_copy_back, _restore, _touch, _swap),
    tuple(step for step, _ in ROCKS_STEPS),
]
BOOST = 4
OFTEN = 10
"""How much more there is of what a broken maintainer is hunted with."""
RARELY = (_leap, _tend)
"""What there is more of where executors upload rarely."""
