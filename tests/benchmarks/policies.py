"""`python -m tests.benchmarks.policies`: what each policy costs an hourly query.

One store of 5,000 rows of which each hourly batch changes some, 150 batches; Spark keeps the last
100 in the commit log, or 10. Maintenance runs after every batch or once a day. Storage and clock
are of memory; the bytes are those of real files. Rewrites the table of docs/policy.md.
"""

import random
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field

import click

from statemaint.maintain import maintain
from statemaint.model.policy import PRESETS, Policy
from statemaint.report.to_json import chain_length
from statemaint.scan.scanner import scan
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import COMMIT, delta_bytes, offsets_bytes
from tests.support.documents import commit, rewrite
from tests.support.paths import ROOT

_ROWS, _BATCHES, _MEASURED = 5000, 150, 40
_HOUR = 3600.0
_HEAD = (
    "| changed by a batch | policy | maintained | deltas read at a restart, mean | at most "
    "| files | kB | kB written by a run, mean |\n"
    "| --: | --- | --- | --: | --: | --: | --: | --: |\n"
)


@dataclass(frozen=True, slots=True)
class Case:
    """One query and how it is maintained.

    Attributes:
        changed: the rows that a batch changes.
        name: what the policy is called.
        policy: the policy; `None` for no maintenance.
        every: the number of batches between two runs.
        logged: the batches that Spark keeps in the commit log.
    """

    changed: int
    name: str
    policy: Policy | None
    every: int = 1
    logged: int = 100


@dataclass(slots=True)
class Seen:
    """What was seen of the last batches."""

    replayed: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)


_SAFE = PRESETS["safe"]
CASES = (
    Case(50, "none", None),
    Case(50, "`spark`", PRESETS["spark"]),
    Case(50, "`safe`", _SAFE),
    Case(50, "`safe`", _SAFE, every=24),
    Case(50, "`safe`, 3 deltas", _SAFE.override(min_deltas_for_snapshot=3)),
    Case(50, "`safe`, 50 deltas", _SAFE.override(min_deltas_for_snapshot=50)),
    Case(50, "`lean`, query keeps 10", PRESETS["lean"], logged=10),
    Case(1000, "none", None),
    Case(1000, "`spark`", PRESETS["spark"]),
    Case(1000, "`safe`", _SAFE),
    Case(1000, "`safe`", _SAFE, every=24),
)


def measured(case: Case) -> Seen:
    """Plays a query, and returns what was seen of its last batches."""
    now = [0.0]
    storage = MemoryStorage(clock=lambda: now[0])
    storage.write("metadata", [b'{"id":"11111111-2222-3333-4444-555555555555"}'])
    dice, seen = random.Random(7), Seen()  # noqa: S311 -- rows
    for batch in range(_BATCHES):
        now[0] += _HOUR
        _commit(storage, batch, case, dice)
        if case.policy and batch % case.every == 0:
            report = maintain(storage, case.policy)
            if batch >= _BATCHES - _MEASURED:
                seen.written.append(report.bytes_written)
        if batch >= _BATCHES - _MEASURED:
            _look(storage, seen)
    return seen


def _commit(storage: MemoryStorage, batch: int, case: Case, dice: random.Random) -> None:
    """Writes what a batch of Spark writes, and drops the oldest batches of the logs."""
    keys = range(_ROWS) if batch == 0 else dice.sample(range(_ROWS), case.changed)
    rows = [(f"key-{key:06}".encode(), dice.randbytes(40)) for key in keys]
    pinned = offsets_bytes({"shuffle.partitions": "1"})
    storage.write(f"offsets/{batch}", [pinned])
    storage.write(f"state/0/0/{batch + 1}.delta", [delta_bytes(rows)])
    storage.write(f"commits/{batch}", [COMMIT])
    if (old := batch - case.logged) >= 0:
        storage.delete(f"offsets/{old}")
        storage.delete(f"commits/{old}")


def _look(storage: MemoryStorage, seen: Seen) -> None:
    checkpoint = scan(storage)
    (store,) = checkpoint.stores
    files = [file.entry.size for file in store.files]
    seen.replayed.append(chain_length(store, checkpoint.target) or 0)
    seen.files.append(len(files))
    seen.sizes.append(sum(files))


def _row(case: Case) -> str:
    seen = measured(case)
    rate = {1: "every batch", 24: "once a day"}[case.every] if case.policy else ""
    written = f"{statistics.mean(seen.written) / 1000:.0f}" if seen.written else "0"
    return (
        f"| {case.changed / _ROWS:.0%} | {case.name} | {rate} "
        f"| {statistics.mean(seen.replayed):.1f} | {max(seen.replayed)} "
        f"| {statistics.mean(seen.files):.0f} | {statistics.mean(seen.sizes) / 1000:,.0f} "
        f"| {written} |"
    )


def _rows() -> Iterator[str]:
    for case in CASES:
        click.echo(row := _row(case))
        yield row


@click.command(help=__doc__)
def main() -> None:
    """Measures, and rewrites the table."""
    table = _HEAD + "\n".join(_rows())
    text = f"Of commit {commit()}.\n\n{table}"
    rewrite(ROOT / "docs/policy.md", text, by="tests.benchmarks.policies")


if __name__ == "__main__":
    main()
