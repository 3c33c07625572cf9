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
from statemaint.workers import nothing
from tools.demo import processes
from tools.demo.airflow_client import Client
from tools.demo.processes import Process
from tools.demo.prometheus import ORIGIN

_READY_SECONDS = 400.0
_STOP_SECONDS = 5.0
_NOTE = "airflow.server.json"
_PASSWORDS = "passwords.json"
_NOT_READY = "did not become ready"

Progress = Callable[[str], None]


class AirflowNotReadyError(StatemaintError):
    """A part of Airflow ended, or Airflow did not become healthy in time."""

    code = "NOT_READY"


class AirflowEndedError(StatemaintError):
    """A part of a running Airflow has ended."""

    code = "AIRFLOW_ENDED"


def _blame(part: str, event: str, log: str) -> str:
    return f"Airflow's {part} {event}; the end of its log:\n{log}"


@dataclass(frozen=True, slots=True)
class Setup:
    """The configuration of an Airflow."""

    home: Path  # the folder of its database, logs and passwords
    dags: Path
    plugins: Path
    queries: Path
    gateway: str | None = None  # a Pushgateway's address
    # Roles by user name: admin, op, user, viewer; an empty role has no rights.
    users: Mapping[str, str] = field(default_factory=lambda: {"admin": "admin", "viewer": "viewer"})
    triggerer: bool = False  # which deferred tasks need
    environ: Mapping[str, str] = field(default_factory=dict)  # overrides what is set here


@dataclass(frozen=True, slots=True)
class Airflow:
    """A running Airflow, whose URL ends without a slash; passwords are by user, parts by name."""

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
        """Checks that all parts run; the error names one that has ended."""
        for name, part in self.parts.items():
            if not processes.alive(part):
                log = processes.end_of(self.home / f"{name}.log")
                raise AirflowEndedError(_blame(name, "has ended", log))


@contextmanager
def airflow(setup: Setup, *, progress: Progress = nothing) -> Iterator[Airflow]:
    """Runs an Airflow for the duration of a `with` block; see `start`.

    It is killed at the end: its programs take seconds to clean up data that is no longer needed.
    """
    try:
        yield start(setup, progress=progress)
    finally:
        stop(setup.home, seconds=0.0)


def start(setup: Setup, *, port: int | None = None, progress: Progress = nothing) -> Airflow:
    """Starts an Airflow that runs until `stop`, and waits until all its parts are healthy.

    It listens on 127.0.0.1, by default on a free port. If it does not become healthy in time
    (`AirflowNotReadyError`), all its parts are ended. `progress` gets one line about each step.
    """
    stop(setup.home)
    setup.home.mkdir(parents=True, exist_ok=True)
    url = f"http://127.0.0.1:{port or processes.free_port()}"
    environ, passwords = _environ(setup, url), _passwords(setup)
    progress("preparing the database")
    _migrate(setup.home, environ)
    # Task logs are read from the disk; serving them would take one more, fixed port.
    commands = {
        "api-server": ["--port", url.rpartition(":")[2]],
        "scheduler": ["--skip-serve-logs"],
        "dag-processor": [],
        **({"triggerer": ["--skip-serve-logs"]} if setup.triggerer else {}),
    }
    parts = {}
    try:
        for part, arguments in commands.items():
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

    Its programs are killed after some seconds.
    """
    processes.stop_noted(home / _NOTE, seconds=seconds)


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "airflow", *arguments]


def _environ(setup: Setup, url: str) -> dict[str, str]:
    """Returns the whole environment: this program's, with the setup's Airflow settings only."""
    others = ("AIRFLOW", "STATEMAINT_")
    inherited = {name: os.environ[name] for name in os.environ if not name.startswith(others)}
    return {
        **inherited,
        "AIRFLOW_HOME": str(setup.home),
        "STATEMAINT_ORIGIN": ORIGIN,
        "STATEMAINT_QUERIES": str(setup.queries),
        "NO_PROXY": "127.0.0.1,localhost",
        **({"STATEMAINT_PUSHGATEWAY": setup.gateway} if setup.gateway else {}),
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
    output = done.stdout + done.stderr
    (home / "db-migrate.log").write_text(output, encoding="utf-8")
    if done.returncode:
        raise AirflowNotReadyError(_blame("database", _NOT_READY, output[-2000:]))


def _wait_until_healthy(url: str, home: Path, parts: Mapping[str, Process]) -> None:
    anybody, needed = Client(url), parts.values()
    if not processes.wait_until(lambda: _healthy(anybody), seconds=_READY_SECONDS, needed=needed):
        dead = [name for name, part in parts.items() if not processes.alive(part)]
        blamed = dead[0] if dead else "api-server"
        log = processes.end_of(home / f"{blamed}.log")
        raise AirflowNotReadyError(_blame(blamed, _NOT_READY, log))


def _healthy(client: Client) -> bool:
    with contextlib.suppress(OSError):  # refused, timed out, or "503 not yet"
        health = client.get("/api/v2/monitor/health")
        parts = ("metadatabase", "scheduler", "dag_processor")
        return all(health[part]["status"] == "healthy" for part in parts)
    return False
