"""From the contents of the pages to their HTML: templates, ages, and the runbook's text. Pure."""

import re
from datetime import UTC, datetime
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from statemaint.airflow.texts import size

FOLDER = Path(__file__).parent
# `make generated` copies docs/runbook.md here.
_RUNBOOK = FOLDER / "runbook.md"
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"size": size, "stamp": stamp, "span": span, "span_up": span_up}
    environment.globals |= {"ago": ago, "runbook_of": runbook_of}
    return environment


def ago(then: datetime | None, now: datetime) -> str:
    """Returns the age of a time: `just now`, `5 min ago`, `3 h ago`, `2 days ago`."""
    if then is None:
        return "never"
    seconds = (now - then).total_seconds()
    return "just now" if seconds < _MINUTE else f"{span(seconds)} ago"


def ahead(then: datetime, now: datetime) -> str:
    seconds = (then - now).total_seconds()
    return "due" if seconds <= 0 else f"in {span(seconds)}"


def span(seconds: float) -> str:
    """Returns a duration, rounded down: `12 s`, `5 min`, `3 h`, `1 day`, `2 days`."""
    whole = max(int(seconds), 0)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min"
    if whole < _DAY:
        return f"{whole // _HOUR} h"
    days = whole // _DAY
    return f"{days} day{'s' * (days > 1)}"


def span_up(seconds: float) -> str:
    """Returns a duration, rounded up: `1 s`, `2 min`."""
    unit = next((unit for unit in (_DAY, _HOUR, _MINUTE) if seconds >= unit), 1)
    return span(ceil(seconds / unit) * unit)


def stamp(then: datetime | float | None) -> str:
    """Returns a time in UTC, also of seconds since the epoch; empty without one."""
    if isinstance(then, int | float):
        then = datetime.fromtimestamp(then, UTC)
    return f"{then:%Y-%m-%d %H:%M} UTC" if then else ""


def runbook_of(code: str) -> Markup | None:
    text = _sections().get(code)
    if text is None:
        return None
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    return Markup(markdown.render(text))  # noqa: S704 -- our own text


@cache
def _sections() -> dict[str, str]:
    """Returns the text below each heading of the third level, without links."""
    parts = re.split(r"^### (.+)$", _RUNBOOK.read_text(encoding="utf-8"), flags=re.MULTILINE)
    bodies = (re.split(r"^## ", body, flags=re.MULTILINE)[0] for body in parts[2::2])
    return {
        title.strip(): _LINK.sub(r"\1", body).strip()
        for title, body in zip(parts[1::2], bodies, strict=True)
    }
