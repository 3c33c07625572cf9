"""The page that Prometheus scrapes: text of its format, made once for each reading.

The series of a query are kept as text, because those of thousands change rarely, and the page is
kept compressed, as Prometheus requests it.

A push must write zeros, because they replace what the last push wrote. The page is a whole picture,
so it leaves out the zeros of which the dashboards know that they are zeros
(`helm/dashboards/promql.py`), and the details of what is well. Everything unknown stays as it is.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

from statemaint.metrics.catalogue import METRICS, PREFIX

Rows = tuple[str, ...]
"""The samples of some families as text, one element for each metric of the catalogue."""

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_FASTEST, _GZIP = 1, 31
# Left out where they are 0. Counters are not among them: increase() needs their beginning.
_ZEROS = {
    "halted_store",
    "last_run_storage_errors",
    "last_run_trash_bytes_deleted",
    "last_run_trash_files_deleted",
    "lease_held_timestamp_seconds",
    "stores_unloadable",
    "stores_unproved",
    "last_verify_failed",
    "trash_files",
}
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


def rows_of(families: Iterable[Family]) -> Rows:
    by_name = {family.name: _lines(family) for family in families}
    return tuple([by_name.get(metric.base, "") for metric in METRICS])


def page_text(several: Sequence[Rows]) -> Iterator[str]:
    """Yields the text of several queries' families, each family once with the series of all."""
    for metric, texts in zip(METRICS, zip(*several, strict=True), strict=True):
        if lines := "".join(texts):
            yield f"# HELP {metric.full} {metric.question}\n# TYPE {metric.full} {metric.kind}\n"
            yield lines


def _lines(family: Family) -> str:
    lines = [
        f"{sample.name}{_labels(tuple(sample.labels.items()))} {_number(sample.value)}\n"
        for sample in family.samples
    ]
    return "".join(lines)


@lru_cache(maxsize=8192)
def _number(value: float) -> str:
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]


@lru_cache(maxsize=256)  # the series of a query follow one another
def _labels(labels: tuple[tuple[str, str], ...]) -> str:
    if not labels:
        return ""
    return "{" + ",".join([f'{key}="{_escaped(value)}"' for key, value in labels]) + "}"


@lru_cache(maxsize=8192)
def _escaped(value: str) -> str:
    return value.translate(_ESCAPES)


class Page:
    """A text that is kept compressed, and continues with what is made for each scrape."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._packer = zlib.compressobj(_FASTEST, wbits=_GZIP)
        self._pieces = [*filter(None, (self._packer.compress(text.encode()) for text in texts))]

    def zipped(self, more: bytes) -> Iterator[bytes]:
        packer = self._packer.copy()
        yield from self._pieces
        yield packer.compress(more) + packer.flush()

    def plain(self, more: bytes) -> Iterator[bytes]:
        unpacker = zlib.decompressobj(_GZIP)
        yield from map(unpacker.decompress, self.zipped(more))


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
