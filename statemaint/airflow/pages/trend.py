"""The history of a query: its charts in words, what has changed, a line for its row. Pure."""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Any

from statemaint.airflow.pages.render import span
from statemaint.airflow.texts import size
from statemaint.report.trend import Point

# The box of a line in a row, in units of its drawing.
_WIDE, _HIGH = 90, 18
_MINUTE = 60
_UNITS: dict[str, Callable[[Any], str]] = {
    "number": "{:,}".format,
    "bytes": size,
    "seconds": lambda seconds: f"{seconds:.1f} s" if seconds < _MINUTE else span(seconds),
}
# The title and the unit of each figure of a point.
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
_CHARTS = (("chain",), ("bytes",), ("files",), ("restart",), ("seconds",), ("damage", "notices"))


def history(points: Sequence[Point], verdict: str) -> dict[str, Any] | None:
    """Returns the values of `trend.html` for a query with a verdict; `None` without points.

    `since` is when the last runs began to have that verdict, and `always` whether all of them have
    it. `changes` compares the newest point with the last `sound` one.
    """
    if not points:
        return None
    newest, columns = points[-1], ("time", *_FIGURES)
    streak = [*takewhile(lambda point: point.verdict is newest.verdict, reversed(points))]
    sound = next((point for point in reversed(points) if point.sound), None)
    values: dict[str, Any] = {name: [getattr(point, name) for point in points] for name in columns}
    values["bad"] = [int(point.verdict.mark in {"bad", "warn"}) for point in points]
    return {
        "columns": json.dumps(values),
        "charts": [_chart(names, points) for names in _CHARTS],
        "titles": [title for title, _ in _FIGURES.values()],
        "rows": [(point, [_text(name, point) for name in _FIGURES]) for point in reversed(points)],
        "since": streak[-1].begins if verdict == newest.verdict else None,
        "always": len(streak) == len(points),
        "sound": None if sound is newest else sound,
        "changes": [*_changes(sound, newest)] if sound else [],
    }


def sparkline(chains: Sequence[int | None]) -> tuple[str, str] | None:
    """Returns the SVG path of the longest chains, with gaps where they are unknown, and its text.

    There is `None` with fewer than two known ones.
    """
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
    between = f"{min(known):,} to {max(known):,}, now {newest}"
    return path, f"Longest chain in the last {len(chains)} runs: {between}"


def _chart(names: Sequence[str], points: Sequence[Point]) -> dict[str, Any]:
    """Returns a chart of figures of one unit: what draws it, and what it shows in words."""
    titles, texts = [_FIGURES[name][0] for name in names], [_range(name, points) for name in names]
    if len(names) > 1:
        texts = [f"{title}: {text}" for title, text in zip(titles, texts, strict=True)]
    return {
        "title": titles[0] if len(names) == 1 else "Findings",
        "unit": _FIGURES[names[0]][1],
        "names": names,
        "titles": titles,
        "text": "; ".join(texts),
    }


def _range(name: str, points: Sequence[Point]) -> str:
    known = [point for point in points if getattr(point, name) is not None]
    known.sort(key=lambda point: getattr(point, name))
    if not known:
        return "not known"
    low, high = _text(name, known[0]), _text(name, known[-1])
    return f"{_text(name, points[-1])} now, from {low} to {high}"


def _text(name: str, point: Point) -> str:
    value = getattr(point, name)
    return "?" if value is None else _UNITS[_FIGURES[name][1]](value)


def _changes(sound: Point, newest: Point) -> Iterator[tuple[str, str, str]]:
    if sound.verdict is not newest.verdict:
        yield "Verdict", sound.verdict.value, newest.verdict.value
    for name, (title, _) in _FIGURES.items():
        before, now = _text(name, sound), _text(name, newest)
        if before != now and name != "seconds":  # as long as the run had work
            yield title, before, now
