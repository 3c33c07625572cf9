"""The program `statemaint`. Results go to stdout, everything else to stderr."""

import os
import sys
from importlib import import_module

import click
from click.exceptions import NoArgsIsHelpError

from statemaint import __version__
from statemaint.errors import ConfigError, StatemaintError

VERBS = (
    "apply",
    "diff",
    "digest",
    "doctor",
    "maintain",
    "plan",
    "queries",
    "repair",
    "rollback",
    "runs",
    "scan",
    "show",
    "stats",
    "undo",
    "verify",
)


class _Verbs(click.Group):
    """A group that imports each verb when it is used: no verb loads another verb's libraries."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names of all verbs."""
        del ctx
        return [*VERBS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Returns the verb of a name; `None` where there is no such verb."""
        del ctx
        if cmd_name not in VERBS:
            return None
        module = import_module(f"statemaint.cli.{cmd_name}")
        verb: click.Command = getattr(module, f"{cmd_name}_verb")
        return verb


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="statemaint")
def program() -> None:
    """Maintain the state of Spark Structured Streaming queries, outside their executors.

    URI is the query's checkpointLocation: a local path, file:/path, s3://bucket/path, or an address
    that Hadoop supports (hdfs://, abfss://, gs://, ...).

    Exit codes: 0 done or healthy, 1 internal error, 2 usage or configuration error, 3 findings
    (damage, halted stores), 4 lease held by another run, 5 storage unreachable or access denied,
    6 superseded: the query moved on, plan again.
    """


def main() -> None:
    """Runs the program `statemaint`."""
    run(program, "statemaint")


def run(command: click.Command, name: str) -> None:
    """Runs a program; any error becomes one line on stderr and an exit code."""
    try:
        command(standalone_mode=False, prog_name=name)
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
        # The reader closed our output; without this, the flush at exit reports the error again.
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
