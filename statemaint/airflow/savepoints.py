"""The tasks of the DAG of a query's savepoints: `savepoint` makes one, `expire` deletes old ones.

Where they are and which are kept is in the queries file. What was made does not depend on `expire`,
which does not run after a savepoint that failed.
"""

import logging
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from airflow.sdk import get_current_context

from statemaint.airflow.connections import opener
from statemaint.airflow.endings import errors_end, fail, form_values, our_task, skip
from statemaint.airflow.links import add_links
from statemaint.airflow.names import SAVED
from statemaint.airflow.publish import published, reporting
from statemaint.airflow.settings import QuerySettings
from statemaint.airflow.texts import size
from statemaint.errors import CheckpointError
from statemaint.queries.checks import absolute_address
from statemaint.queries.models import SavepointSettings
from statemaint.report.record import LastSavepoint, Record
from statemaint.report.task import Failure, named
from statemaint.savepoint import SavepointReport, savepoint
from statemaint.savepoint.catalog import Savepoint, SavepointState, list_savepoints, problems
from statemaint.savepoint.expiry import without_expired
from statemaint.savepoint.keep import decide
from statemaint.savepoint.plan import committed_batches
from statemaint.savepoint.report import note_in_record
from statemaint.wording import counted

_log = logging.getLogger(__name__)
# How far the clock of a storage may be behind Airflow's.
_SKEW = timedelta(minutes=5).total_seconds()


@dataclass(frozen=True, slots=True)
class SavepointOptions:
    """The options of one run, from its form."""

    batch: int | None = None
    new_id: bool = False
    to: str | None = None
    dry_run: bool = False


def savepoint_tasks(settings: QuerySettings, where: SavepointSettings, waits: timedelta) -> None:
    """Adds the tasks to the current DAG; each waits so long for the lease of another run."""
    ends = partial(errors_end, waits, settings.connection)

    @our_task(
        "savepoint",
        "Makes a checkpoint from which the query would continue after its newest batch.",
    )
    def save() -> dict[str, Any]:
        context = get_current_context()
        ti, run = context["ti"], context["dag_run"]
        options = SavepointOptions(**form_values(SavepointOptions.__slots__))
        repeated = run.start_date if ti.try_number > 1 else None
        since = repeated.timestamp() - _SKEW if repeated else None
        with reporting(settings, 0, verb="savepoint") as progress, ends():
            report, newest = saved(settings, where, options, since=since)
            _log.info(_line(report))
            if options.dry_run:
                skip("expire")
            progress.add(snapshots_written=report.stores, bytes_written=report.written)
        if newest:
            ti.xcom_push(SAVED, asdict(newest))
        made = {"savepoint": report.dest, "batch": report.note.batch, "bytes": report.written}
        return {"checkpoint": settings.checkpoint, **made}

    @our_task("expire", "Lists the savepoints, and deletes those that no rule keeps.")
    def expire() -> dict[str, Any]:
        with reporting(settings, "expire", verb="savepoint") as progress, ends():
            listed = expired(settings, where)
            for found in listed:
                _log.info("%s: %s", found.address, _fate(found))
            deleted = [found for found in listed if found.left is not None]
            sizes = [entry.size for found in deleted for entry in found.named]
            progress.add(files_deleted=len(sizes), bytes_deleted=sum(sizes))
            if wrong := [*problems(listed)]:
                fail(Failure(f"{CheckpointError.code}: {named(wrong, '; ')}"))
        return {"savepoints": len(listed), "deleted": [found.address for found in deleted]}

    made: Any = save()
    cleaned: Any = expire()
    made >> cleaned
    add_links(made, cleaned, query=settings.query)


def saved(
    settings: QuerySettings,
    where: SavepointSettings,
    options: SavepointOptions,
    *,
    since: float | None = None,
) -> tuple[SavepointReport, LastSavepoint | None]:
    """Makes a savepoint; returns it, and what the record and the metrics then have of it.

    Another attempt at a run that began `since` completes what was begun from then on.
    """
    opened, batch = opener(settings.connection), options.batch
    source, dest = opened(settings.checkpoint), options.to and absolute_address(options.to.strip())
    if batch is None and not dest:
        batches = committed_batches(source)
        folder = where.folder(settings.query)
        listed = list_savepoints(folder, source=source.root, opened=opened) if since else ()
        unfinished = (each for each in listed if each.state is SavepointState.UNFINISHED)
        notes = [each.note for each in unfinished if each.note]
        begun = {note.batch for note in notes if since and note.begun >= since}
        batch = max(begun & {*batches}, default=max(batches, default=0))
    target = opened(dest or where.address(settings.query, batch or 0))
    new_id, dry_run = options.new_id, options.dry_run
    report = savepoint(source, target, batch=batch, new_id=new_id, dry_run=dry_run)
    newest = note_in_record(source, report)
    if newest:
        # Other metrics stay as the query's last run has them.
        published(settings, Record(None, savepoint=newest))
    return report, newest


def expired(settings: QuerySettings, where: SavepointSettings) -> tuple[Savepoint, ...]:
    """Returns the savepoints of a query; those that no rule keeps, as they are once deleted."""
    opened, folder = opener(settings.connection), where.folder(settings.query)
    listed = list_savepoints(folder, source=opened(settings.checkpoint).root, opened=opened)
    if not where.keep:
        return listed
    rules = {str(rule): count for rule, count in where.keep.items()}
    return without_expired(decide(listed, rules, opened(folder).now()), folder, opened=opened)


def _line(report: SavepointReport) -> str:
    batch, stores = report.note.batch, counted(report.stores, "store")
    if report.dry_run:
        return f"DRY RUN: would save batch {batch} to {report.dest}: {stores}, {size(report.read)}"
    return f"batch {batch} is saved: {report.dest} has {stores} in {size(report.written)}"


def _fate(found: Savepoint) -> str:
    if found.left is not None:
        return "deleted in part" if found.left else "deleted"
    kept = "" if found.kept is None else f", kept as {' '.join(found.kept)}"
    return f"{found.state.value}, {size(found.bytes)}{kept}"
