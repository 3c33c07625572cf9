"""The figures of a checkpoint's state, as `stats` returns them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import unique
from functools import reduce
from operator import add

from statemaint.model.ids import StoreId, batch_of
from statemaint.state.churn import Churn
from statemaint.wording import Displayed, Explained, counted


@unique
class NoticeCode(Explained):
    """The kinds of notices; none of them is damage."""

    NEVER_REMOVES = (
        "never_removes",
        "ten versions or more, with keys added in the newer half too, and none ever removed",
    )
    SKEWED = (
        "skewed",
        "the largest partition has three times the mean or more, and a thousand rows or more",
    )


@dataclass(frozen=True, slots=True)
class Notice:
    """An observation that is worth a look."""

    code: NoticeCode
    operator: int
    store: str | None
    family: str | None
    detail: str


@dataclass(frozen=True, slots=True)
class LargeKey:
    """A key that takes a lot of space: its readable columns, and its size as stored."""

    store: StoreId
    family: str | None
    key: dict[str, object]
    bytes: int


@dataclass(frozen=True, slots=True)
class Figures:
    """The numbers of a store, of one of its column families, or of several together.

    Attributes:
        versions: the number of versions of the log, the most of any store.
        churn: the changes by the log; `None` if a store no longer has a log.
        untouched: rows that no version above the requested one has put; `None` as for churn.
    """

    rows: int = 0
    bytes: int = 0
    versions: int = 0
    churn: Churn | None = field(default_factory=Churn)
    untouched: int | None = 0

    def __add__(self, other: "Figures") -> "Figures":
        churns, untouched = (self.churn, other.churn), (self.untouched, other.untouched)
        return Figures(
            self.rows + other.rows,
            self.bytes + other.bytes,
            max(self.versions, other.versions),
            None if None in churns else reduce(add, filter(None, churns)),
            None if None in untouched else sum(filter(None, untouched)),
        )

    @property
    def untouched_share(self) -> float | None:
        return self.untouched / self.rows if self.rows and self.untouched is not None else None

    @property
    def changes_per_version(self) -> float | None:
        return self.churn.changes / self.versions if self.churn and self.versions else None


@dataclass(frozen=True, slots=True)
class StoreStats:
    """A store, or one of its column families; `largest` is in descending order of size."""

    store: StoreId
    family: str | None
    figures: Figures
    largest: tuple[LargeKey, ...]


@dataclass(frozen=True, slots=True)
class Skew:
    """How uneven the partitions of an operator are."""

    partition: int
    rows: int
    mean: float

    @property
    def ratio(self) -> float | None:
        return self.rows / self.mean if self.mean else None


@dataclass(frozen=True, slots=True)
class OperatorStats:
    """All requested stores of an operator; `largest` is in descending order of size."""

    operator: int
    figures: Figures
    skew: Skew
    largest: tuple[LargeKey, ...]


@dataclass(frozen=True, slots=True, repr=False)
class StateStats(Displayed):
    """The statistics of a checkpoint's state at its newest committed version.

    `since` is the version since which untouched keys were not put; `None` without any log.
    """

    version: int
    since: int | None
    operators: tuple[OperatorStats, ...]
    stores: tuple[StoreStats, ...]
    notices: tuple[Notice, ...]

    def _facts(self) -> Iterator[str]:
        yield f"batch {batch_of(self.version)}"
        yield counted(len(self.operators), "operator")
        yield counted(sum(operator.figures.rows for operator in self.operators), "row")
        yield counted(len(self.notices), "notice")

    def _rows(self) -> Iterator[dict[str, object]]:
        for operator in self.operators:
            figures = operator.figures
            yield {"operatorId": operator.operator, "rows": figures.rows, "bytes": figures.bytes}
