"""`doctor`: whether the query can restart, in a dozen lines."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, astuple
from typing import Any

import click
from rich.filesize import decimal

from statemaint.audit import Diagnosis, doctor
from statemaint.cli import tables
from statemaint.cli.fleet import Fleet, Row, of_many
from statemaint.cli.options import ADDRESS, POSITIVE, as_json, uri, workers_flag
from statemaint.cli.output import Json, print_json, settings
from statemaint.cli.progress import work_done
from statemaint.cli.tables import Column, number
from statemaint.codec.metadata.event_log import PastRestart
from statemaint.errors import ConfigError
from statemaint.model.checkpoint import Provider
from statemaint.model.ids import batch_of
from statemaint.model.restart_time import SLOTS, Load, replay_of_chain
from statemaint.model.verdict import Looked
from statemaint.report.to_json import fields_json, findings_json, id_json, verdict_json
from statemaint.storage import ReadOnly, is_file, open_storage
from statemaint.wording import counted

_SHOWN = 3  # the kinds of damage of which the first finding is shown
_LABEL = 10


@click.command("doctor")
@uri
@click.option("--deep", is_flag=True, help="Check as deeply as `verify --deep`.")
@click.option(
    "--slots",
    type=POSITIVE,
    help=f"Total task slots of the executors.  [default: those in the event logs, or {SLOTS}]",
)
@click.option(
    "--event-log",
    metavar="URI",
    type=ADDRESS,
    help="Folder of the event logs of the query's Spark: its past restarts correct the forecast.",
)
@workers_flag
@as_json
@of_many(lambda: FLEET)
def doctor_verb(uri: str, **options: Any) -> None:
    """Report in a dozen lines whether the query can restart, from which batch, and what to do.

    Decodes every file of each retained version. The exit code is 3 if anything is damaged, as for
    `verify`.
    """
    with work_done("checking"):
        diagnosis = _diagnosis(uri, **options)
    if settings().as_json:
        print_json(doctor_json(diagnosis))
    else:
        restart, *others = lines(diagnosis)
        for line in (restart, f"verdict:  {diagnosis.verdict}", *others):
            style = tables.STYLES[diagnosis.verdict.mark] if line.startswith("verdict") else ""
            tables.print_labelled(line[:_LABEL], line[_LABEL:], style)
    sys.exit(diagnosis.verdict.exit_code)


def _diagnosis(uri: str, *, event_log: str | None, **options: Any) -> Diagnosis:
    if event_log and is_file(event_log):
        raise ConfigError(f"{event_log}: it is a file; give the folder of the event logs")
    logs = ReadOnly(open_storage(event_log)) if event_log else None
    return doctor(open_storage(uri), event_logs=logs, **options)


def doctor_json(diagnosis: Diagnosis) -> Json:
    return {
        "checkpoint": diagnosis.checkpoint.root,
        **verdict_json(diagnosis.verdict, diagnosis.looked),
        **fields_json(diagnosis, "restarts restarts_since"),
        "passed_over": list(diagnosis.passed_over),
        "last_committed_batch": diagnosis.checkpoint.committed,
        "loadable_batches": list(diagnosis.loadable),
        "goes_back_to": diagnosis.goes_back_to,
        "longest_chain": _chain_json(diagnosis),
        "restart_estimate": None,  # fields stay (docs/stability.md); it is not measured any more
        "restart_forecast": _forecast_json(diagnosis),
        "unseen": list(diagnosis.unseen),
        "damage": {code.value: count for code, count in sorted(diagnosis.counts.items())},
        "next": list(diagnosis.next),
        "findings": findings_json(diagnosis.findings),
    }


def _chain_json(diagnosis: Diagnosis) -> Json | None:
    if diagnosis.chain is None or diagnosis.longest is None:
        return None
    return {
        **id_json(diagnosis.longest.id),
        "deltas": len(diagnosis.chain.deltas),
        "files": len(diagnosis.chain.paths),
        "bytes": replay_of_chain(diagnosis.longest, diagnosis.chain).bytes,
        "seconds": None,  # as above
    }


def _forecast_json(diagnosis: Diagnosis) -> Json | None:
    if (load := diagnosis.load) is None:
        return None
    forecast = diagnosis.forecast
    return {
        **fields_json(forecast, "spark slots"),
        "seconds": astuple(forecast.seconds(load)),
        "seconds_warm": astuple(forecast.seconds(load, warm=True)),
        "seconds_after_maintain": astuple(forecast.seconds(diagnosis.load_after)),
        "past_restarts": [asdict(restart) for restart in diagnosis.past or ()],
        "percent": forecast.percent,
        **asdict(load.total),
    }


def lines(diagnosis: Diagnosis) -> Iterator[str]:
    yield f"restart:  {_restart(diagnosis)}"
    yield f"batches:  {_batches(diagnosis)}"
    yield f"chain:    {_chain(diagnosis)}"
    if load := diagnosis.load:
        yield f"time:     {_time(load, diagnosis)}"
    if diagnosis.past is not None:
        yield f"past:     {_past(diagnosis.past, diagnosis)}"
    unseen = f"; unseen: {'; '.join(diagnosis.unseen)}" if diagnosis.unseen else ""
    yield f"looked:   {_depth(diagnosis)}{unseen}"
    counts = ", ".join(f"{code} ({number})" for code, number in sorted(diagnosis.counts.items()))
    yield f"damage:   {counts or 'none'}"
    first = {finding.code: finding for finding in reversed(diagnosis.findings) if finding.damage}
    for finding in sorted(first.values())[:_SHOWN]:
        yield f"          {finding.detail}"
    for place, text in enumerate(diagnosis.next):
        yield f"{'' if place else 'next:':<10}{text}"


def _restart(diagnosis: Diagnosis) -> str:
    if diagnosis.unread:
        return f"unknown: {counted(diagnosis.unread, 'store')} could not be read"
    if not diagnosis.restarts:
        return f"NO: {_why_not(diagnosis)}"
    version = diagnosis.checkpoint.resumes
    if version is None:
        return "yes, from the beginning: nothing is committed yet"
    where = f"after batch {batch_of(version)} (state version {version})"
    if diagnosis.restarts_since:
        first, *others = diagnosis.passed_over or ("",)
        more = f" and {len(others)} more" if others else ""
        over = f", passing over {first}{more}" if first else ""
        since = diagnosis.restarts_since
        return f"yes with Spark {since} and later, {where}{over}; NO with older ones"
    if diagnosis.misplaced:
        return f"yes, {where}, but with rows out of place"
    doubt = ", with wrong rows if the file that does not fit its checksum is wrong"
    return f"yes, {where}{doubt if diagnosis.doubtful else ''}"


def _why_not(diagnosis: Diagnosis) -> str:
    if blocker := next(diagnosis.blockers, None):
        return blocker.code
    batch = batch_of(diagnosis.checkpoint.resumes or 0)
    if batch == diagnosis.checkpoint.committed:
        return f"the state of batch {batch}, the last committed one, does not load"
    return f"the state of batch {batch}, which the next one reads, does not load"


def _depth(diagnosis: Diagnosis) -> str:
    if diagnosis.checkpoint.provider is Provider.UNKNOWN:
        return "the logs"
    if not diagnosis.deep:
        return "every needed file"
    checked, needed = diagnosis.rows_checked
    if checked == needed:
        return "every file and every row of the newest version"
    stores = f"{checked:,} of {counted(needed, 'store')}"
    return f"every file, and the rows of the newest version in {stores}"


def _batches(diagnosis: Diagnosis) -> str:
    if diagnosis.checkpoint.provider is Provider.UNKNOWN:
        return "unknown, as no store was looked at"
    if diagnosis.unread:
        return "unknown, as not every store could be read"
    if not diagnosis.loadable:
        return "none loads in every store"
    lost = len(diagnosis.checkpoint.batches) - len(diagnosis.loadable)
    rest = f"; {lost} more in the commit log do not" if lost else ""
    return f"{_ranges(diagnosis.loadable)} load in every store{rest}"


def _ranges(batches: Iterable[int]) -> str:
    ranges: list[list[int]] = []
    for batch in batches:
        if ranges and ranges[-1][1] == batch - 1:
            ranges[-1][1] = batch
        else:
            ranges.append([batch, batch])
    return ", ".join(f"{first} to {last}" if first < last else str(first) for first, last in ranges)


def _chain(diagnosis: Diagnosis) -> str:
    if diagnosis.chain is None or diagnosis.longest is None:
        return "none to read"
    files, where = counted(len(diagnosis.chain.deltas), "file"), diagnosis.longest.id
    size = decimal(replay_of_chain(diagnosis.longest, diagnosis.chain).bytes)
    base = " after a snapshot" if diagnosis.chain.base else ", without a snapshot"
    return f"at most {files} of changes{base} ({where}: {size})"


def _time(load: Load, diagnosis: Diagnosis) -> str:
    forecast = diagnosis.forecast
    now, after = (str(forecast.seconds(it)) for it in (load, diagnosis.load_after))
    later = f"; after `maintain` {after}" if after != now else ""
    return (
        f"restarts in {now}{later} (Spark {forecast.spark}, "
        f"{counted(forecast.slots, 'slot')}, new process; {forecast.seconds(load, warm=True)} in a "
        "running one)"
    )


def _past(past: Sequence[PastRestart], diagnosis: Diagnosis) -> str:
    if not past:
        return "no restart of this query is in the event logs"
    ratios = diagnosis.ratios
    took = f"the last of {counted(len(past), 'restart')} took {past[-1].seconds:,.1f} s"
    if not ratios:
        return f"{took}; what they read is no longer there, so they do not correct the forecast"
    percent = diagnosis.forecast.percent
    return (
        f"{took}; {counted(len(ratios), 'restart')} took {percent} % of the forecast, which is "
        f"corrected by that: set restart_percent: {percent} for `restart_within`"
    )


def _row(uri: str, **options: Any) -> Row:
    diagnosis = _diagnosis(uri, **options)
    return {
        **verdict_json(diagnosis.verdict, diagnosis.looked),
        **fields_json(diagnosis, "restarts restarts_since"),
        "last_committed_batch": diagnosis.checkpoint.committed,
        "loadable_batches": len(diagnosis.loadable),
        "longest_chain": len(diagnosis.chain.deltas) if diagnosis.chain else None,
        "bytes": load.total.bytes if (load := diagnosis.load) else None,
        "damage": {code.value: count for code, count in sorted(diagnosis.counts.items())},
        "next": list(diagnosis.next),
    }, diagnosis.findings


def _restarts(row: Json) -> str:
    since = row["restarts_since"]
    return (f"with {since}" if since else "yes") if row["restarts"] else "NO"


FLEET: Fleet = Fleet(
    columns=(
        Column("restarts", _restarts, spare=1),
        number("batch", lambda row: tables.known(row["last_committed_batch"]), 2),
        number("loadable", lambda row: f"{row['loadable_batches']:,}", 3),
        number("chain", lambda row: tables.known(row["longest_chain"])),
        number("bytes", lambda row: "?" if row["bytes"] is None else decimal(row["bytes"]), 1),
    ),
    read=_row,
    order=lambda row: -(row["longest_chain"] or 0),
    totals=lambda rows: f"{decimal(sum(row['bytes'] or 0 for row in rows))} to read at restarts",
    looked=lambda options: Looked.ROWS if options["deep"] else Looked.FILES,
)
