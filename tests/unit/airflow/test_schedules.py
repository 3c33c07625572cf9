from pathlib import Path

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from airflow.serialization.serialized_objects import DagSerialization

from statemaint.airflow.factory import build_dags
from statemaint.airflow.names import dag_id
from statemaint.queries.checks import PRESET_SCHEDULES


@pytest.mark.parametrize("after", ["", "after: clicks, "])
@pytest.mark.parametrize("schedule", [*PRESET_SCHEDULES, "5 4 * * *", "*/30 5 4 * * *"])
def test_airflow_finds_the_next_run_of_every_valid_schedule(
    tmp_path: Path, schedule: str, after: str
) -> None:
    file = tmp_path / "queries.yaml"
    entry = f"{{checkpoint: /data/a, {after}schedule: '{schedule}'}}"
    file.write_text(f"queries:\n  a: {entry}\n", encoding="utf-8")
    dag = build_dags(file)[dag_id("a")]
    assert dag.doc_md is not None
    assert "Not valid" not in dag.doc_md
    stored = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
    # Of a schedule that it cannot read, Airflow only logs why there is no run.
    assert stored.next_dagrun_info(last_automated_run_info=None) is not None
