"""From a record to the families of metrics that Prometheus reads.

A push replaces its families and leaves the others: this keeps the picture of the stores while runs
fail before they read them. So a family is never pushed with a part of its series,
and one that a later run must be able to reset always has a series.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Sample

from statemaint.metrics import catalogue
from statemaint.metrics.options import Named
from statemaint.model.findings import FindingCode
from statemaint.plan.reasons import DeleteReason, WithheldReason
from statemaint.report.facts import CHAIN_BOUNDS, SIZE_BOUNDS, TASK_BOUNDS, RunFacts, Spread, Unit
from statemaint.report.outcome import StoreOutcome
from statemaint.report.record import Cause, Record

Value = float | None
_One = Callable[[str, Value], Family]
_Many = Callable[[str, str, Mapping[str, Value]], Family]


def family(
    name: str, common: Mapping[str, str], values: Iterable[tuple[Mapping[str, str], Value]]
) -> Family:
    """Returns the family of a metric of the catalogue; `common` are labels of all its series."""
    metric = catalogue.BY_NAME[name]
    full, made = metric.full, Family(metric.base, metric.question, metric.kind)
    made.samples = [
        Sample(full, {**common, **labels}, math.nan if value is None else float(value))
        for labels, value in values
    ]
    return made


def families(named: Named, record: Record) -> Iterator[Family]:
    common = named.labels

    def one(name: str, value: Value) -> Family:
        return family(name, common, [({}, value)])

    def many(name: str, label: str, values: Mapping[str, Value]) -> Family:
        return family(name, common, [({label: key}, value) for key, value in values.items()])

    yield many("build_info", "version", {named.version: 1})
    yield from about(named)
    yield from _run(one, many, record)
    if verdicts := record.verdicts.items():
        rows = [({"verdict": verdict, "looked": looked}, 1) for looked, verdict in verdicts]
        yield family("verdict", common, rows)
    if record.last:
        failed = [({"cause": why}, why in record.last.failed) for why in Cause]
        yield family("last_run_failed", {**common, "storage": named.storage}, failed)
        done = record.last.done
        yield from _done(one, many, done)
        yield _spread("task_seconds", named.labels, done.spreads.get("tasks"), TASK_BOUNDS)
    if record.totals:  # unknown while the storage fails: a counter must not begin again
        yield from _totals(one, many, record.totals)
    known = record.known
    if known and known.facts:
        yield one("last_committed_batch", known.committed)
        yield one("snapshot_lag_versions", known.lag)
        yield from _facts(one, many, named, known.facts)


def about(named: Named) -> Iterator[Family]:
    """Yields the families of a query that are known without a record of it."""
    yield family("query_info", named.labels, [({"dag": named.dag}, 1)])
    if named.interval is not None:
        yield family("expected_interval_seconds", named.labels, [({}, named.interval)])
    if (every := named.savepoint_interval) is not None:
        yield family("savepoint_expected_interval_seconds", named.labels, [({}, every)])


def waiting(named: Named, since: float) -> Family:
    return family("lease_held_timestamp_seconds", named.labels, [({}, since)])


def problem_families(
    problems: Sequence[tuple[str, int, str]], labels: Mapping[str, str] = {}
) -> Iterator[Family]:
    """Yields the families of mistakes: the file, the line and the entry of each, if it has one."""
    yield family("exporter_problems", labels, [({}, len(problems))])
    places = []
    for file, line, query in [*dict.fromkeys(problems)][: catalogue.MOST_PROBLEMS]:
        place = {"file": file, "line": str(line) if line else "", "query": query}
        places.append(({name: value for name, value in place.items() if value}, 1))
    yield family("configuration_problem", labels, places)


@dataclass(frozen=True, eq=False)
class _Given:
    """A collector of existing families."""

    _given: Sequence[Family]

    def collect(self) -> Iterable[Family]:
        return self._given


def registry_of(given: Iterable[Family]) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Given([*given]))
    return registry


def _run(one: _One, many: _Many, record: Record) -> Iterator[Family]:
    times: dict[str, Value] = {"stores": record.known.ended} if record.known else {}
    if last := record.last:
        yield one("last_run_timestamp_seconds", last.ended)
        tasks = {"reported": last.tasks - last.silent, "silent": last.silent}
        yield many("last_run_tasks", "state", tasks)
        yield one("last_run_storage_errors", last.storage_errors)
        yield one("lease_held_timestamp_seconds", 0)
    if record.success is not None:
        yield one("last_success_timestamp_seconds", record.success)
    if record.trash:
        yield one("trash_bytes", record.trash.bytes)
        yield one("trash_files", record.trash.files)
        times["trash"] = record.trash.seen
    if times:
        yield many("figures_timestamp_seconds", "figures", times)
    if record.verified:
        yield one("last_verify_timestamp_seconds", record.verified.ended)
        yield one("last_verify_failed", not record.verified.healthy)
    if newest := record.savepoint:
        yield one("last_savepoint_timestamp_seconds", newest.ended)
        yield one("last_savepoint_bytes", newest.bytes)
        yield one("last_savepoint_duration_seconds", newest.seconds)


def _done(one: _One, many: _Many, done: RunFacts) -> Iterator[Family]:
    yield from _sums(one, catalogue.RUN, done.sums)
    yield one("last_run_duration_seconds", done.highest.get("seconds"))
    yield one("last_run_peak_memory_bytes", done.highest.get("memory"))
    deleted = done.counts.get("deleted", {})
    yield many("last_run_files_deleted", "reason", {**dict.fromkeys(DeleteReason, 0), **deleted})
    yield many("last_run_storage_requests", "verb", _verbs(done.counts.get("requests", {})))


def _totals(one: _One, many: _Many, totals: Mapping[str, int]) -> Iterator[Family]:
    yield from _sums(one, catalogue.TOTALS, totals)
    results = {result: totals.get(f"runs/{result}", 0) for result in ("succeeded", "failed")}
    yield many("runs_total", "result", results)
    prefix = "requests/"
    requests = {key.removeprefix(prefix): n for key, n in totals.items() if key.startswith(prefix)}
    yield many("storage_requests_total", "verb", _verbs(requests))


def _facts(one: _One, many: _Many, named: Named, facts: RunFacts) -> Iterator[Family]:
    highest, counts = facts.highest, facts.counts
    yield from _sums(one, catalogue.STATE, facts.sums)
    yield one("restart_seconds", facts.restart)
    yield one("restart_limit_seconds", highest.get("restart_limit", 0))
    yield one("chain_length_max", highest.get("chain", 0))
    yield one("newest_snapshot_timestamp_seconds", facts.snapshot)
    outcomes = counts.get("outcomes", {})
    yield many("stores", "outcome", {key: outcomes.get(key, 0) for key in StoreOutcome})
    withheld = counts.get("withheld", {})
    yield many("snapshots_withheld", "reason", {k: withheld.get(k, 0) for k in WithheldReason})
    # One code is always present, so that the last finding's disappearance replaces the metric.
    findings = {FindingCode.BROKEN_CHAIN.value: 0, **facts.findings}
    yield many("findings", "code", findings)
    chains, sizes = facts.spreads.get("chains"), facts.spreads.get("sizes")
    yield _spread("store_chain_length", named.labels, chains, CHAIN_BOUNDS)
    yield _spread("store_size_bytes", named.labels, sizes, SIZE_BOUNDS)
    yield from _worst(named.labels, facts)
    if named.every_unit:
        for metric in catalogue.PARTITION:
            yield _of_units(metric.name, named.labels, facts.units, metric.fact)


def _sums(
    one: _One, metrics: Iterable[catalogue.Metric], sums: Mapping[str, float]
) -> Iterator[Family]:
    for metric in metrics:
        if metric.fact:
            yield one(metric.name, sums.get(metric.fact, 0))


def _worst(common: Mapping[str, str], facts: RunFacts) -> Iterator[Family]:
    halted = [
        ({"operator": str(op), "partition": str(part), "store": store}, 1)
        for op, part, store in facts.halted
    ]
    # As above: a series with empty labels if no store is halted.
    none = [({"operator": "", "partition": "", "store": ""}, 0)]
    yield family("halted_store", common, halted or none)
    for name in ("restart_seconds", "chain_length", "bytes"):
        fact = catalogue.BY_NAME[f"partition_{name}"].fact
        yield _of_units(f"worst_partition_{name}", common, facts.worst, fact)


def _of_units(name: str, common: Mapping[str, str], units: Iterable[Unit], field: str) -> Family:
    values = (
        ({"operator": str(unit.operator), "partition": str(unit.partition)}, getattr(unit, field))
        for unit in units
    )
    return family(name, common, values)


def _spread(
    name: str, common: Mapping[str, str], spread: Spread | None, bounds: tuple[float, ...]
) -> Family:
    spread = spread or Spread.of((), bounds)
    metric, labels = catalogue.BY_NAME[name], dict(common)
    bucket, made = f"{metric.full}_bucket", Family(metric.full, metric.question, metric.kind)
    made.samples = [
        *(
            Sample(bucket, {**labels, "le": le}, count)
            for le, count in zip(_les(bounds), accumulate(spread.counts), strict=True)
        ),
        Sample(f"{metric.full}_count", labels, sum(spread.counts)),
        Sample(f"{metric.full}_sum", labels, spread.total),
    ]
    return made


@cache
def _les(bounds: tuple[float, ...]) -> tuple[str, ...]:
    return (*(str(float(bound)) for bound in bounds), "+Inf")


def _verbs(counts: Mapping[str, int]) -> dict[str, Value]:
    """Returns counts by verb, up to the bound; `list` is always present."""
    by_verb: dict[str, Value] = dict(sorted({"list": 0, **counts}.items()))
    if len(by_verb) <= catalogue.MOST_VERBS:
        return by_verb
    kept = [*by_verb][: catalogue.MOST_VERBS - 1]
    other = sum(count or 0 for verb, count in by_verb.items() if verb not in kept)
    return {**{verb: by_verb[verb] for verb in kept}, "other": other}
