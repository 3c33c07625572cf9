"""A real Airflow on this machine, for the tests and for `make up`: SQLite and LocalExecutor.

Its parts (API server, scheduler, DAG processor, if wanted a triggerer) each lead their own process
session, so that they can outlive the program that started them (`start`, later `stop(home)`) or end
with all their tasks (`with airflow(setup) as running:`). All its files are in its home folder,
which holds at most one Airflow: starting a second one there ends the first.
"""

import contextlib
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from statemaint.errors import StatemaintError
from tools.demo import processes
from tools.demo.airflow_client import Client
from tools.demo.processes import Process
from tools.demo.prometheus import ORIGIN

_READY_SECONDS = 400.0
_STOP_SECONDS = 5.0
_NOTE = "airflow.server.json"
_PASSWORDS = "passwords.json"

Progress = Callable[[str], None]


class _PartError(StatemaintError):
    """A part of Airflow does not run; names it, with the end of its log."""

    event = ""

    def __init__(self, part: str, log: str) -> None:
        super().__init__(part, log)
        self.part, self.log = part, log

    def __str__(self) -> str:
        return f"Airflow's {self.part} {self.event}; the end of its log:\n{self.log}"


class AirflowNotReadyError(_PartError):
    """A part of Airflow ended, or Airflow did not become healthy in time."""

    code = "NOT_READY"
    event = "did not become ready"


class AirflowEndedError(_PartError):
    """A part of a running Airflow has ended."""

    code = "AIRFLOW_ENDED"
    event = "has ended"


@dataclass(frozen=True, slots=True)
class Setup:
    """The configuration of an Airflow.

    Attributes:
        home: the folder of its database, logs and passwords.
        dags: the folder with the DAG files.
        plugins: the folder with the plugin files.
        queries: the queries file, for STATEMAINT_QUERIES.
        gateway: a Pushgateway's address, for STATEMAINT_PUSHGATEWAY.
        users: roles by user name: admin, op, user, viewer; an empty role has no rights.
        triggerer: whether a triggerer runs as well, which deferred tasks need.
        environ: more variables, which override those set here.
    """

    home: Path
    dags: Path
    plugins: Path
    queries: Path
    gateway: str | None = None
    users: Mapping[str, str] = field(default_factory=lambda: {"admin": "admin", "viewer": "viewer"})
    triggerer: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Airflow:
    """A running Airflow.

    Attributes:
        url: its address, without a slash at the end.
        passwords: the passwords by user name.
        parts: its programs, by name.
        home: the folder of its database and logs.
    """

    url: str
    passwords: Mapping[str, str]
    parts: Mapping[str, Process]
    home: Path

    def client(self, user: str = "admin") -> Client:
        """Returns a client that is logged in as one of the users.

        While it waits it raises `AirflowEndedError` once a part of this Airflow has ended.
        """
        return replace(Client.login(self.url, user, self.passwords[user]), check=self.check)

    def check(self) -> None:
        """Checks that all parts run.

        Raises:
            AirflowEndedError: when one has ended; names it, with the end of its log.
        """
        for name, part in self.parts.items():
            if not processes.alive(part):
                raise AirflowEndedError(name, processes.end_of(self.home / f"{name}.log"))


@contextmanager
def airflow(setup: Setup, *, progress: Progress = lambda _line: None) -> Iterator[Airflow]:
    """Runs an Airflow for the duration of a `with` block; see `start`.

    It is killed at the end: its programs take seconds to clean up data that is no longer needed.
    """
    try:
        yield start(setup, progress=progress)
    finally:
        stop(setup.home, seconds=0.0)


def start(
    setup: Setup, *, port: int | None = None, progress: Progress = lambda _line: None
) -> Airflow:
    """Starts an Airflow that runs until `stop`, and waits until all its parts are healthy.

    Args:
        setup: its configuration.
        port: the port on 127.0.0.1; a free one by default.
        progress: called with one line about each step.

    Raises:
        AirflowNotReadyError: when it did not become healthy in time; all its parts are ended.
    """
    stop(setup.home)
    setup.home.mkdir(parents=True, exist_ok=True)
    url = f"http://127.0.0.1:{port or processes.free_port()}"
    environ = _environ(setup, url)
    passwords = _passwords(setup)
    progress("preparing the database")
    _migrate(setup.home, environ)
    parts = {}
    try:
        for part, arguments in _parts(url, triggerer=setup.triggerer).items():
            progress(f"starting the {part}")
            log = setup.home / f"{part}.log"
            parts[part] = processes.spawn(_command(part, *arguments), log=log, environ=environ)
            processes.write_note(setup.home / _NOTE, parts)
        _wait_until_healthy(url, setup.home, parts)
    except BaseException:
        stop(setup.home)
        raise
    progress(f"healthy at {url}")
    return Airflow(url, passwords, parts, setup.home)


