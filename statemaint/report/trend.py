"""The trend of a query: a point for each of its last runs, and the worst of each span before. Pure.

A run is a row of the stored trend: its time, its verdict, its figures, and the span that it stands
for. The figures are those of the record (`report.record`); what a run did not look at is null.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from statemaint.listing import LATEST
from statemaint.model.findings import NOTICES
from statemaint.model.verdict import Verdict, worst
from statemaint.report.facts import RunFacts
from statemaint.report.record import LastRun, run_verdict
from statemaint.wording import shortened

RECENT = 200
"""The number of runs with a point of their own: the last ones."""
MOST = 500
"""The number of points: of these rows, whatever their figures, 100 kB."""
# Exact for every reader of JSON, and at most 18 characters.
_LARGEST = 2**53
_SECONDS = ("restart", "seconds", "span")
_SOUND = (Verdict.HEALTHY, Verdict.EMPTY)


class Point(NamedTuple):
    """The figures of a query after a run, or the worst of several; `None` if none looked."""

    time: float  # when the run ended, or the last of several, in seconds since the epoch
    verdict: Verdict
    chain: int | None = None
    bytes: int | None = None
    files: int | None = None
    replay_bytes: int | None = None
    replay_files: int | None = None
    restart: float | None = None  # the most seconds that a restart is forecast to take
    seconds: float | None = None  # how long the run took, or its longest task
    damage: int | None = None  # the number of findings that are damage
    notices: int | None = None  # that of the others
    span: float = 0  # the time from the end of the first of several runs to `time`

    @property
    def begins(self) -> float:
        return self.time - self.span

    @property
    def sound(self) -> bool:
        return self.verdict in _SOUND and not (self.damage or self.notices)


@dataclass(frozen=True, slots=True)
class Trend:
    """The points of a query in the order of time, and the id of the last run among them."""

    points: tuple[Point, ...] = ()
    run: str = ""

    def to_json(self) -> dict[str, Any]:
        rows = [[point.time, point.verdict.value, *point[2:]] for point in self.points]
        return {"v": 1, "run": self.run, "points": rows}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Trend":
        """Returns what `to_json` encoded; a KeyError, TypeError or ValueError if it did not."""
        version, rows = fields["v"], fields["points"]
        if version != 1 or len(rows) > MOST:
            raise ValueError(f"a trend of version {shortened(version)}, of {len(rows)} points")
        points = tuple(map(_point, rows))
        if any(later.time < point.time for point, later in pairwise(points)):
            raise ValueError("a trend out of order")
        return cls(points, str(fields["run"]))


def _point(row: Sequence[Any]) -> Point:
    time, verdict, *figures = row
    numbers = (time, *(figure for figure in figures if figure is not None))
    valid = all(type(number) in {int, float} and 0 <= number <= _LARGEST for number in numbers)
    if not valid or len(row) != len(Point._fields) or figures[-1] is None or time > LATEST:
        raise ValueError(f"{shortened(row)} is not a point")
    named = zip(Point._fields[2:], figures, strict=True)
    known: Any = [None if figure is None else _figure(name, figure) for name, figure in named]
    return Point(time, Verdict(verdict), *known)


def _figure(name: str, number: float) -> Any:
    """Returns a figure of a point: seconds to a thousandth, all others whole."""
    return round(number, 3) if name in _SECONDS else round(number)


def with_run(trend: Trend, last: LastRun) -> Trend:
    """Returns the trend after one more run, or after the last run's report was repeated.

    A run that can say nothing about the query, as a recovery or one without the lease, has no
    point. Where a clock is behind that of the run before, the point has the time of that run.
    """
    point = _point_of(last)
    if point is None:
        return trend
    before = trend.points[:-1] if last.run and last.run == trend.run else trend.points
    if before:
        point = point._replace(time=max(point.time, before[-1].time))
    return replace(trend, points=thinned((*before, point)), run=last.run)


def _point_of(last: LastRun) -> Point | None:
    verdict = run_verdict(last)
    if verdict is None:
        return None
    facts = last.facts or RunFacts()
    # The sums of a run with silent tasks are those of a part of the partitions.
    sums = {} if last.silent else facts.sums
    loads = sums.get("unloadable", 0) < sums.get("stores", 1)
    figures = {
        "chain": facts.highest.get("chain") if loads else None,
        "bytes": sums.get("bytes"),
        "files": sums.get("files"),
        "replay_bytes": sums.get("replayed"),
        "replay_files": sums.get("replayed_files"),
        "restart": facts.restart if loads else None,
        "seconds": facts.highest.get("seconds"),
    }
    if last.facts:
        notices = sum(count for code, count in facts.findings.items() if code in NOTICES)
        figures |= {"damage": sum(facts.findings.values()) - notices, "notices": notices}
    known: Any = {
        name: _figure(name, max(0, min(value, _LARGEST)))
        for name, value in figures.items()
        if value is not None
    }
    return Point(int(last.ended), verdict, **known)


def thinned(
    points: Sequence[Point], *, recent: int = RECENT, most: int = MOST
) -> tuple[Point, ...]:
    """Returns at most `most` points: the `recent` ones as they are, older ones merged.

    The neighbours that together stand for the shortest span are merged first, the oldest of equals.
    """
    older, exact = [*points[: max(len(points) - recent, 0)]], points[-recent:]
    while len(older) > most - recent:
        first = min(
            range(len(older) - 1), key=lambda place: older[place + 1].time - older[place].begins
        )
        older[first : first + 2] = [_worst(*older[first : first + 2])]
    return (*older, *exact)


def _worst(first: Point, second: Point) -> Point:
    """Returns one point for two neighbours: the worst verdict, and the highest of each figure."""
    figures = (
        max((figure for figure in pair if figure is not None), default=None)
        for pair in zip(first[2:-1], second[2:-1], strict=True)
    )
    verdict, span = worst((first.verdict, second.verdict)), second.time - first.begins
    return Point._make((second.time, verdict, *figures, span))
