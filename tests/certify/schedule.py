"""Schedules from seeds: the same seed is the same schedule, step by step."""

import gc
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from random import Random
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any

from statemaint.execute import ledger
from statemaint.model.policy import Policy
from statemaint.records import runs
from tests.certify import on_disk, undoing
from tests.certify.closing import settle
from tests.certify.codecs import CODECS
from tests.certify.habits import Habits
from tests.certify.judge import Loss
from tests.certify.mishaps import OF_FAMILIES, OF_ROCKS
from tests.certify.operators import METADATA_SINCE
from tests.certify.savepoint_steps import OF_SAVEPOINTS
from tests.certify.savepoints import pinned_by_clock
from tests.certify.setting import Setting
from tests.certify.stage import Stage
from tests.certify.steps import BOOST, EVENTS, MOODS, OFTEN, RARELY, STEPS, Step, policy

# Its package has a function of the same name as a module's.
saving_run: Any = import_module("statemaint.savepoint.run")

_NONE: Mapping[str, Any] = MappingProxyType({})
_STORES = (
    ("state/0/0",),
    ("state/0/0",),
    ("state/0/0", "state/0/1"),
    ("state/0/0/left-keys", "state/0/0/right-keys"),
)


ROCKS = 0.345
"""The share of schedules whose query keeps its state in RocksDB."""
FAMILIES = 0.4
"""The share of these whose stores have column families."""
WORKERS = 0.5
"""The share of schedules whose maintainers work on several stores at a time."""
EVENTFUL = 0.6
"""The share of schedules in which something happens between two steps."""
EVENT = 0.2
"""How often it does there."""
TWO_OPERATORS = 0.1
"""The share of schedules whose query has two operators."""
ON_DISK = 0.01
"""The share of schedules on a real disk, with links."""
SAVING = 0.5
"""The share of schedules with savepoints and pins."""
SAVED = 0.2
"""How often there is one of them between two steps."""
FAILING = 0.1
"""The share of schedules on a storage that fails, which end with the undo of every run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one schedule ended; `loss` is `None` when nothing was found."""

    seed: int
    tally: Counter[str]
    loss: str | None = None


def setting(
    random: Random,
    *,
    rocks: float = ROCKS,
    ids: bool | None = None,
    every: int | None = None,
    often: tuple[str, ...] = (),
    events: tuple[str, ...] = (),
) -> Setting:
    """Returns what one schedule is about.

    Args:
        random: where it comes from.
        rocks: the share of RocksDB.
        ids: whether versions have unique ids then; either way by default.
        every: after how many versions executors make snapshots; by default all that there is.
        often: the kinds of steps that there are more of.
        events: the kinds of events of schedules that are otherwise without any.
    """
    habits = _habits(random, rocks=random.random() < rocks, ids=ids)
    if every:
        habits = replace(habits, every=every, in_executor=True)
    skew = random.choice((-400.0, -100.0, 100.0, 400.0)) if random.random() < 0.1 else 0.0
    return Setting(
        habits,
        local=random.random() < 0.7,
        two=random.random() < 0.5,
        coarse=random.random() < 0.4,
        skew=skew,
        often=frozenset(often),
        events=frozenset(events),
    )


def _with_workers(setting: Setting, seed: int) -> Setting:
    """Lets maintainers of some schedules work on several stores at a time."""
    random = Random(f"workers of {seed}")  # noqa: S311 -- as above
    if random.random() >= WORKERS:
        return setting
    partitions = random.choice((2, 2, 3, 4, 8))
    stores = tuple(f"state/0/{number}" for number in range(partitions))
    if "left" in setting.habits.stores[0]:
        stores = setting.habits.stores
    workers = random.randint(2, 8)
    return replace(setting, habits=replace(setting.habits, stores=stores), workers=workers)


