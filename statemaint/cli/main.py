"""The program `statemaint`. Results go to stdout, everything else to stderr."""

import os
import sys
from collections.abc import Iterable
from dataclasses import asdict
from itertools import islice
from typing import IO, Any

import click
from click.exceptions import NoArgsIsHelpError
from rich.console import Console
from rich.progress import Progress

from statemaint import __version__
from statemaint.audit import digest_stores, doctor, verify
from statemaint.cli import recovery, tables
from statemaint.cli import rows as state_rows
from statemaint.cli.compare import diff_verb, stats_verb
from statemaint.cli.doctor import doctor_json, lines
from statemaint.cli.options import Share, as_json, policy_flags, scope_flags, uri
from statemaint.cli.output import DAMAGE, MOST_LINES, complain, end, show
from statemaint.errors import ConfigError, StatemaintError
from statemaint.maintain import Run, Undone, apply, list_runs, maintain, parse_plan, undo
from statemaint.model.policy import Policy
from statemaint.plan import Plan, Request, diagnose
from statemaint.planning import plan_checkpoint, scan_checkpoint
from statemaint.queries import load_queries
from statemaint.recover import apply_mend, parse_mend
from statemaint.report import Outcome
from statemaint.report.to_json import digest_json, plan_json, report_json, scan_json, verify_json
from statemaint.state import select_state
from statemaint.storage import open_storage

_NUMBER = click.IntRange(min=0)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="statemaint")
def program() -> None:
    """Maintain the state of Spark Structured Streaming queries, outside their executors.

    URI is the query's checkpointLocation: a path, file: with one, s3://bucket/path, or what Hadoop
    reaches (hdfs://, abfss://, gs://, ...).

    Exit codes: 0 done or healthy, 1 a fault of ours, 2 usage or configuration, 3 findings
    (damage, halted stores), 4 lease held by another, 5 storage unreachable or refused,
    6 superseded: the query moved on, plan again.
    """


@program.command("scan")
@uri
@as_json
def scan_verb(uri: str, *, as_json: bool) -> None:
    """Show what is there: operators, partitions, stores, chains, sizes."""
    checkpoint = scan_checkpoint(open_storage(uri))
    show(scan_json(checkpoint), as_json=as_json, table=lambda: tables.scan(checkpoint))
    stores = (one for store in checkpoint.stores for one in diagnose(store, checkpoint))
    end((*checkpoint.findings, *stores))


@program.command("plan")
@uri
@policy_flags
@scope_flags
@as_json
def plan_verb(uri: str, *, policy: Policy, request: Request, as_json: bool) -> None:
    """Show what would be written, kept and deleted, and why; writes nothing."""
    checkpoint, plan = plan_checkpoint(open_storage(uri), policy, request=request)
    show(plan_json(checkpoint, plan), as_json=as_json, table=lambda: tables.plan(plan))
    end(plan.all_findings)


@program.command("maintain")
@uri
@policy_flags
@scope_flags
@click.option("--dry-run", is_flag=True, help="Report what would happen; write nothing.")
@as_json
def maintain_verb(
    uri: str, *, policy: Policy, request: Request, dry_run: bool, as_json: bool
) -> None:
    """Snapshot long chains, delete what no retained version needs, and report."""
    storage = open_storage(uri)
    with _progress() as progress:
        report = maintain(
            storage, policy, request=request, dry_run=dry_run, on_outcome=_Bar(progress).advance
        )
    show(report_json(report), as_json=as_json, table=lambda: tables.report(report))
    complain(report.findings)
    sys.exit(report.exit_code)


