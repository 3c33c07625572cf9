"""The program as a person runs it, in this process: a new one costs a quarter of a second."""

import io
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch

from statemaint.cli import main


def run(*args: str, program: Callable[[], object] = main) -> subprocess.CompletedProcess[str]:
    """Runs the program, or another, with arguments; returns what a shell would see of it."""
    out, err = _stream(), _stream()
    argv = patch.object(sys, "argv", ["statemaint", *args])
    with argv, redirect_stdout(out), redirect_stderr(err):
        code = _code(program)
    return subprocess.CompletedProcess(args, code, _text(out), _text(err))


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()


def _code(program: Callable[[], object]) -> int:
    before = dict(os.environ)
    try:
        program()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    finally:
        os.environ.clear()
        os.environ.update(before)
    return 0
