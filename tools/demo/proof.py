"""Proof by Spark alone: equal rows before and after, and a query that continues undisturbed."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
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
    """The restart of the query after maintenance, compared with its twin without maintenance.

    Attributes:
        batches: the number of further batches that it processed.
        rows: the number of output rows, equal in both.
        states: the number of store states by batch that Spark read, equal in both.
    """

    batches: int
    rows: int
    states: int


def read_states(checkpoint: Path, advance: Advance) -> Digests:
    """Returns the digest of Spark's own reader for every store at every retained batch."""
    batches = retained_batches(checkpoint)
    with oracle_session() as spark:
        return read_all(
            spark, checkpoint, batches=batches, progress=partial(_report_batch, advance)
        )


def _report_batch(advance: Callable[[object], None], batch: int) -> None:
    advance(f"batch {batch}")


def must_be_equal(before: Digests, after: Digests) -> None:
    """Compares the states that Spark read.

    Raises:
        DisprovedError: naming the first store and batch that differ.
    """
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            operator, store, batch = key
            raise DisprovedError(
                f"operator {operator}, store {store}, batch {batch}: Spark read "
                f"{before.get(key)} before and {after.get(key)} after"
            )


def restart(root: Path, twin: Path, *, hour: int, advance: Advance) -> Restart:
    """Runs the query for one more hour in both places, and compares output and state.

    Raises:
        DisprovedError: when output or state differ.
    """
    before = retained_batches(root / "checkpoint")[-1]
    for place in (root, twin):
        run_hours(place, hours=[hour], seed=SEED, progress=advance)
    one, two = output_rows(root), output_rows(twin)
    if one != two:
        raise DisprovedError(f"the output differs: {len(one)} rows, {len(two)} in the twin")
    states, undisturbed = (read_states(one / "checkpoint", advance) for one in (root, twin))
    must_be_equal(states, undisturbed)
    after = retained_batches(root / "checkpoint")[-1]
    return Restart(after - before, len(one), len(states))


def make_twin(root: Path, twin: Path) -> None:
    """Copies the job with its input, checkpoint and output; the copy continues independently."""
    shutil.copytree(root, twin)
