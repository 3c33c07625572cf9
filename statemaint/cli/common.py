"""The flags that every verb has, for the destination and the amount of its output."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import wraps
from pathlib import Path
from typing import Any

import click

from statemaint.cli.messages import Settings, drop_output, in_force, line_of, log, settings
from statemaint.cli.targets import explained, queries_option
from statemaint.errors import ConfigError, NotACheckpointError, WrongKindError

CHECKPOINT = "/data/checkpoints/hourly_revenue"
"""The checkpoint of the examples, and `hourly_revenue` its name in the queries file."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "apply": (("carry out a reviewed plan", "statemaint apply plan.json"),),
    "completion": (("in ~/.bashrc", 'eval "$(statemaint completion bash)"'),),
    "diff": (
        ("what the last batch changed", f"statemaint diff {CHECKPOINT}"),
        ("rows of one key", f"statemaint diff {CHECKPOINT} --from 20 --to 25 --key k3"),
    ),
    "digest": (("compare two copies of a checkpoint", f"statemaint digest {CHECKPOINT} --json"),),
    "doctor": (
        ("can it restart?", f"statemaint doctor {CHECKPOINT}"),
        ("every checkpoint of a folder, the worst first", "statemaint doctor /data/checkpoints"),
    ),
    "exporter": (
        ("for Prometheus to scrape", "statemaint exporter --queries statemaint_queries.yaml"),
    ),
    "maintain": (
        ("what would it do?", f"statemaint maintain {CHECKPOINT} --dry-run"),
        ("with a way back for a week", f"statemaint maintain {CHECKPOINT} --trash-for 7d"),
        ("every checkpoint of a folder", "statemaint maintain /data/checkpoints --dry-run"),
        (
            "every query of the file, or with --tag TAG some of them",
            "statemaint maintain --queries statemaint_queries.yaml",
        ),
    ),
    "pin": (
        (
            "a way back after a deployment",
            f"statemaint pin {CHECKPOINT} --batch 24 --for 7d --note 'before 2.1'",
        ),
    ),
    "pins": (
        ("what is pinned?", f"statemaint pins {CHECKPOINT}"),
        ("end a pin", f"statemaint pins {CHECKPOINT} --end ID"),
    ),
    "plan": (
        ("what would a run do, and why?", f"statemaint plan {CHECKPOINT}"),
        (
            "review it before it is carried out",
            f"statemaint plan {CHECKPOINT} --json --output plan.json",
        ),
    ),
    "queries": (
        ("check the file of the DAGs", "statemaint queries statemaint_queries.yaml validate"),
    ),
    "repair": (
        ("what can be repaired?", f"statemaint repair {CHECKPOINT}"),
        ("repair it", f"statemaint repair {CHECKPOINT} --apply"),
    ),
    "rollback": (
        ("which files would it move?", f"statemaint rollback {CHECKPOINT} --to-batch 20"),
        ("roll back", f"statemaint rollback {CHECKPOINT} --to-batch 20 --apply"),
    ),
    "runs": (
        ("what was done here?", f"statemaint runs {CHECKPOINT}"),
        ("what did that run do, file by file?", f"statemaint runs {CHECKPOINT} RUN --all"),
    ),
    "savepoint": (
        (
            "before a deployment, while the query runs",
            f"statemaint savepoint {CHECKPOINT} /data/checkpoints/before-2.0",
        ),
        (
            "a fork for a trial",
            f"statemaint savepoint {CHECKPOINT} /data/checkpoints/trial --new-id",
        ),
    ),
    "savepoints": (
        ("which are there?", "statemaint savepoints /data/savepoints"),
        (
            "which would expire by these rules?",
            "statemaint savepoints /data/savepoints --keep last=7,weekly=4",
        ),
        (
            "delete those",
            "statemaint savepoints /data/savepoints --keep last=7,weekly=4 --delete",
        ),
    ),
    "scan": (
        ("what is in it?", f"statemaint scan {CHECKPOINT}"),
        ("by its name in the queries file", "statemaint scan hourly_revenue"),
        ("every checkpoint of a folder or bucket", "statemaint scan /data/checkpoints"),
    ),
    "show": (
        ("ten rows of the newest state", f"statemaint show {CHECKPOINT} --limit 10"),
        ("one key as it was", f"statemaint show {CHECKPOINT} --version 20 --key k3"),
        ("for a spreadsheet", f"statemaint show {CHECKPOINT} --csv --output rows.csv"),
    ),
    "stats": (("what does the state consist of?", f"statemaint stats {CHECKPOINT}"),),
    "undo": (("bring back what a run deleted", f"statemaint undo {CHECKPOINT} RUN"),),
    "verify": (
        ("every needed file, its beginning and end", f"statemaint verify {CHECKPOINT}"),
        ("every byte and row", f"statemaint verify {CHECKPOINT} --deep"),
        (
            "a tenth of it, a different one each night",
            f"statemaint verify {CHECKPOINT} --sample 3/10",
        ),
    ),
}


def epilog(verb: str) -> str:
    """Returns the examples of a verb, for the end of its `--help`."""
    lines = [line for why, command in EXAMPLES[verb] for line in (f"  # {why}", f"  {command}")]
    return "\n".join(("\b", "Examples:", *lines))


_RESULTS = (0, 3, 6)
"""The exit codes of a verb that has printed its result."""


def add_common(verb: click.Command) -> click.Command:
    """Adds the common flags to a verb, once."""
    work = verb.callback
    if work is not None and not getattr(work, "has_common_flags", False):
        verb.callback = _with_common(work)
        takes_uri = any(one.name == "uri" for one in verb.params)
        verb.params += [*([queries_option()] if takes_uri else []), *_options()]
        verb.epilog = epilog(verb.name) if verb.name else None
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
        requested = Settings(color, quiet, everything, settings().json_lines, log_file)
        with in_force(requested), output_to(output), _logged():
            try:
                try:
                    work(*args, **rest)
                finally:  # output that cannot be written is reported here, not at Python's exit
                    sys.stdout.flush()
            except BrokenPipeError:  # the reader has seen enough
                drop_output()
                sys.exit(0)
            except (NotACheckpointError, WrongKindError) as error:
                uri = rest.get("uri")
                if isinstance(uri, tuple):
                    uri = uri[0] if len(uri) == 1 else None
                if uri is None:
                    raise
                raise explained(error, uri) from None

    with_common.has_common_flags = True  # type: ignore[attr-defined]
    return with_common


@contextmanager
def _logged() -> Iterator[None]:
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        log(line_of(error))
        raise


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
