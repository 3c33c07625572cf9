"""Proves that every Spark goes on from what we maintained as if nothing had happened.

    python -m tests.checkpoints.restart [ARCHIVE ...]

An ARCHIVE is `VERSION` or `FAMILY-VERSION`, as `families` has them. For each kind of query of it:
twelve batches, live; a copy, which we maintain under a tight policy; every retained batch of both
read by Spark; more batches of both; their outputs and states compared. Where RocksDB keeps the
state Spark's own maintenance runs beside those, at its most eager, and finds what ours has left.
The live state must also be the one that `tests/checkpoints` keeps. Says for each what was done and
whether all was equal, and fails if any was not.
"""

import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from statemaint.audit import verify
from statemaint.errors import StatemaintError
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.storage import open_storage
from tests.checkpoints.archive import States, recorded
from tests.checkpoints.environments import SparkError
from tests.checkpoints.families import of_archive, provable
from tests.checkpoints.live import BATCHES, Live, begin, copy, go_on, read
from tests.checkpoints.queries import KINDS, Kind
from tests.checkpoints.rocks_queries import MAINTENANCE
from tests.support.paths import ROOT

TIGHT = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=4, grace=0, orphan_age=0)
_SNAPSHOTS, _DELTAS = {".snapshot", ".zip"}, {".delta", ".changelog"}
_PLACE = ROOT / ".run" / "checkpoints"


@dataclass(frozen=True, slots=True)
class Trial:
    """What is done to the queries of a family.

    Attributes:
        policy: what we maintain under.
        more: batches after that.
        conf: what those run with.
    """

    policy: Policy
    more: int
    conf: Mapping[str, str] = field(default_factory=dict)


_HDFS_BACKED = Trial(TIGHT, 2)
ROCKS = Trial(
    replace(TIGHT, min_deltas_for_snapshot=5, min_batches_to_retain=8),
    10,
    MAINTENANCE | {"spark.sql.streaming.minBatchesToRetain": "8"},
)


@dataclass(frozen=True, slots=True)
class Maintained:
    """What maintenance did to a checkpoint.

    Attributes:
        left: the files of all versions that are there now.
        snapshots: how many of them were not before.
        gone: how many were there only before.
        faults: what should not be.
    """

    left: frozenset[Path]
    snapshots: int
    gone: int
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Twins:
    """What Spark says of a query and of its maintained copy.

    Attributes:
        states: of both, one after the other.
        outputs: of both, likewise.
    """

    states: tuple[States, States]
    outputs: tuple[list[str], list[str]]

    @property
    def count(self) -> int:
        return sum(len(batches) for batches in self.states[0].values())

    @property
    def last(self) -> int:
        """The newest batch of both, or of the one that stayed behind."""
        newest = ({int(batch) for batch in next(iter(one.values()))} for one in self.states)
        return min(map(max, newest))

    def faults(self, when: str) -> Iterator[str]:
        ours, theirs = self.states
        if ours.keys() != theirs.keys():
            yield f"{when}: other stores"
        for store in sorted(ours.keys() & theirs.keys()):
            batches = ours[store].keys() | theirs[store].keys()
            other = [one for one in batches if ours[store].get(one) != theirs[store].get(one)]
            if other:
                yield f"{when}: {store} differs at {', '.join(sorted(other, key=int))}"
        if self.outputs[0] != self.outputs[1]:
            yield f"{when}: other output"


@dataclass(frozen=True, slots=True)
class Proof:
    """How one query came through.

    Attributes:
        name: of the version and the kind.
        facts: what was done and compared.
        faults: everything that was not as it has to be; none is a proof.
    """

    name: str
    facts: str
    faults: tuple[str, ...]

    def __str__(self) -> str:
        verdict = f"NOT PROVED: {'; '.join(self.faults)}" if self.faults else "equal"
        return f"{self.name:<32} {self.facts}: {verdict}"


def prove(name: str) -> list[Proof]:
    """Proves all kinds of an archive's family and version."""
    family, version = of_archive(name)
    live = Live(version, _PLACE / name, "undisturbed", family.kinds)
    try:
        return list(_prove(live, _HDFS_BACKED if family.kinds is KINDS else ROCKS))
    except SparkError as error:
        return [Proof(name, f"none of {len(live.kinds)} kinds", (str(error),))]


