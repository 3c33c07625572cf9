"""A real PostgreSQL in a folder of its own, for the length of a `with` block.

It listens on 127.0.0.1 only, trusts whoever asks, and is never run by root, which it refuses.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.demo.processes import free_port, wait_until

_PLACES = Path("/usr/lib/postgresql")
_USERS = ("postgres", "nobody")
_START_SECONDS = 60.0


class NoPostgresError(Exception):
    """There is no PostgreSQL on this machine."""


@contextmanager
def postgresql() -> Iterator[str]:
    """Runs a server with one empty database, and yields `airflow@HOST:PORT/postgres`.

    Raises:
        NoPostgresError: when Debian's package is not installed.
    """
    programs, user = _programs(), _user()
    folder = Path(tempfile.mkdtemp(prefix="statemaint-postgres-"))
    folder.chmod(0o755)
    data, port = folder / "data", free_port()
    data.mkdir(mode=0o700)
    if user:
        shutil.chown(data, user)
    made = [str(programs / "initdb"), "-D", str(data), "-U", "airflow", "--auth=trust", "-N"]
    options = ["-h", "127.0.0.1", "-p", str(port), "-k", "", "-c", "fsync=off"]
    try:
        subprocess.run(made, user=user, cwd=folder, check=True, capture_output=True)
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [programs / "postgres", "-D", data, *options],
                user=user, cwd=folder, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            _wait(server, port, folder / "log")
            yield f"airflow@127.0.0.1:{port}/postgres"
        finally:
            server.send_signal(signal.SIGINT)  # ends the sessions of its clients as well
            server.wait()
    finally:
        shutil.rmtree(folder)


def _programs() -> Path:
    for folder in sorted(_PLACES.glob("*/bin"), reverse=True):
        if (folder / "initdb").exists():
            return folder
    raise NoPostgresError("PostgreSQL is not installed: apt-get install postgresql")


def _user() -> str | None:
    """Returns the user that the server runs as; `None` for one's own."""
    if os.geteuid() != 0:
        return None
    known = {one.pw_name for one in pwd.getpwall()}
    return next(name for name in _USERS if name in known)


def _wait(server: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    """Waits until the server takes connections, or has ended."""
    wait_until(lambda: server.poll() is not None or _answers(port), seconds=_START_SECONDS)
    if not _answers(port):
        server.kill()
        raise RuntimeError(log.read_text(encoding="utf-8", errors="replace"))


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
