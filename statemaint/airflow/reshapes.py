"""The work of the DAG that saves a query in another shape: shown first, and carried out."""

from collections.abc import Iterator, Mapping
from typing import Any

from statemaint.airflow.connections import opener
from statemaint.airflow.recoveries import Applied, Shown, shown
from statemaint.airflow.settings import QuerySettings
from statemaint.airflow.texts import size
from statemaint.errors import ConfigError
from statemaint.queries.checks import absolute_address
from statemaint.records.savepoints import PROVIDERS, SAME, Shape
from statemaint.savepoint import SavepointReport, savepoint
from statemaint.wording import counted


def shape_shown(settings: QuerySettings, form: Mapping[str, Any]) -> Shown:
    """Returns what a savepoint in another shape would take; it reads all of the state."""
    report = _saved(settings, form, dry_run=True)
    places, changes = f"`{report.note.source}` to `{report.dest}`", ", ".join(report.note.changes)
    head = f"**savepoint of {places}**: {changes}; of the batch that is the newest then."
    return shown(head, [*_lines(report)], {"to": report.dest}, None)


def reshaped(settings: QuerySettings, form: Mapping[str, Any]) -> Applied:
    """Makes the savepoint that was shown; its log has the lines of code that start from it."""
    report = _saved(settings, form, dry_run=False)
    saved = {"savepoint": report.dest, "batch": report.note.batch, "code": [*report.code]}
    log = f"{report.dest} has batch {report.note.batch}; start the query from it by this code:"
    figures = {"snapshots_written": report.stores, "bytes_written": report.written}
    return Applied(saved, "\n".join((log, *report.code)), None, figures)


def _saved(settings: QuerySettings, form: Mapping[str, Any], *, dry_run: bool) -> SavepointReport:
    provider = PROVIDERS[form["provider"]] if form["provider"] else None
    others = {name: form[name] for name in ("partitions", "ids", "codec")}
    shape, opened = Shape(provider=provider, **others), opener(settings.connection)
    if shape == SAME:
        raise ConfigError("the form has no other shape: choose partitions, provider, ids or codec")
    try:
        to = absolute_address(form["to"].strip())
    except ValueError as error:
        raise ConfigError(f"to: {error}") from None
    return savepoint(opened(settings.checkpoint), opened(to), shape=shape, dry_run=dry_run)


def _lines(report: SavepointReport) -> Iterator[str]:
    for one in report.operators:
        skew = (
            f"{of.partitions} partitions (largest {size(of.largest)}, median {size(of.median)})"
            for of in (one.before, one.after)
        )
        rows = f"{counted(one.rows, 'row')} ({size(one.bytes)})"
        takes = f"at most {size(one.memory)} of memory, {size(one.spill)} on disk"
        yield f"operator {one.operator}: {rows}, from {' to '.join(skew)}; {takes}"
