"""The demo's files and servers: one folder, one queries file, one Airflow."""

import shutil
from pathlib import Path

import yaml

from tools.demo.airflow import Setup

PROJECT = Path(__file__).parents[2]
QUERY = "hourly_revenue"
# For `make up`: copies of that one; a run maintains one and finds damage in the other.
HEALTHY, BROKEN = "healthy_revenue", "broken_revenue"
POLICY = {"min_deltas_for_snapshot": 5, "min_batches_to_retain": 8, "grace": "0s"}
# The port of Airflow for `make up`; another one if this is taken.
AIRFLOW_PORT = 8080
DASHBOARDS = PROJECT / "helm/statemaint/files/dashboards"
ALERTS = PROJECT / "helm/statemaint/files/alerts.yaml"
INHIBITION = ALERTS.with_name("alertmanager.yaml")


class Places:
    """The demo's folder: `job` is the maintained query's root, `twin` the untouched copy's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.job, self.twin = folder / "job", folder / "twin"
        self.checkpoint = self.job / "checkpoint"
        self.queries = folder / "queries.yaml"
        self.textfiles = folder / "textfile"  # for metrics when there is no Pushgateway
        self.servers, self.airflow = folder / "servers", folder / "airflow"

    def clear(self) -> None:
        """Deletes everything and creates the folder of the job."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.job.mkdir(parents=True)

    def copy_of(self, query: str) -> Path:
        return self.folder / query / "checkpoint"

    def write_queries(self, gateway: str | None, *copies: str) -> None:
        metrics = {"pushgateway": gateway} if gateway else {"textfile": str(self.textfiles)}
        checkpoints = {QUERY: self.checkpoint} | {copy: self.copy_of(copy) for copy in copies}
        queries = {
            name: {"checkpoint": str(path), "detail": "partition"}
            for name, path in checkpoints.items()
        }
        content = {"defaults": POLICY, **metrics, "queries": queries}
        self.queries.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")

    def setup(self, gateway: str | None) -> Setup:
        return Setup(self.airflow, PROJECT / "dags", PROJECT / "plugins", self.queries, gateway)
