"""The record of a query's maintenance in storage, and its trend, to which each run is added.

Whoever may write maintains them: every verb of the program that does, Spark's driver, and Airflow's
`report`, verification and recoveries. A dry run never does.
"""

import json
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol, TypeVar

from statemaint.errors import (
    CodecError,
    ConfigError,
    DamagedError,
    NotACheckpointError,
    NotFoundError,
    RefusedLinkError,
    StatemaintError,
    StorageError,
    Superseded,
)
from statemaint.model.findings import FindingCode
from statemaint.model.verdict import Looked, Verdict
from statemaint.records.runs import METRICS, TREND, new_run_id
from statemaint.records.trashed import size_of_trash
from statemaint.report.facts import RunFacts
from statemaint.report.record import (
    Cause,
    LastRun,
    LastSavepoint,
    LastVerification,
    Record,
    next_record,
    run_ended,
    with_emptied,
    with_part,
    with_verdict,
)
from statemaint.report.run import Emptied, Report
from statemaint.report.task import BundleReport, PlanSummary
from statemaint.report.trend import Trend
from statemaint.report.trend import with_run as trend_with_run
from statemaint.scan.identity import must_be_checkpoint
from statemaint.storage import Storage
from statemaint.storage.base import must_be_small
from statemaint.wording import shortened

_REFUSALS = {kind.code for kind in (ConfigError, NotACheckpointError, Superseded, RefusedLinkError)}

_log = logging.getLogger(__name__)
_MOST_OF_TREND = 1 << 20  # ten times what is written
_INVALID = (CodecError, KeyError, TypeError, ValueError, AttributeError, RecursionError)


class Recovered(Protocol):
    """The result of a repair, a rollback or an undo.

    `record_id` is empty if nothing was done; it is `incomplete` if damage remains, or files stay in
    the trash; `work` is what it wrote and moved to the trash.
    """

    @property
    def record_id(self) -> str: ...
    @property
    def incomplete(self) -> bool: ...
    @property
    def work(self) -> RunFacts: ...


_Recovered = TypeVar("_Recovered", bound=Recovered)


def read_record(storage: Storage) -> Record | None:
    """Returns the record; `None` if there is none, or only one of another build."""
    try:
        return record_in(storage.read(METRICS))
    except NotFoundError:
        return None
    except CodecError as error:
        _log.warning("%s is not a record: %s", METRICS, error)
        return None


def record_in(content: bytes) -> Record | None:
    try:
        return Record.from_json(json.loads(content))
    except _INVALID as error:
        _log.warning("%s is not a record of this version: %s", METRICS, error)
        return None


def write_record(storage: Storage, record: Record) -> None:
    storage.replace(METRICS, [json.dumps(record.to_json()).encode() + b"\n"])


def read_trend(storage: Storage) -> Trend:
    """Returns the trend; an empty one if there is none, or only one of another build."""
    try:
        content = storage.read(TREND)
        must_be_small(len(content), TREND, _MOST_OF_TREND)
        return Trend.from_json(json.loads(content))
    except NotFoundError:
        return Trend()
    except _INVALID as error:
        _log.warning("%s is not a trend of this version: %s", TREND, shortened(error, 200))
        return Trend()


def note_in_trend(storage: Storage, last: LastRun) -> None:
    """Adds the end of a run to the trend; a failure is only logged."""
    try:
        before = read_trend(storage)
        after = trend_with_run(before, last)
        if after != before:
            content = json.dumps(after.to_json(), separators=(",", ":"))
            storage.replace(TREND, [content.encode() + b"\n"])
    except StatemaintError as error:
        _log.warning("the run is not in the trend: %s", error)


def with_run(storage: Storage, before: Record | None, last: LastRun) -> Record:
    if size := trash_size(storage):
        last = replace(last, trash_files=size[0], trash_bytes=size[1])
    return next_record(before, last)


def may_record(storage: Storage, before: Record | None, last: LastRun) -> bool:
    """Returns whether a run's end may be written: not where nobody has seen a checkpoint.

    The storage of a mistyped address may fail before that is known.
    """
    if before or last.facts or last.work:
        return True
    try:
        must_be_checkpoint(storage)
    except StatemaintError:
        return False
    return True


