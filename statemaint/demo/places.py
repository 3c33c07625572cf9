"""The demo's files and servers: one folder, one queries file, one Airflow."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import yaml

from statemaint.demo.airflow import Setup

PROJECT = Path(__file__).parents[2]
QUERY = "hourly_revenue"
POLICY = {"min_deltas_for_snapshot": 5, "min_batches_to_retain": 8, "grace": "0s"}
# Where `make up` has its Airflow; on another port where this one is taken.
AIRFLOW_PORT = 8080
DASHBOARD = PROJECT / "helm/statemaint/files/dashboard.json"
ALERTS = PROJECT / "helm/statemaint/files/alerts.yaml"


@dataclass(frozen=True, slots=True)
class Places:
    """The demo's folder: `job` is the maintained query's root, `twin` the untouched copy's."""

    folder: Path

    @property
    def job(self) -> Path:
        """Returns the root of the query that is maintained."""
        return self.folder / "job"

    @property
    def twin(self) -> Path:
        """Returns the root of the copy that is never maintained."""
        return self.folder / "twin"

    @property
    def checkpoint(self) -> Path:
        """Returns the checkpoint that is maintained."""
        return self.job / "checkpoint"

    @property
    def queries(self) -> Path:
        """Returns the queries file."""
        return self.folder / "queries.yaml"

    @property
    def textfiles(self) -> Path:
        """Returns the folder for metrics when there is no Pushgateway."""
        return self.folder / "textfile"

    @property
    def servers(self) -> Path:
        """Returns the folder of Pushgateway and Prometheus."""
        return self.folder / "servers"

    @property
    def airflow(self) -> Path:
        """Returns Airflow's home."""
        return self.folder / "airflow"

    def clear(self) -> None:
        """Deletes everything and creates the folder of the job."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.job.mkdir(parents=True)

    def write_queries(self, gateway: str | None) -> None:
        """Writes the queries file: one query, and the destination of its metrics."""
        metrics = {"pushgateway": gateway} if gateway else {"textfile": str(self.textfiles)}
        query = {"checkpoint": str(self.checkpoint)}
        content = {"defaults": POLICY, **metrics, "queries": {QUERY: query}}
        self.queries.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")

    def setup(self, gateway: str | None) -> Setup:
        """Returns the demo's Airflow configuration, with the project's own DAGs and plugin."""
        return Setup(
            home=self.airflow,
            dags=PROJECT / "dags",
            plugins=PROJECT / "plugins",
            queries=self.queries,
            gateway=gateway,
        )
