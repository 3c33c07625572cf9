"""Queries as metrics show them: real runs over checkpoints in memory."""

from collections.abc import Iterator, Mapping
from functools import lru_cache

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from statemaint import __version__
from statemaint.maintain import maintain
from statemaint.maintain.record import read_record
from statemaint.metrics.options import Named
from statemaint.model.policy import Policy
from statemaint.report.facts import facts_of
from statemaint.report.record import Cause, LastRun, LastSavepoint, Record, next_record
from statemaint.report.run import Report
from statemaint.report.task import lag
from statemaint.storage import MemoryStorage, Storage
from tests.support.checkpoints import write_checkpoint

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0)
ORIGIN = "an installation"
Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def named(query: str = "q", **settings: object) -> Named:
    """Returns what the metrics say of a query besides its record."""
    about = {"dag": f"statemaint__{query}", "origin": ORIGIN, "version": __version__}
    return Named(query, **{**about, **settings})  # type: ignore[arg-type]


def saved(now: float) -> LastSavepoint:
    return LastSavepoint(now - 60, batch=20, bytes=1000, seconds=2.5)


def neglected(
    now: float, partitions: int = 2, stores: tuple[str, ...] = ("default",)
) -> MemoryStorage:
    return write_checkpoint(MemoryStorage(clock=lambda: now), partitions=partitions, stores=stores)


def last_record(storage: Storage) -> tuple[Record, LastRun]:
    """Returns the record in a checkpoint, and the run that it was written after."""
    record = read_record(storage)
    assert record is not None
    assert record.last is not None
    return record, record.last


def ended(report: Report, now: float, run: str = "run", *, every_unit: bool = False) -> LastRun:
    facts = facts_of(report, every_unit=every_unit)
    halted = facts.counts["outcomes"].get("halted")
    return LastRun(
        run=run,
        ended=now,
        failed=(Cause.DAMAGE,) if halted else (),
        tasks=1,
        committed=report.plan.committed,
        lag=lag(report.needed, report.plan.target),
        facts=facts,
        trash_files=0,
        trash_bytes=0,
    )


def maintained(storage: MemoryStorage, now: float, before: Record | None = None) -> Record:
    return next_record(before, ended(maintain(storage, TIGHT), now, run=f"run at {now}"))


def series_of(text: str, query: str = "q") -> Series:
    """Returns the values of a query's series, by name and by their other labels."""
    found = (one for one in _samples(text) if one.labels.get("query") == query)
    return {
        (one.name.removeprefix("statemaint_"), tuple(sorted(_other(one.labels).items()))): one.value
        for one in found
    }


@lru_cache(maxsize=4)
def _samples(text: str) -> tuple[Sample, ...]:
    families = text_string_to_metric_families(text)
    samples = (sample for family in families for sample in family.samples)
    return tuple(one for one in samples if one.name.startswith("statemaint_"))


def plain(found: Series) -> dict[str, float]:
    """Returns the values of the series that have no label of their own."""
    return {name: value for (name, labels), value in found.items() if not labels}


def labelled(found: Series, wanted: str) -> Iterator[tuple[tuple[str, ...], float]]:
    for (name, labels), value in found.items():
        if name == wanted:
            yield tuple(one for _, one in labels), value


def _other(labels: Mapping[str, str]) -> dict[str, str]:
    # A Pushgateway leaves out empty labels, and writes bounds in its own way.
    kept = {key: one for key, one in labels.items() if one and key not in _GROUP}
    return {key: str(float(one)) if key == "le" else one for key, one in kept.items()}


_GROUP = ("query", "origin", "namespace", "owner", "storage", "job", "instance", "detail")