def _with_operators(setting: Setting, seed: int) -> Setting:
    """Gives the query of some schedules a second operator, which may be removed."""
    random = Random(f"operators of {seed}")  # noqa: S311 -- as above
    habits, wanted = setting.habits, "remove_operator" in setting.events
    if (random.random() >= TWO_OPERATORS and not wanted) or habits.families:
        return setting
    partitions = random.choice((1, 1, 2))
    stores = tuple(f"state/{one}/{at}" for one in range(2) for at in range(partitions))
    spark = METADATA_SINCE if habits.ids else random.choice((3, 3, METADATA_SINCE))
    checksums = habits.checksums and spark >= METADATA_SINCE
    return replace(setting, habits=replace(habits, stores=stores, spark=spark, checksums=checksums))


def _kind(seed: int, setting: Setting, *, alone: bool) -> ModuleType | None:
    """Returns what plays a schedule that has no steps of its own; `None` for the others."""
    shares = ((on_disk, "links", "disk", ON_DISK), (undoing, "failing", "failing", FAILING))
    for kind, event, name, share in shares:
        random = Random(f"{name} of {seed}")  # noqa: S311 -- as above
        if event in setting.events or (not alone and random.random() < share):
            return kind
    return None


def _on_failing(setting: Setting) -> Setting:
    """Returns a setting for a storage that fails: its clock is right, and each run takes turns."""
    habits = replace(setting.habits, in_executor=False)
    return replace(setting, habits=habits, skew=0.0, workers=1)


def _eventful(seed: int, setting: Setting, *, alone: bool) -> Random | None:
    """Returns what decides on the events of a schedule, apart from its steps, if there are any."""
    if alone:
        return Random(seed) if setting.events else None  # noqa: S311 -- as above
    random = Random(f"events of {seed}")  # noqa: S311 -- as above
    return random if random.random() < EVENTFUL else None


def _saving(seed: int) -> Random | None:
    """Returns what decides on savepoints and pins, apart from the steps, if there are any."""
    random = Random(f"savepoints of {seed}")  # noqa: S311 -- as above
    return random if random.random() < SAVING else None


def _with_families(setting: Setting, seed: int, share: float) -> Setting:
    """Lets some queries of RocksDB have column families; leaves steps out that are of others."""
    random = Random(f"families of {seed}")  # noqa: S311 -- as above
    habits = setting.habits
    families = habits.rocks and random.random() < share
    without = frozenset((*OF_FAMILIES, *OF_ROCKS)[: 0 if families else 1 if habits.rocks else None])
    return replace(
        setting, habits=replace(habits, families=families), without=setting.without | without
    )


def _habits(random: Random, *, rocks: bool, ids: bool | None) -> Habits:
    return Habits(
        stores=random.choice(_STORES[: 3 if rocks else 4]),
        min_deltas=random.randint(1, 4),
        retain=random.randint(1, 4),
        in_executor=random.random() < (0.75 if rocks else 0.4),
        side_files=not rocks and random.random() < 0.3,
        checksums=not rocks and random.random() < 0.2,
        codec=random.choice(CODECS) if random.random() < 0.5 else "lz4",
        rocks=rocks,
        ids=rocks and (random.random() < 0.5 if ids is None else ids),
        every=_every(random) if rocks else 2,
    )


def _every(random: Random) -> int:
    kind = random.random()
    if kind < 0.5:
        return random.randint(1, 4)
    if kind < 0.8:
        return random.randint(8, 15)
    return random.randint(30, 60) if kind < 0.97 else random.randint(120, 300)


def run(
    seed: int,
    *,
    log: list[str] | None = None,
    switches: Mapping[str, Any] = _NONE,
    among: Mapping[str, Any] = _NONE,
    alone: bool = False,
) -> Outcome:
    """Runs one schedule.

    Args:
        seed: of everything in it.
        log: is told what happens, step by step.
        switches: fields of the setting that are not left to the seed.
        among: what `setting` is given, and the share of column families.
        alone: let every maintainer work on one store at a time, and no event happen but those that
            `among` names.
    """
    random = Random(seed)  # noqa: S311 -- no secret depends on it
    loss = None
    with _same_ids(seed), _small_ledgers(seed), _uncollected(), _by_the_clock():
        chosen = setting(random, **{one: among[one] for one in among if one != "families"})
        chosen = _with_families(chosen, seed, among.get("families", FAMILIES))
        chosen = chosen if alone else _with_workers(chosen, seed)
        if not alone or chosen.events:
            chosen = _with_operators(chosen, seed)
        without = chosen.without | switches.get("without", frozenset())
        chosen = replace(chosen, **{**switches, "without": without})
        kind = _kind(seed, chosen, alone=alone)
        stage = Stage(_on_failing(chosen) if kind is undoing else chosen, random, log=log)
        try:
            if kind:
                stage.begin(random)
                kind.play(stage, Random(seed), policy(random))  # noqa: S311 -- as above
            else:
                saving = None if alone else _saving(seed)
                _play(stage, random, _eventful(seed, chosen, alone=alone), saving)
        except Loss as found:
            loss = str(found)
        finally:
            stage.close()
    stage.tally.update(_figures(stage))
    return Outcome(seed, stage.tally, loss)


