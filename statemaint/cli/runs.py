"""`runs`: the runs that changed a checkpoint."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import click

from statemaint.cli import tables
from statemaint.cli.options import as_json, uri
from statemaint.cli.output import show
from statemaint.maintain import Run, list_runs
from statemaint.storage import open_storage


@click.command("runs")
@uri
@as_json
def runs_verb(uri: str, *, as_json: bool) -> None:
    """List the runs that changed a checkpoint, the newest first, and which were undone.

    An undo is a run as well. The column `undo` says whether a run can be undone (yes or no), was
    undone (done, or partly where files stay in the trash), or is an undo itself. The lines below
    the table say when a run was undone, and by which run.
    """
    found = list_runs(open_storage(uri))
    show(runs_json(found), as_json=as_json, table=lambda: tables.runs(found))


def runs_json(runs: Iterable[Run]) -> dict[str, Any]:
    """Returns what `runs --json` prints."""
    return {"runs": [asdict(run) for run in runs]}
