"""A connection that Airflow denies to a task counts as one that is not defined."""

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowSecretsBackendAccessDenied

from statemaint.airflow.publish import credentials
from statemaint.airflow.settings import Options, QuerySettings
from statemaint.airflow.tasks import plan_query
from statemaint.metrics.options import GatewayAuth, Targets
from statemaint.model.policy import Policy
from statemaint.report.task import Failure


@pytest.fixture(autouse=True)
def denied(monkeypatch: pytest.MonkeyPatch) -> None:
    def get(name: str) -> None:
        raise AirflowSecretsBackendAccessDenied(f"Access denied for connection {name!r}")

    monkeypatch.setattr(Connection, "get", get)


def test_a_plan_without_its_connection_fails_for_good_with_what_to_do() -> None:
    where = QuerySettings("a", "s3://lake/a", Policy(), connection="lake")
    assert plan_query(where, Options()).failure == Failure(
        "CONFIG: the Airflow connection lake is not defined, or not for this task; create one of "
        "type 'aws' with that id"
    )


def test_metrics_without_their_connection_fail_no_task(caplog: pytest.LogCaptureFixture) -> None:
    targets = Targets("http://gateway:9091", GatewayAuth(connection="push"))
    assert credentials(QuerySettings("a", "/a", Policy(), targets=targets)) is None
    assert "connection push is not defined, or not for this task" in caplog.text
