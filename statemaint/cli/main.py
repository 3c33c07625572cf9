"""The program `statemaint`. Results go to stdout, everything else to stderr."""

import io
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from difflib import get_close_matches
from functools import cache, wraps
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import click
from click.exceptions import NoArgsIsHelpError
from click.shell_completion import get_completion_class

from statemaint import __version__
from statemaint.cli.output import (
    STDOUT,
    Settings,
    drop_output,
    end_with_error,
    in_force,
    line_of,
    log,
    output_to,
)
from statemaint.cli.targets import explained, queries_option
from statemaint.errors import ConfigError, NotACheckpointError, WrongKindError

_EXAMPLES = """\
apply plan.json  # carry out a reviewed plan
bootstrap URI rows.parquet --dry-run  # would these rows fit?
bootstrap URI rows.parquet --at 26  # put rows of version 26 back, unless the query has moved on
bootstrap URI rows.parquet --to /data/checkpoints/corrected  # beside the query, which may run
eval "$(statemaint completion bash)"  # in ~/.bashrc
diff URI  # what the last batch changed
diff URI --from 20 --to 25 --key k3  # rows of one key
digest URI --json  # compare two copies of a checkpoint
doctor URI  # can it restart?
doctor /data/checkpoints  # every checkpoint of a folder, the worst first
exporter --queries QUERIES  # for Prometheus to scrape
maintain URI --dry-run  # what would it do?
maintain URI --trash-for 7d  # with a way back for a week
maintain /data/checkpoints --dry-run  # every checkpoint of a folder
maintain --queries QUERIES  # every query of the file, or with --tag TAG some of them
pin URI --batch 24 --for 7d --note 'before 2.1'  # a way back after a deployment
pins URI  # what is pinned?
pins URI --end ID  # end a pin
policy URI --restart-within 30s  # which limit suits the query?
plan URI  # what would a run do, and why?
plan URI --json --output plan.json  # review it before it is carried out
queries QUERIES validate  # check the file of the DAGs
queries list  # the queries of the file that STATEMAINT_QUERIES names
repair URI  # what can be repaired?
repair URI --apply  # repair it
rollback URI --to-batch 20  # which files would it move?
rollback URI --to-batch 20 --apply  # roll back
runs URI  # what was done here?
runs URI RUN --all  # what did that run do, file by file?
savepoint URI /data/checkpoints/before-2.0  # before a deployment, while the query runs
savepoint URI /data/checkpoints/trial --new-id  # a fork for a trial
savepoints /data/savepoints  # which are there?
savepoints /data/savepoints --keep last=7,weekly=4  # which would expire by these rules?
savepoints /data/savepoints --keep last=7,weekly=4 --delete  # delete those
scan URI  # what is in it?
scan hourly_revenue  # by its name in the queries file
scan /data/checkpoints  # every checkpoint of a folder or bucket
show URI --limit 10  # ten rows of the newest state
show URI --version 20 --key k3  # one key as it was
show URI --csv --output rows.csv  # for a spreadsheet
show URI --format parquet --output rows.parquet  # to edit rows, and put them back by `bootstrap`
stats URI  # what does the state consist of?
undo URI RUN  # bring back what a run deleted
verify URI  # every needed file, its beginning and end
verify URI --deep  # every byte and row
verify URI --sample 3/10  # a tenth of it, a different one each night
"""
_WORDS = {"URI": "/data/checkpoints/hourly_revenue", "QUERIES": "statemaint_queries.yaml"}


def _examples() -> dict[str, list[tuple[str, str]]]:
    by_verb = defaultdict[str, list[tuple[str, str]]](list)
    for line in _EXAMPLES.splitlines():
        written, _, why = line.partition("  # ")
        command = " ".join(_WORDS.get(word, word) for word in written.split(" "))
        if "statemaint " not in command:
            command = f"statemaint {command}"
        by_verb[command.partition("statemaint ")[2].split()[0]].append((why, command))
    return by_verb


EXAMPLES = _examples()
"""The examples of each verb: why, and the command."""
_OF_QUERIES = ("exporter", "queries")  # they read the queries file and take no checkpoint


def _with_common(work: Callable[..., None]) -> Callable[..., None]:
    @wraps(work)
    def with_common(*args: Any, **options: Any) -> None:
        common = {flag.name: options.pop(flag.name, flag.default) for flag in fields(Settings)}
        common["as_json"] |= common["json_lines"]
        requested = Settings(**common)
        with in_force(requested), _explained(options.get("uri")), output_to(requested.output):
            try:
                work(*args, **options)
            finally:  # output that cannot be written is reported here, not at Python's exit
                sys.stdout.flush()

    return with_common


