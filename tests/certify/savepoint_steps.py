"""Savepoints and pins among the steps of a schedule: made, continued, started from, and expired."""

import re
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from random import Random

from statemaint.errors import LeaseHeldError
from statemaint.maintain.pins import end_pin_of, pin_batch, pinned
from statemaint.model.checkpoint import Provider
from statemaint.model.policy import Policy
from statemaint.records.savepoints import Shape
from tests.certify.codecs import CODECS
from tests.certify.judge import Loss
from tests.certify.maintainer import Halt, Stop
from tests.certify.operators import partitions
from tests.certify.rocks_query import RocksQuery
from tests.certify.savepoints import Dest
from tests.certify.seat import Seat
from tests.certify.stage import Stage
from tests.certify.world import Doer

_MOST = 4
_DIRECTORY = re.compile(r"state/\d+/\d+")
_BY = "certificate"
_ENDS = (Stop.NEVER, Stop.NEVER, Stop.CRASH, Stop.CRASH, Stop.FAIL, Stop.PAUSE, Stop.PAUSE)
_VERBS = (*[""] * 8, "write", "publish", "written", "delete", "deleted", "read", "open")
_ABANDONED = 3 * 86400.0


def _halt(stage: Stage, random: Random) -> Halt:
    stop, verb = random.choice(_ENDS), random.choice(_VERBS)
    if len(stage.paused) > 1 and stop is Stop.PAUSE:
        stop = Stop.CRASH
    return Halt(stop, random.randrange(12 if verb else stage.savepoints.points), verb)


def _is_closed(stage: Stage) -> bool:
    return bool(stage.paused) and not stage.setting.two


def _savepoint(stage: Stage, random: Random, _: Policy) -> None:
    """A savepoint in a new folder, or the same command again where it was killed."""
    folder, commits = stage.savepoints, stage.query.commits
    unfinished = [one for one in folder.dests if not one.whole]
    may_begin = len(folder.dests) < _MOST and bool(commits)
    if _is_closed(stage) or not (unfinished or may_begin):
        return
    if unfinished and (not may_begin or random.random() < 0.6):
        dest = random.choice(unfinished)
    else:
        dest = folder.new(
            random.choice(commits) if random.random() < 0.4 else None,
            new_id=random.random() < 0.3,
            pin=random.random() < 0.7,
            local=random.random() < 0.5,
            garbles=random.random() < 0.1,
            shape=_shape(stage, random),
        )
        stage.tally["savepoints with another codec"] += dest.shape.codec is not None
        stage.tally["savepoints in other partitions"] += dest.shape.partitions is not None
        stage.tally["savepoints in another provider"] += dest.shape.provider is not None
    stage.tally["savepoints continued"] += bool(dest.world.files)
    _save(stage, dest, _halt(stage, random))


def _shape(stage: Stage, random: Random) -> Shape:
    codec = _codec(stage, random)
    number, moves = random.choice((1, 2, 3, 5)), random.random() < 0.3
    if random.random() < 0.5 or not _may_move(stage):
        return Shape(codec=codec)
    rocks, count = stage.setting.habits.rocks, stage.query.partitions
    return Shape(
        partitions=None if number == count else number,
        provider=(Provider.HDFS_BACKED if rocks else Provider.ROCKSDB) if moves else None,
        codec=codec,
    )


def _codec(stage: Stage, random: Random) -> str | None:
    """Returns another codec for some savepoints of state that is not in RocksDB."""
    habits = stage.setting.habits
    others = [one for one in CODECS if one != habits.codec]
    codec = random.choice(others)
    return codec if random.random() < 0.4 and not habits.rocks else None


def _may_move(stage: Stage) -> bool:
    """Returns whether rows may get other partitions, or another provider.

    Their operators must be those that the query began with, their schemas there, and the number of
    their partitions that of the offset log; with unique ids, that must know of row checksums.
    """
    query = stage.query
    habits, count = query.habits, query.partitions
    operators = partitions(habits.stores).values()
    plain = all(map(_DIRECTORY.fullmatch, habits.stores)) and not habits.families
    described = habits.spark is not None or len(habits.stores) > 1
    has_ids = isinstance(query, RocksQuery) and query.ids
    dated = not has_ids or query.knows_row_checksums
    same = all(one == {*range(count)} for one in operators)
    return plain and described and dated and same and not query.left


def _save(stage: Stage, dest: Dest, halt: Halt) -> None:
    folder, before, garble = stage.savepoints, dest.whole, dest.world.garble
    stage.step(f"a savepoint to {dest.address}, {halt}: batch {dest.batch}, new id: {dest.new_id}, "
               f"pin: {dest.pin}, {dest.shape.chosen or 'as it is'}")  # fmt: skip
    stage.tally["savepoints"] += 1
    # Who stood still has looked before.
    healthy = dest.batch is None and not (stage.paused or stage.undercut or stage.tainted)
    moves = dest.shape.partitions is not None or dest.shape.provider is not None
    healthy &= not moves or _may_move(stage)  # it may have got unique ids since it was begun
    doer = stage.doer(Policy(), "savepoint")
    found = stage.start(doer, halt, partial(folder.save, dest))
    if found.done:
        folder.points = max(40, found.points)
    stage.tally["savepoints that are whole"] += dest.whole is not before
    held = isinstance(found.error, LeaseHeldError)
    ended = found.done and halt.stop is Stop.NEVER and not held
    healthy &= dest.world.garble is garble and not dest.expiring
    if healthy and ended and found.error and not _lacks(stage):
        raise Loss(f"S23: no savepoint of a query that has lost nothing: {found.error!r}")


