"""The series of a query that the exporter serves: for a healthy one, those that say something.

A push must write zeros, because they replace what the last push wrote. The exporter serves a whole
picture, so it leaves out the zeros of which the dashboards know that they are zeros
(`helm/dashboards/promql.py`), and the details of what is well. Everything unknown stays as it is.
"""

from collections.abc import Iterable, Iterator

from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Sample

from statemaint.metrics.catalogue import PREFIX

# Left out where they are 0. Counters are not among them: increase() needs their beginning.
_ZEROS = frozenset(
    (
        "halted_store",
        "last_run_storage_errors",
        "last_run_trash_bytes_deleted",
        "last_run_trash_files_deleted",
        "lease_held_timestamp_seconds",
        "stores_unloadable",
        "stores_unproved",
        "last_verify_failed",
        "trash_files",
    )
)
# Of these one series is always there, and the others where they are not 0.
_ALWAYS = {
    "last_run_failed": "storage",  # alerts count the queries of a storage by it
    "last_run_files_deleted": "below_base",
    "last_run_tasks": "reported",
    "runs": "succeeded",
    "snapshots_withheld": "max_seconds_per_run",
    "stores": "halted",
}
_BOUNDS = {
    "store_chain_length": ("10.0", "200.0", "+Inf"),
    "store_size_bytes": ("67108864.0", "+Inf"),
    "task_seconds": ("900.0", "+Inf"),
}
_WORST = "worst_partition_"
# Beyond the first, a partition is served if its restart takes longer, or does not end.
_SLOW_SECONDS, _LONG_CHAIN = 30.0, 50.0


def served(families: Iterable[Family]) -> Iterator[Family]:
    """Removes the series that a healthy query need not have, and yields its families."""
    whole = [*families]
    bad = _bad_partitions(whole)
    for family in whole:
        name = family.name.removeprefix(PREFIX)
        family.samples = [*_kept(name, family.samples, bad)]
        yield family


def _kept(name: str, samples: list[Sample], bad: set[str]) -> Iterable[Sample]:
    if name in _ZEROS:
        return (sample for sample in samples if sample.value != 0)
    if name in _ALWAYS:
        return (x for x in samples if x.value != 0 or _ALWAYS[name] in x.labels.values())
    if name in _BOUNDS:
        return (sample for sample in samples if sample.labels.get("le") in _BOUNDS[name])
    if name.startswith(_WORST):
        first = samples[:1]
        return first + [sample for sample in samples[1:] if _partition(sample) in bad]
    if name == "last_run_storage_requests" and samples:
        total = sum(sample.value for sample in samples)
        return [Sample(samples[0].name, {**samples[0].labels, "verb": "all"}, total)]
    return samples


def _bad_partitions(families: Iterable[Family]) -> set[str]:
    limits = {f"{_WORST}restart_seconds": _SLOW_SECONDS, f"{_WORST}chain_length": _LONG_CHAIN}
    return {
        _partition(sample)
        for family in families
        if (limit := limits.get(family.name.removeprefix(PREFIX))) is not None
        for sample in family.samples
        if not sample.value <= limit  # NaN: it does not load
    }


def _partition(sample: Sample) -> str:
    return f"{sample.labels['operator']}/{sample.labels['partition']}"
