"""The program `statemaint`. Results go to stdout, everything else to stderr."""

import sys
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from itertools import chain

import click
from click.exceptions import NoArgsIsHelpError
from click.shell_completion import get_completion_class

from statemaint import __version__
from statemaint.cli.common import add_common
from statemaint.cli.output import STDOUT, end_with_error, print_anything
from statemaint.errors import ConfigError

GROUPS = {
    "Look": ("scan", "plan", "verify", "doctor", "policy", "digest", "runs"),
    "Maintain": ("maintain", "apply", "undo"),
    "Recover": ("repair", "rollback", "savepoint", "savepoints", "pin", "pins"),
    "Read and correct the state": ("show", "diff", "stats", "bootstrap"),
    "Many queries": ("queries", "exporter", "completion"),
}
"""The verbs as `--help` lists them."""
_ELSEWHERE = {
    "apply": "recovery",
    "completion": "main",
    "diff": "show",
    "digest": "verify",
    "exporter": "queries",
    "pin": "runs",
    "pins": "runs",
    "repair": "recovery",
    "rollback": "recovery",
    "savepoints": "savepoint",
    "undo": "runs",
}
VERBS = {verb: _ELSEWHERE.get(verb, verb) for verb in sorted(chain(*GROUPS.values()))}
"""The verbs, each with the module that has its command `<verb>_verb`."""


@cache
def _verb(name: str) -> click.Command:
    module = import_module(f"statemaint.cli.{VERBS[name]}")
    return add_common(getattr(module, f"{name}_verb"))


class _Verbs(click.Group):
    """A group that imports each verb when it is used: no verb loads another verb's libraries."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [*VERBS]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for group, names in GROUPS.items():
            verbs = ((name, self.get_command(ctx, name)) for name in names)
            widest = formatter.width - max(map(len, VERBS)) - 6
            with formatter.section(group):
                formatter.write_dl(
                    [(name, verb.get_short_help_str(widest)) for name, verb in verbs if verb]
                )

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        return _verb(cmd_name) if cmd_name in VERBS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in VERBS and (near := get_close_matches(name, VERBS, n=1)):
            ctx.fail(f"No such command {name!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="statemaint")
def program() -> None:
    """Maintain the state of Spark Structured Streaming queries, outside their executors.

    URI is the query's checkpointLocation: a local path, file:/path, s3://bucket/path, or an address
    that Hadoop supports (hdfs://, abfss://, gs://, ...).

    Exit codes: 0 done or healthy, 1 internal error, 2 usage or configuration error, 3 findings
    (damage, halted stores), 4 lease held by another run, 5 storage unreachable, access denied or
    output not written, 6 superseded: the query moved on, plan again, 130 interrupted.
    """


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_verb(shell: str) -> None:
    """Print the script that completes verbs, flags and queries; the shell must run it."""
    completion = get_completion_class(shell)
    if completion is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(completion(program, {}, "statemaint", "_STATEMAINT_COMPLETE").source())


def main() -> None:
    run(program, "statemaint")


def run(command: click.Command, name: str) -> None:
    """Runs a program; any error becomes one line on stderr and an exit code."""
    STDOUT.begun = False
    for stream in (sys.stdout, sys.stderr):
        print_anything(stream)
    try:
        command(standalone_mode=False, prog_name=name)
        sys.stdout.flush()
    except NoArgsIsHelpError as error:
        error.show()
        sys.exit(ConfigError.exit_code)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 -- the shell's last line of defence
        end_with_error(error)