@program.command("apply")
@click.argument("plan_file", metavar="PLAN.json", type=click.File("rb"))
@click.option("--at", metavar="URI", help="Where the checkpoint is; by default where it was.")
@as_json
def apply_verb(plan_file: IO[bytes], at: str | None, *, as_json: bool) -> None:
    """Carry out exactly what `plan`, `repair` or `rollback --json` printed, or refuse.

    It is refused, with exit code 6, where the files that it is about have changed.
    """
    content = plan_file.read()
    if found := parse_mend(plan_file.name, content):
        recovery.end(apply_mend(open_storage(at or found.checkpoint), found), as_json=as_json)
    asked = parse_plan(plan_file.name, content)
    with _progress() as progress:
        storage = open_storage(at or asked.checkpoint)
        report = apply(storage, asked, on_outcome=_Bar(progress).advance)
    show(report_json(report), as_json=as_json, table=lambda: tables.report(report))
    complain(report.findings)
    sys.exit(report.exit_code)


@program.command("undo")
@uri
@click.argument("run", metavar="RUN")
@as_json
def undo_verb(uri: str, run: str, *, as_json: bool) -> None:
    """Bring back what a run moved to the trash, as far as it still fits.

    RUN is an id that `statemaint runs` lists. Runs of `maintain` can be undone only with
    --trash-for. A file stays in the trash when its store's log was written again at or below its
    version, or another file is in its place; each is reported with the reason, and the exit code
    is 3. A rollback comes back as a whole, and is refused (exit code 2) once the query has gone on.
    The next `maintain` deletes the same files again unless it is told to retain more.
    """
    found = undo(open_storage(uri), run)
    show(undo_json(found), as_json=as_json, table=lambda: tables.undone(found))
    shown = list(found.left.items())[:MOST_LINES]
    for path, reason in shown:
        click.echo(f"{path} stays in the trash: {reason}", err=True)
    if more := len(found.left) - len(shown):
        click.echo(f"and {more} more; --json lists them", err=True)
    sys.exit(DAMAGE if found.left else 0)


@program.command("runs")
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


@program.command("verify")
@uri
@click.option(
    "--deep",
    is_flag=True,
    help="Decode every file, compare every snapshot, look at every row of the newest version.",
)
@click.option(
    "--sample",
    type=Share(),
    metavar="N/T",
    help="Only the N-th of T shares of the partitions; T runs see them all.",
)
@as_json
def verify_verb(uri: str, *, deep: bool, sample: tuple[int, int] | None, as_json: bool) -> None:
    """Look over every file that a retained version of any store needs.

    Of each file only the beginning and the end are read, and snapshots are believed that an
    attestation covers. What changed inside a file is found by --deep.
    """
    found = verify(open_storage(uri), deep=deep, sample=sample)
    shown = verify_json(found.versions_checked, found.findings)
    show(shown, as_json=as_json, table=lambda: tables.verification(found))
    end(found.findings)


@program.command("doctor")
@uri
@click.option("--deep", is_flag=True, help="Look as deep as `verify --deep` does.")
@click.option(
    "--slots",
    type=click.IntRange(min=1),
    help="Task slots that the executors have together.  [default: the cores of this machine]",
)
@as_json
def doctor_verb(uri: str, *, deep: bool, slots: int | None, as_json: bool) -> None:
    """Say in a dozen lines whether the query can restart, from where, and what to do.

    Every file of a retained version is decoded. Exit code 3 where anything is damaged, as `verify`
    has it.
    """
    found = doctor(open_storage(uri), deep=deep, slots=slots or os.cpu_count() or 1)
    text = "\n".join(lines(found))
    show(doctor_json(found), as_json=as_json, table=lambda: click.echo(text))
    sys.exit(DAMAGE if found.counts else 0)


@program.command("digest")
@uri
@click.option("--version", "version", type=click.IntRange(min=1), help="Default: the newest.")
@as_json
def digest_verb(uri: str, *, version: int | None, as_json: bool) -> None:
    """Print row count and order-free digest of each store's state at a version.

    Digests are keyed by the query's id: compare those of copies of one checkpoint, not of two
    queries.
    """
    at, digests = digest_stores(open_storage(uri), version=version)
    shown = digest_json(at, digests)
    show(shown, as_json=as_json, table=lambda: tables.digests(at, digests))


