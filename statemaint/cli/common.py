"""The flags that every verb has, for the destination and the amount of its output."""

import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any

import click

from statemaint.cli.output import Settings, drop_output, in_force, line_of, log
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
_OF_QUERIES = ("exporter", "queries")
"""The verbs that read the queries file and take no checkpoint."""
_RESULTS = (0, 3, 6)
"""The exit codes of a verb that has printed its result."""


def add_common(verb: click.Command) -> click.Command:
    """Adds the common flags to a verb."""
    if verb.callback:
        verb.callback = _with_common(verb.callback)
    reads = any(param.name == "uri" for param in verb.params) or verb.name in _OF_QUERIES
    verb.params += [*([queries_option()] if reads else []), *_options()]
    lines = [f"  # {why}\n  {command}" for why, command in EXAMPLES.get(verb.name or "", [])]
    verb.epilog = "\n".join(("\b", "Examples:", *lines))
    return verb


def _with_common(work: Callable[..., None]) -> Callable[..., None]:
    @wraps(work)
    def with_common(*args: Any, **options: Any) -> None:
        common = {flag.name: options.pop(flag.name, flag.default) for flag in fields(Settings)}
        common["as_json"] |= common["json_lines"]
        requested = Settings(**common)
        with in_force(requested), output_to(requested.output), _logged(options.get("uri")):
            try:
                work(*args, **options)
            finally:  # output that cannot be written is reported here, not at Python's exit
                sys.stdout.flush()

    return with_common


@contextmanager
def _logged(uri: Any) -> Iterator[None]:
    """Logs the error of a verb; one of an address that is not a checkpoint is explained first."""
    try:
        yield
    except BrokenPipeError:  # the reader has seen enough
        drop_output()
        sys.exit(0)
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(uri, tuple):
            uri = uri[0] if len(uri) == 1 else None
        if uri is None or not isinstance(error, NotACheckpointError | WrongKindError):
            log(line_of(error))
            raise
        better = explained(error, uri)
        log(line_of(better))
        raise better from None


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
    yield click.Option(
        ["--log-file", "log"],
        metavar="FILE",
        type=click.Path(),
        envvar="STATEMAINT_LOG_FILE",
        show_envvar=True,
        help="Append a copy of the messages to a file, each with its time (UTC).",
    )


@contextmanager
def output_to(file: str | None, *, flag: str = "--output") -> Iterator[None]:
    """Redirects stdout to a file that is created, or replaced, once the result is complete."""
    if file is None:
        yield
        return
    path = Path(file)
    temp = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        stream = temp.open("w", encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise ConfigError(f"{flag} {file}: {error.strerror}") from error
    try:
        with stream, redirect_stdout(stream):
            yield
    except SystemExit as end:
        if end.code in _RESULTS:
            temp.replace(path)
        raise
    else:
        temp.replace(path)
    finally:
        temp.unlink(missing_ok=True)
