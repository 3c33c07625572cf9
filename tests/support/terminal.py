"""The program on a terminal of some width, and in a pipe."""

import os
import pty
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

PROGRAM = (sys.executable, "-m", "statemaint")


def at_terminal(
    *args: str, columns: int = 80, where: Path | None = None, **environment: str
) -> str:
    """Returns what the program prints on a terminal, stderr among it."""
    master, slave = pty.openpty()
    names = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm", **environment}
    with subprocess.Popen(
        [*PROGRAM, *args], stdin=slave, stdout=slave, stderr=slave, env=names, cwd=where
    ):
        os.close(slave)
        found = b"".join(_pieces(master))
    os.close(master)
    return found.decode().replace("\r\n", "\n")


def _pieces(master: int) -> Sequence[bytes]:
    pieces: list[bytes] = []
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # Linux: the other end is closed
            return pieces
        if not piece:
            return pieces
        pieces.append(piece)


def in_pipe(
    *args: str, where: Path | None = None, environment: Mapping[str, str] | None = None
) -> str:
    """Returns what the program prints into a pipe, stderr among it."""
    done = subprocess.run(
        [*PROGRAM, *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        text=True,
        cwd=where,
        env={**os.environ, **(environment or {})},
    )
    return done.stdout
