"""One real Airflow for all tests of this folder, with a DAG for every kind of checkpoint."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.s3 import Place, moto
from tests.support.servers import Servers
from tests.systems.airflow.forking import Pythons, forking_pythons
from tests.systems.airflow.production import Production
from tests.systems.airflow.production import production as in_production
from tests.systems.airflow.support import (
    DAGS,
    PLUGINS,
    THRIFTY,
    Takings,
    damaged,
    neglected,
    obstacle,
    takings,
    uncommitted,
    unreadable,
)
from tools.demo.airflow import Airflow, Setup, airflow
from tools.demo.airflow_client import Client, TaskInstance
from tools.demo.processes import alive

_servers = Servers(Path(__file__).parent)

USERS = {"admin": "admin", "viewer": "viewer", "paula": "viewer", "nobody": ""}

QUERIES = """
defaults: {{min_batches_to_retain: 5, grace: 0s}}
queries:
  good: {{checkpoint: {folder}/good, detail: partition}}
  damaged:
    checkpoint: {folder}/damaged
    detail: partition
    retries: 3
    notify: [{{call: {notifier}}}]
  dry: {{checkpoint: {folder}/dry}}
  unseen: {{checkpoint: {folder}/unseen}}
  poolless: {{checkpoint: {folder}/poolless, pool: no such pool, notify: [{{call: {notifier}}}]}}
  removed: {{checkpoint: {folder}/removed}}
  idle: {{checkpoint: {folder}/idle}}
  backed:
    checkpoint: {folder}/backed
    retries: 3
    retry_delay: 1s
    savepoint: {{to: "{folder}/to/{{query}}/{{batch}}", schedule: "@yearly", keep: {{last: 1}}}}
  logged: {{checkpoint: {folder}/logged}}
  flaky: {{checkpoint: {folder}/flaky, retries: 10, retry_delay: 1s}}
  anew: {{checkpoint: {folder}/anew, retries: 10, retry_delay: 1s}}
  held: {{checkpoint: {folder}/held}}
  late:
    checkpoint: {folder}/late
    retries: 10
    retry_delay: 1s
    deadline: 1s
    notify: [{{call: {notifier}}}]
  ticking: {{checkpoint: {folder}/ticking, schedule: "* * * * *"}}
  cancelled: {{checkpoint: {folder}/cancelled, retry_delay: 1h}}
  killed: {{checkpoint: {folder}/killed, max_tasks: 1, retry_delay: 1s}}
  after: {{checkpoint: {folder}/after, after: "statemaint://good"}}
  twice: {{checkpoint: {folder}/twice}}
  misspelt: {{checkpoint: {folder}/misspelt, cron: "@hourly"}}
  wide: {{checkpoint: {folder}/wide, max_tasks: 3}}
  fresh: {{checkpoint: {folder}/fresh}}
  unreadable: {{checkpoint: {folder}/unreadable}}
  gone: {{checkpoint: "{folder}/<gone>"}}
  lake: {{checkpoint: "s3://lake/checkpoint", connection: the_lake}}
  sixteen: {{checkpoint: "s3://held/sixteen", connection: the_held_lake}}
  rising: {{checkpoint: "s3://held/rising", connection: the_held_lake, max_tasks: 1}}
  slain: {{checkpoint: "s3://held/slain", connection: the_held_lake, max_tasks: 1, retries: 0}}
  "by_{{engine}}":
    for_each: {{engine: [spark, tasks]}}
    checkpoint: "{folder}/by_{{engine}}"
    engine: spark
    spark: {{master: "local[1]", conf: {{spark.ui.enabled: false}}}}
  "many_{{how}}":
    for_each: {{how: [good, damaged, held]}}
    checkpoint: "{folder}/many_{{how}}"
    engine: spark
    together: many
    spark: {{master: "local[1]", conf: {{spark.ui.enabled: false}}}}
