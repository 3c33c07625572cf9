"""The page that Prometheus scrapes: text of its format, made once for each reading.

The series of a query are kept as text, because those of thousands change rarely, and the page is
kept compressed, as Prometheus requests it.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from prometheus_client.metrics_core import Metric as Family
from prometheus_client.utils import floatToGoString

from statemaint.metrics.catalogue import METRICS

Rows = tuple[str, ...]
"""The samples of some families as text, one element for each metric of the catalogue."""

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_FASTEST, _GZIP = 1, 31


def rows_of(families: Iterable[Family]) -> Rows:
    """Returns the samples of some families, each family of the catalogue once."""
    by_name = {family.name: _lines(family) for family in families}
    return tuple([by_name.get(metric.base, "") for metric in METRICS])


def page_text(several: Sequence[Rows]) -> Iterator[str]:
    """Yields the text of several queries' families, each family once with the series of all."""
    for metric, texts in zip(METRICS, zip(*several, strict=True), strict=True):
        if lines := "".join(texts):
            yield f"# HELP {metric.full} {metric.question}\n# TYPE {metric.full} {metric.kind}\n"
            yield lines


def _lines(family: Family) -> str:
    return "".join(
        [
            f"{sample.name}{_labels(tuple(sample.labels.items()))} {_number(sample.value)}\n"
            for sample in family.samples
        ]
    )


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
        """Yields the page as gzip makes it."""
        packer = self._packer.copy()
        yield from self._pieces
        yield packer.compress(more) + packer.flush()

    def plain(self, more: bytes) -> Iterator[bytes]:
        """Yields the page as text, a family at a time."""
        unpacker = zlib.decompressobj(_GZIP)
        yield from map(unpacker.decompress, self.zipped(more))
