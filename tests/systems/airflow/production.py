"""An Airflow as in production: its database is PostgreSQL, and the package is known by its wheel.

The database is SQLite where PostgreSQL is not installed.
"""

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.postgres import NoPostgresError, postgresql
from tests.systems.airflow.support import (
    PLUGINS,
    TARGET,
    THRIFTY,
    damaged,
    neglected,
    obstacle,
)
from tools.demo.airflow import Airflow, Setup, airflow

_FILES = ("tests/systems/airflow/own/own_dags.py", "dags/statemaint_manual_dags.py",
          "dags/statemaint_dags.py")  # fmt: skip
_QUERIES = """
defaults: {{min_batches_to_retain: 5, grace: 0s}}
textfile: {own}/metrics
queries:
  good: {{checkpoint: {listed}/good, schedule: "* * * * *"}}
  dry: {{checkpoint: {listed}/dry}}
  damaged: {{checkpoint: {listed}/damaged}}
  after: {{checkpoint: {listed}/after, after: "statemaint://good"}}
  twice: {{checkpoint: {listed}/twice}}
  cancelled: {{checkpoint: {listed}/cancelled, retry_delay: 1h}}
  misspelt: {{checkpoint: {listed}/misspelt, cron: "@hourly"}}
  repaired: {{checkpoint: {own}/repaired}}
  rolled: {{checkpoint: {own}/rolled}}
  undone: {{checkpoint: {own}/undone}}
  followed: {{checkpoint: {own}/followed, after: hourly_clicks}}
"""


@dataclass(frozen=True, slots=True)
class Production:
    """The Airflow and its checkpoints.

    Attributes:
        airflow: it.
        postgresql: whether its database is PostgreSQL.
        listed: the folder of the queries that `test_postgres.py` runs.
        own: the folder of those that `own_dags.py` maintains, and of manual work.
    """

    airflow: Airflow
    postgresql: bool
    listed: Path
    own: Path


@contextmanager
def production(folder: Path) -> Iterator[Production]:
    """Runs the Airflow for the length of a `with` block."""
    listed, own = folder / "listed", folder / "own"
    _fill(listed, own)
    queries = folder / "queries.yaml"
    queries.write_text(_QUERIES.format(listed=listed, own=own), encoding="utf-8")
    (folder / "dags").mkdir()
    for file in _FILES:
        shutil.copy(ROOT / file, folder / "dags")
    with ExitStack() as running:
        database = _database(running)
        setup = Setup(
            home=folder / "home",
            dags=folder / "dags",
            plugins=PLUGINS,
            queries=queries,
            triggerer=True,
            environ={
                **THRIFTY,
                "PYTHONPATH": f"{_installed(folder / 'wheel')}:{ROOT}",
                "STATEMAINT_TEST_FOLDER": str(own),
                "STATEMAINT_TEST_NOTES": str(own / "notified"),
                "AIRFLOW_VAR_CHECKPOINTS": str(own),
                "AIRFLOW__STATEMAINT__DASHBOARD_URL": "http://grafana/d/state?var-query={query}",
                **database,
            },
        )
        yield Production(running.enter_context(airflow(setup)), bool(database), listed, own)


def _fill(listed: Path, own: Path) -> None:
    for name in ("good", "dry", "after", "twice", "cancelled"):
        neglected(listed / name)
    obstacle(listed / "cancelled").parent.mkdir(parents=True)
    obstacle(listed / "cancelled").touch()
    damaged(listed / "damaged")
    for name in ("single", "one", "two", "dagged", "awaited", "rolled", "undone"):
        neglected(own / name)
    for name in ("damaged", "torn"):
        damaged(own / name)
    for name in ("gate", "mending_gate", "repaired"):
        neglected(own / name)
        (own / f"{name}/state/0/1/{TARGET}.snapshot").write_bytes(b"torn")


def _database(running: ExitStack) -> Mapping[str, str]:
    """Starts a PostgreSQL, and returns its settings; none where it is not installed."""
    try:
        address = running.enter_context(postgresql()) if find_spec("psycopg") else None
    except NoPostgresError:
        address = None
    if address is None:
        return {}
    names = ("SQL_ALCHEMY_CONN", "SQL_ALCHEMY_CONN_ASYNC")
    return {f"AIRFLOW__DATABASE__{one}": f"postgresql+psycopg://{address}" for one in names}


def _installed(folder: Path) -> Path:
    """Returns a folder with what an installed wheel of this project says of itself.

    It is empty where what is installed says so already.
    """
    folder.mkdir()
    if any(one.name == "statemaint" for one in entry_points(group="airflow.plugins")):
        return folder
    build = "import sys, hatchling.build as b; print(b.build_wheel(sys.argv[1]))"
    command = [sys.executable, "-c", build, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    with zipfile.ZipFile(folder / done.stdout.split()[-1]) as wheel:
        wheel.extractall(folder, [one for one in wheel.namelist() if ".dist-info/" in one])
    return folder