@program.command("show")
@uri
@click.option("--operator", type=_NUMBER, default=0, help="Default: 0.")
@click.option("--partition", type=_NUMBER, help="Default: all of them.")
@click.option("--store", metavar="NAME", help="Default: all of them.")
@click.option("--family", metavar="NAME", help="Column family; Spark's own only when named.")
@click.option("--version", "version", type=click.IntRange(min=1), help="Default: the newest.")
@click.option("--key", metavar="TEXT", help="Only rows with a key column that reads TEXT.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many rows.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@as_json
def show_verb(
    uri: str,
    *,
    key: str | None,
    limit: int | None,
    as_csv: bool,
    as_json: bool,
    **where: Any,
) -> None:
    """Print the rows of state at a version, decoded with the schema that the query wrote.

    Key and value come apart, under the names that the state is stored with. Times are UTC.
    """
    if as_csv and as_json:
        raise click.UsageError("--csv and --json cannot be had at once")
    found = select_state(uri, **where)
    rows = islice(state_rows.with_key(found.rows(), key), limit)
    if as_csv:
        state_rows.print_csv(rows)
        return
    shown = list(rows)
    document = {"version": found.version, "rows": [state_rows.row_json(one) for one in shown]}
    show(document, as_json=as_json, table=lambda: tables.state(found.version, shown))


program.add_command(diff_verb)
program.add_command(stats_verb)


@program.command("queries")
@click.argument("config", metavar="CONFIG.yaml")
@click.argument("what", type=click.Choice(["validate", "list"]))
@as_json
def queries_verb(config: str, what: str, *, as_json: bool) -> None:
    """Validate the file of queries that Airflow's DAGs are made of, or list them."""
    queries = load_queries(config).queries
    listed = {name: str(query.checkpoint) for name, query in sorted(queries.items())}
    shown = {"valid": True, "queries": listed}
    show(shown, as_json=as_json, table=lambda: tables.queries(config, listed, full=what == "list"))


program.add_command(recovery.repair_verb)
program.add_command(recovery.rollback_verb)


def undo_json(undone: Undone) -> dict[str, Any]:
    """Returns what `undo --json` prints."""
    return {
        "run": undone.run,
        "undo": undone.undo,
        "files": undone.files,
        "bytes": undone.bytes,
        "left": list(undone.left),
        "reasons": dict(undone.left),
    }


def runs_json(runs: Iterable[Run]) -> dict[str, Any]:
    """Returns what `runs --json` prints."""
    return {"runs": [asdict(run) for run in runs]}


class _Bar:
    """A progress bar over the plan's actions, made when the first of them has happened."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def advance(self, outcome: Outcome, plan: Plan) -> None:
        if not self._progress.tasks:
            self._progress.add_task("maintaining", total=len(plan.actions))
        task = self._progress.tasks[0]
        self._progress.update(task.id, advance=1, description=str(outcome.store))


def _progress() -> Progress:
    return Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())


def main() -> None:
    """Runs the program: one line on stderr and an exit code for whatever goes wrong."""
    try:
        program(standalone_mode=False, prog_name="statemaint")
    except NoArgsIsHelpError as error:
        error.show()
        sys.exit(ConfigError.exit_code)
    except click.ClickException as error:
        click.echo(f"statemaint: {ConfigError.code}: {_usage(error)}", err=True)
        sys.exit(ConfigError.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted; run again to go on", err=True)
        sys.exit(1)
    except StatemaintError as error:
        click.echo(f"statemaint: {error.code}: {_one_line(error)}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our output went away; without this, flushing at exit complains again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:  # noqa: BLE001 -- the shell's last line of defence
        click.echo(f"statemaint: FAULT: {type(error).__name__}: {_one_line(error)}", err=True)
        sys.exit(1)


def _usage(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context else "statemaint"
    message = " ".join(error.format_message().split()).rstrip(".")
    return f"{message}; see '{command} --help'"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
