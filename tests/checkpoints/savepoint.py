"""Proves that every Spark continues from a savepoint as if the query had never stopped.

    python -m tests.checkpoints.savepoint [VERSION ...] [KIND ...] [SHAPE ...]

For each kind of query that a version of Spark can run, or each of those that are named: seven
batches; a savepoint of the newest, with an output folder of its own; ten more batches of the query,
and of the one that starts from the savepoint while the original is out of its reach, with Spark's
own maintenance beside them. Reports whether the rows of every batch, the states of the newest
batches and the names of the schema files are equal, and fails if any are not.

With SHAPEs, such as `provider=RocksDBStateStoreProvider,partitions=3`, there is a savepoint in each
of them, one after the other: each of the query that has started from the one before.
"""

import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click
from pydantic import TypeAdapter

from statemaint.audit import doctor
from statemaint.errors import StatemaintError
from statemaint.records.savepoints import SAME, Shape
from statemaint.savepoint import savepoint
from statemaint.storage import open_storage
from tests.checkpoints.environments import VERSIONS, SparkError
from tests.checkpoints.live import Live, begin, go_on, read
from tests.checkpoints.queries import IDS, KINDS, STATE_STORE, Kind, release
from tests.checkpoints.restart import ROCKS, Proof, Twins, verified
from tests.checkpoints.rocks_queries import (
    EVOLVES,
    EVOLVING_KINDS,
    ROCKS_KINDS,
    UNARCHIVED_KINDS,
)
from tests.support.paths import ROOT

ALL_KINDS = (*KINDS, *UNARCHIVED_KINDS, *ROCKS_KINDS, *EVOLVING_KINDS)
# Of each layout of rows one codec will do; `tests/systems/spark/test_codecs.py` has the others.
_OTHER_CODECS = {"aggregation2-snappy", "aggregation2-lzf", "rocks-zstd"}
_SAVED_KINDS = tuple(kind for kind in ALL_KINDS if kind.name not in _OTHER_CODECS)
_PLACE = ROOT / ".run" / "savepoints"
# Less eager than it is there: a JVM maintains the stores of all queries that it has run.
# The log of a sink says of which batch a row is for as long as no entry of it is deleted.
_MAINTAINED = {
    **ROCKS.conf,
    f"{STATE_STORE}.maintenanceInterval": "2s",
    "spark.sql.streaming.fileSink.log.deletion": "false",
}
_STREAMING = "org.apache.spark.sql.execution.streaming"
BEFORE = 7
"""The number of batches of a query before its state is touched."""
READ = 3
"""The number of the newest batches whose states are compared."""
_SINK_LOG = "_spark_metadata"


def prove(version: str, kinds: tuple[Kind, ...], shapes: Sequence[Shape] = (SAME,)) -> list[Proof]:
    """Proves those kinds of queries that a version can run."""
    live = Live(version, _PLACE / version, "undisturbed", kinds)
    try:
        return list(_prove(live, shapes))
    except SparkError as error:
        return [Proof(version, f"none of {len(live.kinds)} kinds", (str(error),))]


def _prove(live: Live, shapes: Sequence[Shape]) -> Iterator[Proof]:
    begin_all(live)
    before = live
    for number, shape in enumerate(shapes, 1):
        ours, batches = replace(live, name=f"saved-{number}"), dict[str, int]()
        for kind in live.kinds:
            try:
                batches[kind.name] = _save(before, kind, ours.root(kind), shape)
            except StatemaintError as error:
                yield Proof(f"{live.version} {kind.name}", "no savepoint", (str(error),))
        kept = tuple(kind for kind in live.kinds if kind.name in batches)
        live = replace(live, family=kept, conf=conf_of(live.version))
        ids = {} if shape.ids is None else {IDS: shape.ids[1:]}
        ours = before = replace(ours, family=kept, conf={**live.conf, **before.conf, **ids})
        go_on(live, batches=BEFORE + number * ROCKS.more)
        with _out_of_reach(live):
            go_on(ours, batches=BEFORE + number * ROCKS.more)
        moved = any(one.partitions for one in shapes)
        states = read(live, ours, newest=READ, placed=not moved)
        for kind in kept:
            name, batch = kind.name, batches[kind.name]
            outputs = rows_since(live.root(kind), batch), rows_since(ours.root(kind), batch)
            twins = Twins((states[0][name], states[1][name]), outputs)
            yield _judge(live, ours, kind, batch, twins)


def conf_of(version: str) -> dict[str, str]:
    """Returns what the later batches run with: files of a local disk without a `chmod` for each."""
    package = f"{_STREAMING}.checkpointing" if release(version) >= (4, 1) else _STREAMING
    manager = f"{package}.FileSystemBasedCheckpointFileManager"
    return {**_MAINTAINED, "spark.sql.streaming.checkpointFileManagerClass": manager}