def _figures(stage: Stage) -> dict[str, int]:
    habits = stage.setting.habits
    return {
        "snapshots": stage.deeds.written,
        "deletions": stage.deeds.removed,
        "schedules of RocksDB": habits.rocks,
        "with column families": habits.families,
        "with ids": habits.ids,
        "with two operators": habits.spark is not None,
        "with several workers": stage.setting.workers > 1,
    }


@contextmanager
def _uncollected() -> Iterator[None]:
    """Has no garbage sought until the block ends: most of what there is would be sought often."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextmanager
def _same_ids(seed: int) -> Iterator[None]:
    """Lets `uuid4` give the same ids for the same seed: they decide the order of names."""
    before, random = vars(uuid)["os"], Random(seed)  # noqa: S311 -- as above
    vars(uuid)["os"] = SimpleNamespace(urandom=random.randbytes)
    try:
        yield
    finally:
        vars(uuid)["os"] = before


@contextmanager
def _small_ledgers(seed: int) -> Iterator[None]:
    """Lets ledgers be merged, and runs be forgotten, within the few runs of a schedule."""
    random = Random(-seed)  # noqa: S311 -- as above
    before = ledger.MOST_SEGMENTS, runs.MOST_RUNS
    ledger.MOST_SEGMENTS = random.choice((1, 2, 4, before[0]))
    runs.MOST_RUNS = random.choice((1, 2, 4, before[1]))
    try:
        yield
    finally:
        ledger.MOST_SEGMENTS, runs.MOST_RUNS = before


@contextmanager
def _by_the_clock() -> Iterator[None]:
    """Lets who waits for a run that may not have seen a pin wait by the clock of its world."""
    before, saving_run.pinned = saving_run.pinned, pinned_by_clock
    try:
        yield
    finally:
        saving_run.pinned = before


def _play(stage: Stage, random: Random, eventful: Random | None, saving: Random | None) -> None:
    stage.begin(random)
    usual, mood = policy(random), random.choice(MOODS)
    chosen = [one for one in STEPS if one[0].__name__[1:] not in stage.setting.without]
    rare = stage.setting.habits.every > 20
    weights = [weight * (BOOST if step in mood or (rare and step in RARELY) else 1)
               * (OFTEN if step.__name__[1:] in stage.setting.often else 1)
               for step, weight in chosen]  # fmt: skip
    steps = [step for step, _ in chosen]
    most = 25 if stage.setting.habits.rocks else 40
    for step in random.choices(steps, weights, k=random.randint(5, most)):
        step(stage, random, usual)
        if eventful and eventful.random() < EVENT:
            _event(stage, eventful, usual, EVENTS)
        if saving and saving.random() < SAVED:
            _event(stage, saving, usual, OF_SAVEPOINTS)
    settle(stage, usual.override(max_deletes_per_run=100_000), repairs=random.random() < 0.3)


def _event(stage: Stage, random: Random, usual: Policy, events: list[tuple[Step, float]]) -> None:
    """Lets one of the events happen that the schedule may have: those that it names, or others."""
    setting = stage.setting
    named = [one for one in (*EVENTS, *OF_SAVEPOINTS) if one[0].__name__[1:] in setting.events]
    may = named or [one for one in events if one[0].__name__[1:] not in setting.without]
    (event,) = random.choices([one for one, _ in may], [weight for _, weight in may])
    event(stage, random, usual)