def stop(home: Path, *, seconds: float = _STOP_SECONDS) -> None:
    """Ends the Airflow that runs in a home folder, with its tasks; does nothing if none runs.

    Args:
        home: its folder.
        seconds: the time that its programs may take to end before they are killed.
    """
    processes.stop_noted(home / _NOTE, seconds=seconds)


def _parts(url: str, *, triggerer: bool) -> dict[str, list[str]]:
    port = url.rpartition(":")[2]
    # Task logs are read from the disk; serving them would take one more, fixed port.
    waiting = {"triggerer": ["--skip-serve-logs"]} if triggerer else {}
    return {
        "api-server": ["--port", port],
        "scheduler": ["--skip-serve-logs"],
        "dag-processor": [],
        **waiting,
    }


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "airflow", *arguments]


def _environ(setup: Setup, url: str) -> dict[str, str]:
    """Returns the whole environment: this program's, with the setup's Airflow settings only."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AIRFLOW", "STATEMAINT_"))
    }
    gateway = {"STATEMAINT_PUSHGATEWAY": setup.gateway} if setup.gateway else {}
    return {
        **inherited,
        "AIRFLOW_HOME": str(setup.home),
        "STATEMAINT_ORIGIN": ORIGIN,
        "STATEMAINT_QUERIES": str(setup.queries),
        "NO_PROXY": "127.0.0.1,localhost",
        **gateway,
        **_settings(setup, url),
        **setup.environ,
    }


def _settings(setup: Setup, url: str) -> dict[str, str]:
    home = setup.home
    users = ",".join(f"{name}:{role}" for name, role in setup.users.items())
    settings = {
        "core": {
            "dags_folder": str(setup.dags),
            "plugins_folder": str(setup.plugins),
            "load_examples": "false",
            "executor": "LocalExecutor",
            "parallelism": "4",
            "execution_api_server_url": f"{url}/execution/",
            "simple_auth_manager_users": users,
            "simple_auth_manager_passwords_file": str(home / _PASSWORDS),
            "min_serialized_dag_update_interval": "1",
        },
        # A writer waits as long as a busy machine takes; the scheduler would end otherwise.
        "database": {"sql_alchemy_conn": f"sqlite:///{home / 'airflow.db'}?timeout=60"},
        "api": {"host": "127.0.0.1", "base_url": url, "secret_key": secrets.token_hex(32)},
        "api_auth": {"jwt_secret": secrets.token_hex(32)},
        "scheduler": {"scheduler_idle_sleep_time": "0.1"},
        # A failed task is only detected at its next heartbeat; the default is five seconds.
        "workers": {"min_heartbeat_interval": "1"},
        "dag_processor": {
            "min_file_process_interval": "5",
            "refresh_interval": "5",
            "bundle_refresh_check_interval": "1",
        },
        "logging": {"base_log_folder": str(home / "logs")},
        "usage_data_collection": {"enabled": "false"},
    }
    return {
        f"AIRFLOW__{section.upper()}__{name.upper()}": value
        for section, options in settings.items()
        for name, value in options.items()
    }


def _passwords(setup: Setup) -> dict[str, str]:
    """Returns a password for each user, keeping existing ones."""
    file = setup.home / _PASSWORDS
    kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    chosen = {name: kept.get(name) or secrets.token_urlsafe(9) for name in setup.users}
    file.touch(mode=0o600)
    file.chmod(0o600)
    file.write_text(json.dumps(chosen), encoding="utf-8")
    return chosen


def _migrate(home: Path, environ: Mapping[str, str]) -> None:
    done = subprocess.run(
        _command("db", "migrate"), env=environ, capture_output=True, text=True, check=False
    )
    (home / "db-migrate.log").write_text(done.stdout + done.stderr, encoding="utf-8")
    if done.returncode:
        raise AirflowNotReadyError("database", (done.stdout + done.stderr)[-2000:])


def _wait_until_healthy(url: str, home: Path, parts: Mapping[str, Process]) -> None:
    anybody, needed = Client(url), parts.values()
    if not processes.wait_until(lambda: _healthy(anybody), seconds=_READY_SECONDS, needed=needed):
        dead = [name for name, part in parts.items() if not processes.alive(part)]
        blamed = dead[0] if dead else "api-server"
        raise AirflowNotReadyError(blamed, processes.end_of(home / f"{blamed}.log"))


def _healthy(client: Client) -> bool:
    with contextlib.suppress(OSError):  # refused, timed out, or "503 not yet"
        health = client.get("/api/v2/monitor/health")
        parts = ("metadatabase", "scheduler", "dag_processor")
        return all(health[part]["status"] == "healthy" for part in parts)
    return False
