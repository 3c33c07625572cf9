"""Proof by Spark alone: equal rows before and after, and a query that continues undisturbed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from statemaint.errors import StatemaintError
from tools.demo.oracle import OracleDigest, oracle_session, read_all, retained_batches
from tools.demo.pipeline import output_rows, run_hours
from tools.demo.steps import Advance

SEED = 7
Digests = Mapping[tuple[int, str, int], OracleDigest]


class DisprovedError(StatemaintError):
    """Spark found a difference, which must never happen."""

    code = "DISPROVED"


@dataclass(frozen=True, slots=True)
class Restart:
    """The restart of the query after maintenance; it equals its twin without maintenance."""

    batches: int  # the further ones that it processed
    rows: int  # of its output
    states: int  # of stores, by batch, that Spark read


def read_states(checkpoint: Path, advance: Advance) -> Digests:
    """Returns the digest of Spark's own reader for every store at every retained batch."""
    batches = retained_batches(checkpoint)
    with oracle_session() as spark:
        return read_all(
            spark,
            checkpoint,
            batches=batches,
            progress=lambda batch: advance(f"batch {batch}"),
        )


def must_be_equal(before: Digests, after: Digests) -> None:
    """Compares the states that Spark read; the error names the first store and batch."""
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            operator, store, batch = key
            raise DisprovedError(
                f"operator {operator}, store {store}, batch {batch}: Spark read "
                f"{before.get(key)} before and {after.get(key)} after"
            )


def restart(root: Path, twin: Path, *, hour: int, advance: Advance) -> Restart:
    """Runs the query for one more hour in both places, and compares output and state."""
    before = retained_batches(root / "checkpoint")[-1]
    for place in (root, twin):
        run_hours(place, hours=[hour], seed=SEED, progress=advance)
    one, two = output_rows(root), output_rows(twin)
    if one != two:
        raise DisprovedError(f"the output differs: {len(one)} rows, {len(two)} in the twin")
    states, undisturbed = (read_states(job / "checkpoint", advance) for job in (root, twin))
    must_be_equal(states, undisturbed)
    after = retained_batches(root / "checkpoint")[-1]
    return Restart(after - before, len(one), len(states))
