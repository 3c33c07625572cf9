"""The program `statemaint`. Results go to stdout, everything else to stderr."""

import os
import sys

import click
from click.exceptions import NoArgsIsHelpError

from statemaint import __version__
from statemaint.cli.apply import apply_verb
from statemaint.cli.diff import diff_verb
from statemaint.cli.digest import digest_verb
from statemaint.cli.doctor import doctor_verb
from statemaint.cli.maintain import maintain_verb
from statemaint.cli.plan import plan_verb
from statemaint.cli.queries import queries_verb
from statemaint.cli.repair import repair_verb
from statemaint.cli.rollback import rollback_verb
from statemaint.cli.runs import runs_verb
from statemaint.cli.scan import scan_verb
from statemaint.cli.show import show_verb
from statemaint.cli.stats import stats_verb
from statemaint.cli.undo import undo_verb
from statemaint.cli.verify import verify_verb
from statemaint.errors import ConfigError, StatemaintError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="statemaint")
def program() -> None:
    """Maintain the state of Spark Structured Streaming queries, outside their executors.

    URI is the query's checkpointLocation: a local path, file:/path, s3://bucket/path, or an address
    that Hadoop supports (hdfs://, abfss://, gs://, ...).

    Exit codes: 0 done or healthy, 1 internal error, 2 usage or configuration error, 3 findings
    (damage, halted stores), 4 lease held by another run, 5 storage unreachable or access denied,
    6 superseded: the query moved on, plan again.
    """


for _verb in (
    apply_verb,
    diff_verb,
    digest_verb,
    doctor_verb,
    maintain_verb,
    plan_verb,
    queries_verb,
    repair_verb,
    rollback_verb,
    runs_verb,
    scan_verb,
    show_verb,
    stats_verb,
    undo_verb,
    verify_verb,
):
    program.add_command(_verb)


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