"""
TOGETHER = "statemaint_together_many"
SAVING = "statemaint_savepoint__backed"

KILLED = 600  # so many versions that a task takes a while
NOTIFIER = "tests.systems.airflow.notified.note"
RUN = (
    "good",
    "damaged",
    "dry",
    "unseen",
    "logged",
    "poolless",
    "removed",
    "idle",
    "flaky",
    "anew",
    "held",
    "late",
    "ticking",
    "cancelled",
    "killed",
    "after",
    "twice",
    "wide",
    "fresh",
    "unreadable",
    "lake",
    "sixteen",
    "rising",
    "slain",
    "by_spark",
    "by_tasks",
)


@dataclass(frozen=True, slots=True)
class Scene:
    """The Airflow, its checkpoints by the query's name, what was pushed, and a server of S3."""

    airflow: Airflow
    folder: Path
    pushed: Takings
    admin: Client
    s3: Place

    def checkpoint(self, query: str) -> Path:
        """Returns where a query's checkpoint lies."""
        return self.folder / query

    def run(self, query: str, conf: Mapping[str, object] | None = None) -> "Ended":
        """Runs a query's DAG once, and waits for its end."""
        return self.run_dag(f"statemaint__{query}", conf)

    def run_dag(self, dag: str, conf: Mapping[str, object] | None = None) -> "Ended":
        """Runs a DAG once, and waits for its end."""
        run = self.admin.trigger(dag, conf)
        state = self.admin.wait_for_run(dag, run)
        return Ended(self.admin, dag, run, state)


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that has ended."""

    client: Client
    dag: str
    run: str
    state: str

    @property
    def tasks(self) -> list[TaskInstance]:
        """Returns all its task instances, by task and map index."""
        return self.client.task_instances(self.dag, self.run)

    @property
    def states(self) -> dict[str, str | None]:
        """Returns the state of each task instance, by the name that the UI shows."""
        return {one.label or one.task: one.state for one in self.tasks}

    def instance(self, name: str) -> TaskInstance:
        """Returns the task instance that the UI shows by a name."""
        return next(one for one in self.tasks if name in (one.label, one.task))

    def log(self, name: str) -> str:
        """Returns the log of a task instance that the UI shows by a name."""
        return self.client.log(self.dag, self.run, self.instance(name))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A real Airflow that has parsed a DAG for every kind of checkpoint, all of them unpaused."""
    if find_spec("airflow") is None:
        pytest.skip("Airflow is not installed; it is in the extra `airflow`")
    return _servers.get("scene", lambda: _scene(tmp_path_factory.mktemp("airflow")))


@pytest.fixture(scope="module")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> Pythons:
    """Pythons that have imported Airflow, each in a process of its own."""
    if find_spec("airflow") is None:
        pytest.skip("Airflow is not installed; it is in the extra `airflow`")
    return _servers.get("pythons", lambda: forking_pythons(tmp_path_factory.mktemp("pythons")))


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory) -> Production:
    """A second Airflow, as in production."""
    if find_spec("airflow") is None:
        pytest.skip("Airflow is not installed; it is in the extra `airflow`")
    return _servers.get("production", lambda: in_production(tmp_path_factory.mktemp("production")))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Ends the Airflow with the last of its tests."""
    _servers.leave(nextitem)


@contextmanager
def _scene(folder: Path) -> Iterator[Scene]:
    _fill(folder)
    with moto() as s3, takings() as pushed, airflow(_setup(folder, pushed.url)) as running:
        admin = running.client()
        for dag in (TOGETHER, SAVING, *(f"statemaint__{query}" for query in RUN)):
            admin.wait_for_dag(dag)
            admin.unpause(dag)
        yield Scene(running, folder, pushed, admin, s3)
    assert not any(alive(part) for part in running.parts.values())


def _fill(folder: Path) -> None:
    for name in ("good", "dry", "unseen", "flaky", "anew", "held", "late", "ticking", "cancelled",
                 "after", "twice", "logged", "poolless", "removed", "idle", "backed"):  # fmt: skip
        neglected(folder / name)
    neglected(folder / "wide", partitions=10)
    neglected(folder / "killed", partitions=10, last=KILLED)
    damaged(folder / "damaged")
    for name in ("by_spark", "by_tasks"):
        damaged(folder / name, partition=1, partitions=2)
    for name in ("many_good", "many_held"):
        neglected(folder / name, partitions=2)
    damaged(folder / "many_damaged", partition=1, partitions=2)
    uncommitted(folder / "fresh")
    unreadable(folder / "unreadable")
    for name in ("flaky", "anew", "late", "cancelled"):
        obstacle(folder / name).parent.mkdir(parents=True)
        obstacle(folder / name).touch()
    text = QUERIES.format(folder=folder, notifier=NOTIFIER)
    (folder / "queries.yaml").write_text(text, encoding="utf-8")


def _setup(folder: Path, gateway: str) -> Setup:
    return Setup(
        home=folder / "home",
        dags=DAGS,
        plugins=PLUGINS,
        queries=folder / "queries.yaml",
        gateway=gateway,
        users=USERS,
        environ={
            **THRIFTY,
            "PYTHONPATH": str(ROOT),
            "AIRFLOW__CORE__AUTH_MANAGER": "tests.systems.airflow.picky_auth.PickyAuthManager",
            "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
            "STATEMAINT_TEST_NOTES": str(folder / "notified"),
        },
    )