def note_run(storage: Storage, last: LastRun, *, part: bool = False, trend: bool = True) -> None:
    """Adds the end of a run to the record, and to the trend if it may have a point there.

    One of a part has none. A failure is only logged.
    """
    try:
        before = read_record(storage)
        if may_record(storage, before, last):
            after = with_part(before, last) if part else with_run(storage, before, last)
            write_record(storage, after)
            if trend and not part:
                note_in_trend(storage, last)
    except StorageError as error:
        # A run whose storage failed is reported as that, and a mistyped address as no checkpoint.
        known = Cause.STORAGE in last.failed or not may_record(storage, None, last)
        level = logging.INFO if known else logging.WARNING
        _log.log(level, "the run is not in the metrics: %s", error)


def recorded(
    storage: Storage, work: Callable[[], Report], *, every_unit: bool = False, part: bool = False
) -> Report:
    """Returns the report of a run in one task, and adds its end to the record, also if it fails.

    A run of a `part` of the partitions counts in the totals alone: its figures are not the query's.
    """
    with _failures_noted(storage, part=part):
        report = work()
    note_run(storage, _ended(report, every_unit=every_unit), part=part)
    return report


def recorded_recovery(storage: Storage, recover: Callable[[], _Recovered]) -> _Recovered:
    """Returns the result of a recovery, and adds its end to the record, also if it fails."""
    began, sent = storage.now(), Counter(storage.requests)
    with _failures_noted(storage, recovery=True):
        done = recover()
    ended = storage.now()
    cost = RunFacts(
        highest={"seconds": ended - began},
        counts={"requests": dict(Counter(storage.requests) - sent)},
    )
    causes = (Cause.DAMAGE,) if done.incomplete else ()
    run = done.record_id or new_run_id(ended)
    note_run(storage, LastRun(run, ended, causes, tasks=1, work=done.work + cost))
    return done


@contextmanager
def _failures_noted(
    storage: Storage, *, part: bool = False, recovery: bool = False
) -> Iterator[None]:
    """Adds the end of a run that fails before it has looked at the stores.

    A rollback that is refused for damage has looked: it says nothing of the newest batch.
    """
    try:
        yield
    except StatemaintError as error:
        if not is_refusal(error.code):
            now, failure = storage.now(), f"{error.code}: {error}"
            last = run_ended(new_run_id(now), 0, (), PlanSummary(), ended=now, failure=failure)
            if recovery and isinstance(error, DamagedError):
                last = replace(last, work=RunFacts())
            note_run(storage, last, part=part, trend=not recovery)
        raise


def is_refusal(code: str | None) -> bool:
    """Returns whether an error's code is that of a refused run, which tells nothing of the query.

    Its arguments, its plan or its address are wrong. A run that was refused for a link among our
    files writes nothing there, not even this (S24).
    """
    return code in _REFUSALS


def _ended(report: Report, *, every_unit: bool) -> LastRun:
    plan, alone = report.plan, replace(report, emptied=Emptied())
    part = BundleReport.of(alone, "", plan.target, every_unit=every_unit)
    if plan.target is None:
        part = replace(part, facts=None)  # there is nothing yet that a restart would load
    committed, ended = PlanSummary(committed=plan.committed), report.started + report.seconds
    last = run_ended(report.run, 1, [part], committed, ended=ended)
    return with_emptied(last, report.emptied)


def note_verification(
    storage: Storage,
    codes: Collection[str],
    *,
    healthy: bool,
    verdict: Verdict,
    looked: Looked,
    sampled: bool = False,
) -> None:
    """Adds the result of a verification to the record; a failure is only logged.

    With a link among our files, nothing is written there (S24). If only some partitions were
    `sampled`, the verdict can only be made worse.
    """
    if FindingCode.REFUSED_LINK in codes:
        return
    verified = LastVerification(ended=storage.now(), healthy=healthy)

    def noted(record: Record) -> Record:
        judged = with_verdict(record, looked, verdict, partial=sampled)
        return replace(judged, verified=verified)

    _note(storage, "verification", noted)


def note_savepoint(storage: Storage, savepoint: LastSavepoint) -> None:
    _note(storage, "savepoint", lambda record: replace(record, savepoint=savepoint))


def _note(storage: Storage, what: str, noted: Callable[[Record], Record]) -> None:
    try:
        write_record(storage, noted(read_record(storage) or Record(None)))
    except StorageError as error:
        level = logging.INFO if error.lasting else logging.WARNING  # it needs rights to read only
        _log.log(level, "the %s is not in the metrics: %s", what, error)


def trash_size(storage: Storage) -> tuple[int, int] | None:
    """Returns the number of files in the trash and their bytes; `None` when it is not known."""
    try:
        return size_of_trash(storage)
    except StorageError as error:
        _log.warning("the trash is not counted: %s", error)
        return None