def _prove(live: Live, trial: Trial) -> Iterator[Proof]:
    shutil.rmtree(live.place, ignore_errors=True)
    begin(live)
    ours = copy(live, "maintained")
    done = [_maintain(ours.checkpoint(kind), trial.policy) for kind in ours.kinds]
    before = _compare(live, ours)
    twins = (replace(one, conf=trial.conf) for one in (live, ours))
    go_on(*twins, batches=BATCHES + trial.more)
    after = _compare(live, ours)
    if trial.conf:
        after = [_newest(twins, trial.policy.min_batches_to_retain) for twins in after]
    for kind, did, *both in zip(live.kinds, done, before, after, strict=True):
        yield _judge(ours, kind, trial, did, both)


def _maintain(checkpoint: Path, policy: Policy) -> Maintained:
    before = _versions(checkpoint)
    try:
        code = maintain(open_storage(str(checkpoint)), policy).exit_code
    except StatemaintError as error:
        return Maintained(before, 0, 0, (str(error),))
    after = _versions(checkpoint)
    faults = [f"maintenance ended in {code}"] if code else []
    for store in sorted({path.parent for path in before}):
        name = store.relative_to(checkpoint)
        # A zip of version 1, which Spark writes where there are column families, may be the floor.
        if any(store.glob("1[._]*")) and not any(store.glob("1[._]*zip")):
            faults.append(f"{name}: version 1 did not go")
        if not _snapshots(path for path in after if path.parent == store):
            faults.append(f"{name}: no snapshot came")
    return Maintained(after, len(_snapshots(after - before)), len(before - after), tuple(faults))


def _versions(checkpoint: Path) -> frozenset[Path]:
    files = (checkpoint / "state").rglob("[0-9]*")
    return frozenset(path for path in files if path.suffix in _SNAPSHOTS | _DELTAS)


def _snapshots(files: Iterable[Path]) -> list[Path]:
    return [path for path in files if path.suffix in _SNAPSHOTS]


def _newest(twins: Twins, batches: int) -> Twins:
    """Of both only what Spark's own maintenance, whose pace nobody knows, cannot have deleted."""
    ours, theirs = (
        {
            name: {one: found[one] for one in sorted(found, key=int)[-batches:]}
            for name, found in one.items()
        }
        for one in twins.states
    )
    return replace(twins, states=(ours, theirs))


def _compare(live: Live, ours: Live) -> list[Twins]:
    theirs, mine = read(live, ours)
    return [
        Twins((theirs[kind.name], mine[kind.name]), (live.output(kind), ours.output(kind)))
        for kind in live.kinds
    ]


def _judge(ours: Live, kind: Kind, trial: Trial, done: Maintained, compared: list[Twins]) -> Proof:
    before, after = compared
    checkpoint, archive = ours.checkpoint(kind), ours.place.name
    faults = [*done.faults, *before.faults("before the restart"), *after.faults("after it")]
    faults += verified(checkpoint)
    if before.states[0] != recorded(archive).get(kind.name):
        faults.append("the state is not the one in tests/checkpoints, which may have to be remade")
    batches, rows = after.last - before.last, len(after.outputs[0])
    if batches < trial.more:
        faults.append("the query did not go on")
    sparks = len(_snapshots(_versions(checkpoint) - done.left))
    if trial.conf and not sparks:
        faults.append("Spark wrote no snapshot of its own")
    facts = (
        f"{done.snapshots} snapshots written, {done.gone} files deleted, {before.count} states; "
        f"{batches} batches and {sparks} snapshots on, {rows} rows, {after.count} states"
    )
    return Proof(f"{archive} {kind.name}", facts, tuple(faults))


def verified(checkpoint: Path) -> Iterator[str]:
    try:
        if not verify(open_storage(str(checkpoint)), deep=True).healthy:
            yield "after it: damage"
    except StatemaintError as error:
        yield f"after it: {error}"


def main(names: list[str]) -> int:
    """Proves all, two archives at a time, and returns the exit code."""
    failed = proved = 0
    with ThreadPoolExecutor(2) as pool:
        for proofs in pool.map(prove, names):
            for proof in proofs:
                click.echo(proof)
                failed += bool(proof.faults)
                proved += not proof.faults
    click.echo(f"{proved} queries of {len(names)} archives proved, {failed} not")
    return 1 if failed or not proved else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or provable()))