def _lacks(stage: Stage) -> bool:
    """Returns whether something is missing that is not the query's own doing."""
    query, files = stage.query, stage.world.files
    lost = query.left or stage.tally["files lost"] or stage.world.trouble
    purged = query.target > 1 and f"offsets/{query.target - 2}" not in files  # it keeps one batch
    return bool(lost) or purged or next(stage.certificate.wrong(), None) is not None


def _start_from(stage: Stage, random: Random, _: Policy) -> None:
    """A query starts from a savepoint, and plans a batch."""
    whole = [one for one in stage.savepoints.dests if one.is_whole]
    if not whole:
        return
    dest = random.choice(whole)
    batch = max(dest.world.index.commits)
    store = next(one for one, live in dest.world.index.live.items() if live)
    path = random.choice((f"offsets/{batch + 1}", "sources/0/7", f"{store}/{batch + 2}.delta"))
    stage.step(f"a query starts from {dest.address}, and writes {path}")
    stage.tally["starts from savepoints"] += 1
    dest.started = True
    dest.world.change({path: b"of the query that has started"})


def _expire(stage: Stage, random: Random, _: Policy) -> None:
    """All but the newest savepoints expire, and those that nobody has continued for days."""
    folder = stage.savepoints
    if _is_closed(stage) or not folder.dests:
        return
    folder.ahead += random.choice((0.0, 0.0, _ABANDONED))
    last, halt = random.randrange(3), _halt(stage, random)
    stage.step(f"all savepoints but the last {last} expire, {halt}")
    stage.tally["expiries of savepoints"] += 1
    doer = stage.doer(Policy(), "expire")
    found = stage.start(doer, halt, partial(folder.expire, last))
    others = any(one.doer.verb == "expire" for one in stage.paused)
    if found.done and not found.error and not others:
        for one in folder.dests:
            if one.started and one.query_id is None:
                raise Loss(f"S23: no query starts from {one.address} again, where one has run")


# -- pins


def _pin(stage: Stage, random: Random, _: Policy) -> None:
    """Somebody pins a batch for a while; or one that the log no longer has, during other work."""
    if _is_closed(stage) or not stage.query.commits:
        return
    halt = _halt(stage, random)
    work: Callable[[Seat, Doer], None]
    if random.random() < 0.6:
        batch, seconds = random.choice(stage.query.commits), random.choice((30.0, 100.0, 1000.0))
        stage.step(f"batch {batch} is pinned for {seconds:.0f} seconds, {halt}")
        work = partial(_pin_work, stage, batch, seconds)
    else:
        oldest = max(1, stage.query.required - 4)
        batch = random.randrange(oldest, stage.query.target + 1) - 1
        stage.step(f"something works on batch {batch}, {halt}")
        work = partial(_hold_work, stage, batch)
    stage.tally["pins"] += 1
    stage.start(stage.doer(Policy(), "pin"), halt, work)


def _pin_work(stage: Stage, batch: int, seconds: float, seat: Seat, _: Doer) -> None:
    pin = pin_batch(seat, batch, by=_BY, for_seconds=seconds, wait=seat.passes)
    stage.certificate.pin(pin.path, pin.version, pin.until)


def _hold_work(stage: Stage, batch: int, seat: Seat, _: Doer) -> None:
    stack = ExitStack()
    pin = stack.enter_context(pinned(seat, batch, by=_BY, wait=seat.passes))
    stage.certificate.pin(pin.path, pin.version, pin.until)
    stage.works[pin.path] = stack


def _end_pin(stage: Stage, random: Random, _: Policy) -> None:
    held = stage.certificate.pins.held
    if _is_closed(stage) or not held:
        return
    path = random.choice(sorted(held))
    stage.step(f"{path} is ended")
    del held[path]
    if stack := stage.works.pop(path, None):
        stack.close()
        return
    name = path.rpartition("/")[2].removesuffix(".json")
    stage.start(stage.doer(Policy(), "pin"), _halt(stage, random), partial(_end_work, name))


def _end_work(name: str, seat: Seat, _: Doer) -> None:
    end_pin_of(seat, name)


OF_SAVEPOINTS: list[tuple[Callable[[Stage, Random, Policy], None], float]] = [
    (_savepoint, 6),
    (_start_from, 1),
    (_expire, 2),
    (_pin, 5),
    (_end_pin, 2),
]
"""What happens between two steps in some schedules; decided apart from them, as events are."""
