"""The flags that every verb has, for the destination and the amount of its output."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import wraps
from pathlib import Path
from typing import Any

import click

from statemaint.cli.endings import drop_output, line_of
from statemaint.cli.examples import epilog
from statemaint.cli.messages import log
from statemaint.cli.settings import Settings, in_force, settings
from statemaint.cli.targets import explained, queries_option
from statemaint.errors import ConfigError, NotACheckpointError, WrongKindError

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
                if "uri" not in rest:
                    raise
                raise explained(error, rest["uri"]) from None

    with_common.has_common_flags = True  # type: ignore[attr-defined]
    return with_common


@contextmanager
def _logged() -> Iterator[None]:
    """Writes the error that ends the program to the log file."""
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
    """Redirects stdout to a file that is created, or replaced, once the result is complete.

    Args:
        file: the file; `None` leaves stdout as it is.
        flag: the flag that names the file.

    Raises:
        ConfigError: when the file cannot be written.
    """
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