def begin_all(live: Live) -> None:
    """Runs the first batches of queries, among which some evolve."""
    shutil.rmtree(live.place, ignore_errors=True)
    evolving = replace(live, family=tuple(one for one in live.family if one in EVOLVING_KINDS))
    if evolving.kinds:
        go_on(evolving, batches=EVOLVES)
    begin(live, BEFORE)


def _save(live: Live, kind: Kind, root: Path, shape: Shape) -> int:
    """Makes a savepoint of a query, and the log of its new sink; returns its batch."""
    source, to, sink = (
        open_storage(str(one))
        for one in (live.checkpoint(kind), root / "checkpoint", root / "output")
    )
    report = savepoint(source, to, sink=sink, shape=shape)
    if not doctor(to, deep=True).restarts:
        raise StatemaintError("the doctor finds that it does not restart")
    return report.note.batch


@contextmanager
def _out_of_reach(live: Live) -> Iterator[None]:
    place = live.place / live.name
    aside = place.rename(place.with_name("aside"))
    try:
        yield
    finally:
        aside.rename(place)


def rows_since(root: Path, batch: int) -> list[str]:
    """Returns what the batches above one have put out, each row with their number, sorted."""
    entries = (root / "output" / _SINK_LOG).glob("[0-9]*")
    seen: set[str] = set()
    rows: list[str] = []
    for entry in sorted(entries, key=_number):
        _, *lines = entry.read_text().splitlines()
        names = {Path(json.loads(line)["path"]).name for line in lines}
        for name in names - seen if _number(entry) > batch else ():
            found = (root / "output" / name).read_text().splitlines()
            rows += (f"{_number(entry) - batch:03d} {row}" for row in found)
        seen |= names
    return sorted(rows)


def _number(entry: Path) -> int:
    return int(entry.stem)


def _judge(live: Live, ours: Live, kind: Kind, batch: int, twins: Twins) -> Proof:
    faults = [*twins.faults("after the restart"), *verified(ours.checkpoint(kind))]
    ended, theirs = (newest_batch(one.checkpoint(kind)) for one in (ours, live))
    if ended != theirs or ended < batch + ROCKS.more:
        faults.append(f"it has ended at batch {ended}, the other one at {theirs}")
    schemas = [schemas_in(one.checkpoint(kind)) for one in (ours, live)]
    if schemas[0] != schemas[1]:
        faults.append("other schema files")
    facts = f"{ended - batch} batches, {len(twins.outputs[0])} rows, {twins.count} states"
    return Proof(f"{ours.version} {kind.name}", facts, tuple(faults))


def newest_batch(checkpoint: Path) -> int:
    return max(int(path.name) for path in (checkpoint / "commits").glob("[0-9]*"))


def schemas_in(checkpoint: Path) -> set[str]:
    """Returns the names of the schema files; Spark adds one if it cannot find those it has."""
    return {path.name for path in checkpoint.glob("state/*/_stateSchema/*/[0-9]*")}


def _shape(text: str) -> Shape:
    pairs = (choice.split("=") for choice in text.split(","))
    return TypeAdapter(Shape).validate_python(dict(pairs))


def main(names: list[str]) -> int:
    """Proves what is named, by default all kinds on all versions, and returns the exit code."""
    versions = [one for one in names if one in VERSIONS] or VERSIONS
    shapes = [_shape(one) for one in names if "=" in one] or [SAME]
    kinds = chosen(_SAVED_KINDS, (one for one in names if "=" not in one))
    proofs = (proof for version in versions for proof in prove(version, kinds, shapes))
    return echo_proofs(proofs, f"savepoints on {len(versions)} Sparks")


def chosen(kinds: Iterable[Kind], names: Iterable[str]) -> tuple[Kind, ...]:
    """Returns the kinds that are among names of kinds and versions, all if none is named."""
    wanted = {*names} - {*VERSIONS}
    found = tuple(kind for kind in kinds if not wanted or kind.name in wanted)
    if unknown := wanted - {kind.name for kind in found}:
        raise click.UsageError(f"neither a version nor a kind: {', '.join(sorted(unknown))}")
    return found


def echo_proofs(proofs: Iterable[Proof], of: str) -> int:
    """Prints each proof as it comes and their number, and returns the exit code."""
    failed = proved = 0
    for proof in proofs:
        click.echo(proof)
        failed += bool(proof.faults)
        proved += not proof.faults
    click.echo(f"{proved} {of} proved, {failed} not")
    return 1 if failed or not proved else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
