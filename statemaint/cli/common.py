"""The flags that every verb has, for the destination and the amount of its output."""

import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import wraps
from pathlib import Path
from typing import Any

import click

from statemaint.cli.messages import Settings, drop_output, in_force, line_of, log
from statemaint.cli.targets import explained, queries_option
from statemaint.errors import ConfigError, NotACheckpointError, WrongKindError

_TEXT = """\
# carry out a reviewed plan
statemaint apply plan.json
# would these rows fit?
statemaint bootstrap /data/checkpoints/hourly_revenue rows.parquet --dry-run
# put rows of version 26 back, unless the query has moved on
statemaint bootstrap /data/checkpoints/hourly_revenue rows.parquet --at 26
# beside the query, which may run
statemaint bootstrap /data/checkpoints/hourly_revenue rows.parquet --to /data/checkpoints/corrected
# in ~/.bashrc
eval "$(statemaint completion bash)"
# what the last batch changed
statemaint diff /data/checkpoints/hourly_revenue
# rows of one key
statemaint diff /data/checkpoints/hourly_revenue --from 20 --to 25 --key k3
# compare two copies of a checkpoint
statemaint digest /data/checkpoints/hourly_revenue --json
# can it restart?
statemaint doctor /data/checkpoints/hourly_revenue
# every checkpoint of a folder, the worst first
statemaint doctor /data/checkpoints
# for Prometheus to scrape
statemaint exporter --queries statemaint_queries.yaml
# what would it do?
statemaint maintain /data/checkpoints/hourly_revenue --dry-run
# with a way back for a week
statemaint maintain /data/checkpoints/hourly_revenue --trash-for 7d
# every checkpoint of a folder
statemaint maintain /data/checkpoints --dry-run
# every query of the file, or with --tag TAG some of them
statemaint maintain --queries statemaint_queries.yaml
# a way back after a deployment
statemaint pin /data/checkpoints/hourly_revenue --batch 24 --for 7d --note 'before 2.1'
# what is pinned?
statemaint pins /data/checkpoints/hourly_revenue
# end a pin
statemaint pins /data/checkpoints/hourly_revenue --end ID
# which limit suits the query?
statemaint policy /data/checkpoints/hourly_revenue --restart-within 30s
# what would a run do, and why?
statemaint plan /data/checkpoints/hourly_revenue
# review it before it is carried out
statemaint plan /data/checkpoints/hourly_revenue --json --output plan.json
# check the file of the DAGs
statemaint queries statemaint_queries.yaml validate
# the queries of the file that STATEMAINT_QUERIES names
statemaint queries list
# what can be repaired?
statemaint repair /data/checkpoints/hourly_revenue
# repair it
statemaint repair /data/checkpoints/hourly_revenue --apply
# which files would it move?
statemaint rollback /data/checkpoints/hourly_revenue --to-batch 20
# roll back
statemaint rollback /data/checkpoints/hourly_revenue --to-batch 20 --apply
# what was done here?
statemaint runs /data/checkpoints/hourly_revenue
# what did that run do, file by file?
statemaint runs /data/checkpoints/hourly_revenue RUN --all
# before a deployment, while the query runs
statemaint savepoint /data/checkpoints/hourly_revenue /data/checkpoints/before-2.0
# a fork for a trial
statemaint savepoint /data/checkpoints/hourly_revenue /data/checkpoints/trial --new-id
# which are there?
statemaint savepoints /data/savepoints
# which would expire by these rules?
statemaint savepoints /data/savepoints --keep last=7,weekly=4
# delete those
statemaint savepoints /data/savepoints --keep last=7,weekly=4 --delete
# what is in it?
statemaint scan /data/checkpoints/hourly_revenue
# by its name in the queries file
statemaint scan hourly_revenue
# every checkpoint of a folder or bucket
statemaint scan /data/checkpoints
# ten rows of the newest state
statemaint show /data/checkpoints/hourly_revenue --limit 10
# one key as it was
statemaint show /data/checkpoints/hourly_revenue --version 20 --key k3
# for a spreadsheet
statemaint show /data/checkpoints/hourly_revenue --csv --output rows.csv
# to edit rows, and put them back by `bootstrap`
statemaint show /data/checkpoints/hourly_revenue --format parquet --output rows.parquet
# what does the state consist of?
statemaint stats /data/checkpoints/hourly_revenue
# bring back what a run deleted
statemaint undo /data/checkpoints/hourly_revenue RUN
# every needed file, its beginning and end
statemaint verify /data/checkpoints/hourly_revenue
# every byte and row
statemaint verify /data/checkpoints/hourly_revenue --deep
# a tenth of it, a different one each night
statemaint verify /data/checkpoints/hourly_revenue --sample 3/10
"""


def _examples() -> dict[str, list[tuple[str, str]]]:
    by_verb = defaultdict[str, list[tuple[str, str]]](list)
    lines = iter(_TEXT.splitlines())
    for why, command in zip(lines, lines, strict=True):
        verb = command.partition("statemaint ")[2].split()[0]
        by_verb[verb].append((why.removeprefix("# "), command))
    return by_verb


EXAMPLES = _examples()
"""The examples of each verb: why, and the command."""


_OF_QUERIES = ("exporter", "queries")
"""The verbs that read the queries file and take no checkpoint."""
_RESULTS = (0, 3, 6)
"""The exit codes of a verb that has printed its result."""


def add_common(verb: click.Command) -> click.Command:
    """Adds the common flags to a verb, once."""
    work = verb.callback
    if work is not None and not getattr(work, "has_common_flags", False):
        verb.callback = _with_common(work)
        reads = any(param.name == "uri" for param in verb.params) or verb.name in _OF_QUERIES
        verb.params += [*([queries_option()] if reads else []), *_options()]
        examples = EXAMPLES.get(verb.name or "", [])
        lines = [f"  # {why}\n  {command}" for why, command in examples]
        verb.epilog = "\n".join(("\b", "Examples:", *lines))
    return verb


def _with_common(work: Callable[..., None]) -> Callable[..., None]:
    @wraps(work)
    def with_common(
        *args: Any,
        output: str | None,
        color: str,
        quiet: bool,
        everything: bool,
        log_file: str | None,
        **rest: Any,
    ) -> None:
        as_json, json_lines = rest.pop("as_json", False), rest.pop("json_lines", False)
        requested = Settings(
            color, quiet, everything, as_json or json_lines, json_lines, log_file, output
        )
        with in_force(requested), output_to(output), _logged(rest.get("uri")):
            try:
                work(*args, **rest)
            finally:  # output that cannot be written is reported here, not at Python's exit
                sys.stdout.flush()

    with_common.has_common_flags = True  # type: ignore[attr-defined]
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
        ["--log-file"],
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
