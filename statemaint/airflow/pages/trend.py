"""The history of a query: its charts in words, what has changed, a line for its row. Pure."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from statemaint.airflow.pages.render import span
from statemaint.airflow.texts import size
from statemaint.report.trend import Point, current_streak, last_sound

# The box of a line in a row, in units of its drawing.
_WIDE, _HIGH = 90, 18
_MINUTE = 60


@dataclass(frozen=True, slots=True)
class Sparkline:
    """A small line: its SVG path, with a gap where a value is unknown, and its text."""

    path: str
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of one figure or two: their names and titles, and what it shows in words."""

    title: str
    unit: str
    names: tuple[str, ...]
    titles: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """A figure at the last sound run, and now."""

    title: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class History:
    """The history of a query, as its page shows it.

    Attributes:
        columns: the values of each figure, as JSON.
        titles: the titles of the figures in the rows.
        rows: the points, the newest first, each with the texts of its figures.
        since: when the current verdict was first found; `None` if the history has another one.
        always: whether it is that of the whole history.
        sound: the last run that found nothing; `None` if it is the newest one, or none was.
        changes: what has changed since.
    """

    columns: str
    charts: tuple[Chart, ...]
    titles: tuple[str, ...]
    rows: tuple[tuple[Point, tuple[str, ...]], ...]
    since: float | None
    always: bool
    sound: Point | None
    changes: tuple[Change, ...]


def _number(value: float) -> str:
    return f"{value:,.0f}"


def _lasting(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < _MINUTE else span(seconds)


_UNITS: dict[str, Callable[..., str]] = {"number": _number, "bytes": size, "seconds": _lasting}
_FIGURES = {
    "chain": ("Longest chain", "number"),
    "bytes": ("Size", "bytes"),
    "files": ("Files", "number"),
    "replay_bytes": ("To replay", "bytes"),
    "restart": ("Restart time", "seconds"),
    "seconds": ("Run length", "seconds"),
    "damage": ("Damage", "number"),
    "notices": ("Notices", "number"),
}
# Two figures share a chart.
_CHARTS = {
    **{_FIGURES[name][0]: (name,) for name in ("chain", "bytes", "files", "restart", "seconds")},
    "Findings": ("damage", "notices"),
}


def history(points: Sequence[Point], verdict: str) -> History | None:
    """Returns the history of a query whose page shows a verdict; `None` without points."""
    if not points:
        return None
    newest, streak, sound = points[-1], current_streak(points), last_sound(points)
    columns = {name: [getattr(point, name) for point in points] for name in ("time", *_FIGURES)}
    bad = [int(point.verdict.mark in {"bad", "warn"}) for point in points]
    sound = None if sound is newest else sound
    return History(
        columns=json.dumps({**columns, "bad": bad}),
        charts=tuple(_chart(title, names, points) for title, names in _CHARTS.items()),
        titles=tuple(title for title, _ in _FIGURES.values()),
        rows=tuple((point, _texts(point)) for point in reversed(points)),
        since=streak[0].begins if verdict == newest.verdict else None,
        always=len(streak) == len(points),
        sound=sound,
        changes=_changes(sound, newest) if sound else (),
    )


def sparkline(chains: Sequence[int | None]) -> Sparkline | None:
    """Returns the line of the longest chains; `None` with fewer than two known ones."""
    known = [chain for chain in chains if chain is not None]
    if len(known) < 2:  # noqa: PLR2004 -- a line has two ends
        return None
    across, up = _WIDE / (len(chains) - 1), (_HIGH - 2) / (max(known) or 1)
    path, move = "", "M"
    for place, chain in enumerate(chains):
        if chain is not None:
            path += f"{move}{place * across:.0f} {_HIGH - 1 - chain * up:.0f}"
        move = "M" if chain is None else "L"
    newest = "unknown" if chains[-1] is None else f"{chains[-1]:,}"
    label = (
        f"Longest chain in the last {len(chains)} runs: "
        f"{min(known):,} to {max(known):,}, now {newest}"
    )
    return Sparkline(path, label)


def _chart(title: str, names: tuple[str, ...], points: Sequence[Point]) -> Chart:
    titles, unit = tuple(_FIGURES[name][0] for name in names), _FIGURES[names[0]][1]
    texts = [_range(name, points) for name in names]
    if len(names) > 1:
        texts = [f"{each}: {text}" for each, text in zip(titles, texts, strict=True)]
    return Chart(title, unit, names, titles, "; ".join(texts))


def _range(name: str, points: Sequence[Point]) -> str:
    values = [getattr(point, name) for point in points]
    known = [value for value in values if value is not None]
    if not known:
        return "not known"
    shown = _UNITS[_FIGURES[name][1]]
    return f"{_text(name, points[-1])} now, from {shown(min(known))} to {shown(max(known))}"


def _texts(point: Point) -> tuple[str, ...]:
    return tuple(_text(name, point) for name in _FIGURES)


def _text(name: str, point: Point) -> str:
    value = getattr(point, name)
    return "?" if value is None else _UNITS[_FIGURES[name][1]](value)


def _changes(sound: Point, newest: Point) -> tuple[Change, ...]:
    figures = {"verdict": ("Verdict", sound.verdict.value, newest.verdict.value)} | {
        name: (title, _text(name, sound), _text(name, newest))
        for name, (title, _) in _FIGURES.items()
        if name != "seconds"
    }
    return tuple(Change(*texts) for texts in figures.values() if texts[1] != texts[2])
