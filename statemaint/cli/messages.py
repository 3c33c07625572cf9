"""Lines on stderr, and their copy in the log file."""

from datetime import UTC, datetime
from pathlib import Path

import click

from statemaint.cli.settings import settings
from statemaint.errors import ConfigError


class _Stdout:
    """The state of this call's stdout.

    Attributes:
        begun: whether a part of a result has been printed.
    """

    begun = False


STDOUT = _Stdout()


def tell(text: str) -> None:
    """Prints a line on stderr."""
    click.echo(text, err=True)
    log(text)


def note(text: str) -> None:
    """Prints a line on stderr, except in a quiet call."""
    if settings().quiet:
        log(text)
    else:
        tell(text)


def log(text: str) -> None:
    """Appends a line to the log file of `--log-file`, with its time.

    Raises:
        ConfigError: when the file cannot be written.
    """
    if (path := settings().log) is None:
        return
    try:
        with Path(path).open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {text}\n")
    except OSError as error:
        raise ConfigError(f"--log-file {path}: {error.strerror}") from error
