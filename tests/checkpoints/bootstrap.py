"""Proves that every Spark continues from rows that `bootstrap`, or a provider, has written.

    python -m tests.checkpoints.bootstrap [VERSION ...] [KIND ...] [providers]

For each kind of query that a version of Spark can run, or each of those that are named: seven
batches; a copy, of which `bootstrap` removes all rows of each operator in one batch and puts them
back in another; ten more batches of both, with Spark's own maintenance beside them. Reports whether
the states before and after those, the rows of every batch and the names of the schema files are
equal, and whether the copy is sound, and fails if anything is not, or if `bootstrap` refuses what
it supports, or writes what it does not.
"""

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

from statemaint.audit import doctor
from statemaint.errors import StatemaintError, UnsupportedError
from statemaint.savepoint import add_to_sink_log
from statemaint.storage import Storage, open_storage
from tests.checkpoints.archive import States
from tests.checkpoints.environments import VERSIONS, SparkError
from tests.checkpoints.live import Live, copy, go_on, read
from tests.checkpoints.queries import Kind, release
from tests.checkpoints.restart import ROCKS, Proof, Twins, verified
from tests.checkpoints.savepoint import (
    ALL_KINDS,
    BEFORE,
    READ,
    begin_all,
    chosen,
    conf_of,
    echo_proofs,
    newest_batch,
    rows_since,
    schemas_in,
)
from tests.support.paths import ROOT
from tests.support.restored import put_back_by_providers, take_out_and_put_back

_PROVIDERS = "providers"
_BY_DEFAULT = ("3.5.9", "4.0.5", "4.3.0")
_PLACE = ROOT / ".run" / "bootstraps"
# Kinds that are refused: their names, before which Spark, and the code of the error.
_REFUSED = (
    ("limit", (9, 9), UnsupportedError.code),
    ("rocks-.*", (3, 5), UnsupportedError.code),  # Its RocksDB reads no changelogs.
)
_BY_PROVIDERS = (("rocks-join4.*", (9, 9), UnsupportedError.code),)  # keys with a time in them
PutBack = Callable[[Storage], int]


def prove(version: str, kinds: tuple[Kind, ...], by: PutBack) -> Iterator[Proof]:
    """Proves those kinds of queries that a version can run."""
    live = Live(version, _PLACE / version, "undisturbed", kinds)
    try:
        yield from _prove(live, by)
    except SparkError as error:
        yield Proof(version, f"none of {len(live.kinds)} kinds", (str(error),))


def _prove(live: Live, by: PutBack) -> Iterator[Proof]:
    begin_all(live)
    ours, added = copy(live, "bootstrapped"), dict[str, int]()
    for kind in live.kinds:
        outcome, expected = _put_back(ours, kind, by), _refusal(live.version, kind, by)
        if isinstance(outcome, int):
            added[kind.name] = outcome
        if expected or not isinstance(outcome, int):
            yield _refused(live.version, kind, expected, outcome)
    kept, conf = tuple(kind for kind in live.kinds if kind.name in added), conf_of(live.version)
    if not kept:
        return
    live, ours = (replace(each, family=kept, conf=conf) for each in (live, ours))
    batches = {kind.name: newest_batch(live.checkpoint(kind)) for kind in kept}
    before = read(live, ours, newest=1)
    for twin in (live, ours):  # one after the other, as they have one id
        go_on(twin, batches=BEFORE + ROCKS.more)
    after = read(live, ours, newest=READ)
    for kind in kept:
        name, ahead, batch = kind.name, added[kind.name], batches[kind.name]
        outputs = rows_since(live.root(kind), batch), rows_since(ours.root(kind), batch + ahead)
        first, last = (
            Twins((theirs[name], _shifted(mine[name], ahead)), rows)
            for (theirs, mine), rows in ((before, ([], [])), (after, outputs))
        )
        more = last.last - first.last
        facts = f"{ahead} batches of ours and {more} more, {len(outputs[0])} rows"
        faults = [*first.faults("before the restart"), *last.faults("after it")]
        faults += [] if more >= ROCKS.more else ["the query did not go on"]
        faults += _faults(live, ours, kind, ahead)
        yield Proof(f"{live.version} {name}", facts, tuple(faults))


def _faults(live: Live, ours: Live, kind: Kind, ahead: int) -> Iterator[str]:
    theirs, checkpoint = live.checkpoint(kind), ours.checkpoint(kind)
    yield from verified(checkpoint)
    if not doctor(open_storage(str(checkpoint)), deep=True).restarts:
        yield "the doctor finds that it does not restart"
    ended, end = newest_batch(checkpoint), newest_batch(theirs)
    if ended != end + ahead:
        yield f"it has ended at batch {ended}, the other one at {end}"
    if schemas_in(checkpoint) != schemas_in(theirs):
        yield "other schema files"


def _put_back(ours: Live, kind: Kind, by: PutBack) -> int | StatemaintError:
    """Returns the number of batches that were added, or the refusal."""
    storage, sink = (open_storage(f"{ours.root(kind)}/{name}") for name in ("checkpoint", "output"))
    newest = newest_batch(ours.checkpoint(kind))
    try:
        added = by(storage)
    except StatemaintError as error:
        return error
    for number in range(added):
        add_to_sink_log(sink, newest + 1 + number)
    return added


def _refusal(version: str, kind: Kind, by: PutBack) -> str | None:
    """Returns the code with which a query has to be refused; `None` if it is supported."""
    codes = (
        code
        for name, before, code in (_REFUSED if by is take_out_and_put_back else _BY_PROVIDERS)
        if re.fullmatch(name, kind.name) and release(version) < before
    )
    return next(codes, None)


def _refused(
    version: str, kind: Kind, expected: str | None, outcome: int | StatemaintError
) -> Proof:
    refused = isinstance(outcome, StatemaintError) and outcome.code == expected
    faults = () if refused else (f"{expected} was expected: {outcome}",)
    return Proof(f"{version} {kind.name}", f"refused, {expected}", faults)


def _shifted(states: States, by: int) -> States:
    return {
        store: {str(int(batch) - by): found for batch, found in batches.items()}
        for store, batches in states.items()
    }


def main(names: list[str]) -> int:
    """Proves what is named, by default all kinds on three versions, and returns the exit code."""
    versions = [name for name in names if name in VERSIONS] or _BY_DEFAULT
    kinds = chosen(ALL_KINDS, [name for name in names if name != _PROVIDERS])
    by = put_back_by_providers if _PROVIDERS in names else take_out_and_put_back
    proofs = (proof for version in versions for proof in prove(version, kinds, by))
    return echo_proofs(proofs, f"bootstraps on {len(versions)} Sparks")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
