"""From the contents of the pages to their HTML. Pure."""

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from statemaint.airflow.pages.ages import ago, span, stamp
from statemaint.airflow.pages.runbook import runbook_of
from statemaint.airflow.texts import size

FOLDER = Path(__file__).parent


def render(template: str, **values: Any) -> str:
    """Returns the HTML of a template; every value in it is escaped."""
    return _environment().get_template(template).render(**values)


def _time(seconds: float | None) -> str:
    return "" if seconds is None else stamp(datetime.fromtimestamp(seconds, UTC))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"size": size, "time": _time, "stamp": stamp, "span": span}
    environment.globals |= {"ago": ago, "runbook_of": runbook_of}
    return environment
