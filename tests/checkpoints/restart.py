"""Proves that every Spark goes on from what we maintained as if nothing had happened.

    python -m tests.checkpoints.restart [VERSION ...]

For each version and kind of query: twelve batches, live; a copy, which we maintain under a tight
policy; every retained batch of both read by Spark; two more batches of both; their outputs and
states compared. The live state must also be the one that `tests/checkpoints` keeps. Says for each
what was done and whether all was equal, and fails if any was not.
"""

import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import click

from statemaint.errors import StatemaintError
from statemaint.maintain import maintain, verify
from statemaint.model.policy import Policy
from statemaint.storage import open_storage
from tests.checkpoints.archive import States, recorded
from tests.checkpoints.environments import ROOT, VERSIONS, SparkError
from tests.checkpoints.live import BATCHES, Live, begin, go_on, read
from tests.checkpoints.queries import Kind

TIGHT = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=4, grace=0, orphan_age=0)
_MORE = 2
_PLACE = ROOT / ".run" / "checkpoints"


@dataclass(frozen=True, slots=True)
class Maintained:
    """What maintenance did to a checkpoint.

    Attributes:
        snapshots: how many it has now.
        deltas: how many it has lost.
        faults: what should not be.
    """

    snapshots: int
    deltas: int
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
        """How many states of a store were compared."""
        return sum(len(batches) for batches in self.states[0].values())

    @property
    def last(self) -> int:
        """The newest batch of both, or of the one that stayed behind."""
        newest = ({int(batch) for batch in next(iter(one.values()))} for one in self.states)
        return min(map(max, newest))

    def faults(self, when: str) -> Iterator[str]:
        """Yields each difference."""
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


def prove(version: str) -> list[Proof]:
    """Proves all kinds of a version."""
    live = Live(version, _PLACE / version, "undisturbed")
    try:
        return list(_prove(live, replace(live, name="maintained")))
    except SparkError as error:
        return [Proof(version, f"none of {len(live.kinds)} kinds", (str(error),))]


def _prove(live: Live, copy: Live) -> Iterator[Proof]:
    shutil.rmtree(live.place, ignore_errors=True)
    begin(live)
    for kind in live.kinds:
        shutil.copytree(live.root(kind), copy.root(kind))
    done = [_maintain(copy.checkpoint(kind)) for kind in copy.kinds]
    before = _compare(live, copy)
    go_on(live, copy, batches=BATCHES + _MORE)
    after = _compare(live, copy)
    for kind, maintained, then, now in zip(live.kinds, done, before, after, strict=True):
        yield _judge(copy, kind, maintained, then, now)


def _maintain(checkpoint: Path) -> Maintained:
    state = checkpoint / "state"
    before = _deltas(state)
    try:
        code = maintain(open_storage(str(checkpoint)), TIGHT).exit_code
    except StatemaintError as error:
        return Maintained(0, 0, (str(error),))
    after, snapshots = _deltas(state), [*state.rglob("[0-9]*.snapshot")]
    faults = [f"maintenance ended in {code}"] if code else []
    for store in sorted({path.parent for path in before}):
        name = store.relative_to(state)
        if store / "1.delta" in after:
            faults.append(f"{name}: no delta went")
        if store not in {path.parent for path in snapshots}:
            faults.append(f"{name}: no snapshot came")
    return Maintained(len(snapshots), len(before - after), tuple(faults))


def _deltas(state: Path) -> set[Path]:
    return set(state.rglob("[0-9]*.delta"))


def _compare(live: Live, copy: Live) -> list[Twins]:
    ours, theirs = read(live, copy)
    return [
        Twins((ours[kind.name], theirs[kind.name]), (live.output(kind), copy.output(kind)))
        for kind in live.kinds
    ]


def _judge(copy: Live, kind: Kind, done: Maintained, before: Twins, after: Twins) -> Proof:
    faults = [*done.faults, *before.faults("before the restart"), *after.faults("after it")]
    faults += _verify(copy.checkpoint(kind))
    if before.states[0] != recorded(copy.version).get(kind.name):
        faults.append("the state is not the one in tests/checkpoints, which may have to be remade")
    batches, rows = after.last - before.last, len(after.outputs[0])
    if batches < _MORE:
        faults.append("the query did not go on")
    facts = (
        f"{done.snapshots} snapshots written, {done.deltas} deltas deleted, {before.count} states; "
        f"{batches} batches on, {rows} rows, {after.count} states"
    )
    return Proof(f"{copy.version} {kind.name}", facts, tuple(faults))


def _verify(checkpoint: Path) -> Iterator[str]:
    try:
        if not verify(open_storage(str(checkpoint)), deep=True).healthy:
            yield "after it: damage"
    except StatemaintError as error:
        yield f"after it: {error}"


def main(versions: list[str]) -> int:
    """Proves all, two versions at a time, and returns the exit code."""
    failed = proved = 0
    with ThreadPoolExecutor(2) as pool:
        for proofs in pool.map(prove, versions):
            for proof in proofs:
                click.echo(proof)
                failed += bool(proof.faults)
                proved += not proof.faults
    click.echo(f"{proved} queries of {len(versions)} Sparks proved, {failed} not")
    return 1 if failed or not proved else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or [*VERSIONS]))