@contextmanager
def _explained(uri: Any) -> Iterator[None]:
    """Explains the error of an address that is not a checkpoint."""
    try:
        yield
    except BrokenPipeError:  # the reader has seen enough
        drop_output()
        sys.exit(0)
    except (NotACheckpointError, WrongKindError) as error:
        if isinstance(uri, tuple):
            uri = uri[0] if len(uri) == 1 else None
        raise (error if uri is None else explained(error, uri)) from None


def _options() -> Iterator[click.Option]:
    yield click.Option(
        ["--all", "-v", "everything"],
        is_flag=True,
        help="Print every row, not only the first ones.",
    )
    yield click.Option(
        ["--output"],
        metavar="FILE",
        type=click.Path(),
        help="Write the result to a file, which appears when it is complete.",
    )
    yield click.Option(
        ["--color"],
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        envvar="STATEMAINT_COLOR",
        show_envvar=True,
        help="Colour the output: on a terminal, unless NO_COLOR is set; always; or never.",
    )
    yield click.Option(["--quiet", "-q"], is_flag=True, help="Print no progress and no notes.")
    yield _log_option()


def _log_option() -> click.Option:
    return click.Option(
        ["--log-file", "log"],
        metavar="FILE",
        type=click.Path(),
        envvar="STATEMAINT_LOG_FILE",
        show_envvar=True,
        help="Append a copy of the messages to a file, each with its time (UTC).",
    )


def _log_file(args: Sequence[str] | None) -> str | None:
    """Returns the log file of a call, whose arguments may be wrong."""
    lenient = {"ignore_unknown_options": True, "allow_extra_args": True}
    reader = click.Command(None, lenient, params=[_log_option()], add_help_option=False)
    words = [*(sys.argv[1:] if args is None else args)]
    context = reader.make_context(None, words, resilient_parsing=True)
    file: str | None = context.params["log"]
    return file


GROUPS = {
    "Look": ("scan", "plan", "verify", "doctor", "policy", "digest", "runs"),
    "Maintain": ("maintain", "apply", "undo"),
    "Recover": ("repair", "rollback", "savepoint", "savepoints", "pin", "pins"),
    "Read and correct the state": ("show", "diff", "stats", "bootstrap"),
    "Many queries": ("queries", "exporter", "completion"),
}
"""The verbs as `--help` lists them."""
_MODULES = {
    "main": ("completion",),
    "queries": ("exporter",),
    "recovery": ("apply", "repair", "rollback"),
    "runs": ("pin", "pins", "undo"),
    "savepoint": ("savepoints",),
    "scan": ("plan",),
    "show": ("diff",),
    "verify": ("digest",),
}
_ELSEWHERE = {verb: module for module, verbs in _MODULES.items() for verb in verbs}
VERBS = {verb: _ELSEWHERE.get(verb, verb) for verb in sorted(chain(*GROUPS.values()))}
"""The verbs, each with the module that has its command `<verb>_verb`."""


@cache
def _verb(name: str) -> click.Command:
    """Returns a verb with the common flags."""
    module = import_module(f"statemaint.cli.{VERBS[name]}")
    verb: click.Command = getattr(module, f"{name}_verb")
    if verb.callback:
        verb.callback = _with_common(verb.callback)
    reads = any(param.name == "uri" for param in verb.params) or name in _OF_QUERIES
    verb.params += [*([queries_option()] if reads else []), *_options()]
    lines = [f"  # {why}\n  {command}" for why, command in EXAMPLES[name]]
    verb.epilog = "\n".join(("\b", "Examples:", *lines))
    return verb


class _Verbs(click.Group):
    """A group that imports each verb when it is used: no verb loads another verb's libraries."""

    def main(self, args: Sequence[str] | None = None, *more: Any, **options: Any) -> Any:
        try:
            return super().main(args, *more, **options)
        except NoArgsIsHelpError:
            raise
        except Exception as error:
            with suppress(ConfigError), in_force(Settings(log=_log_file(args))):
                log(line_of(error))
            raise

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [*VERBS]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        for group, names in GROUPS.items():
            widest = formatter.width - max(map(len, VERBS)) - 6
            with formatter.section(group):
                formatter.write_dl([(it, _verb(it).get_short_help_str(widest)) for it in names])

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
    nowhere = Path(os.devnull)  # for a stream that the caller has closed
    sys.stdout = sys.stdout or nowhere.open("w", encoding="utf-8")
    sys.stderr = sys.stderr or nowhere.open("w", encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # characters that its encoding lacks: \\u...
            stream.reconfigure(errors="backslashreplace")
    try:
        command(standalone_mode=False, prog_name=name)
        sys.stdout.flush()
    except NoArgsIsHelpError as error:
        error.show()
        sys.exit(ConfigError.exit_code)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 -- the shell's last line of defence
        end_with_error(error)
