"""The logs of tasks: what was decided and done, in plain lines, and no dump of a returned value."""

import logging
from pathlib import Path

import pytest

from statemaint.airflow.settings import Options, QuerySettings
from statemaint.airflow.tasks import plan_query
from statemaint.airflow.texts import task_line
from statemaint.maintain.bundles import Bundle
from statemaint.model.policy import Policy
from tests.systems.airflow.conftest import Scene
from tests.systems.airflow.support import TARGET, damaged, neglected, work_on

POLICY = Policy(min_batches_to_retain=5, grace=0.0)


def maintained(checkpoint: Path, policy: Policy = POLICY) -> None:
    settings = QuerySettings("hourly", str(checkpoint), policy)
    work_on(settings, Bundle(0, (1, 2), TARGET), Options(), run="r")


def test_maintain_logs_what_it_did_in_each_store(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    maintained(damaged(tmp_path / "c"))
    assert "op 0 / part 1 / default: snapshots 17 and 25 written (" in caplog.text
    assert "), 16 files deleted (1.4 kB)" in caplog.text
    assert "op 0 / part 2 / default: halted" in caplog.messages
    assert "BROKEN_CHAIN: state/0/2/7.delta is missing" in caplog.text


def test_maintain_logs_files_of_the_trash_and_stores_without_work(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    checkpoint = neglected(tmp_path / "c")
    maintained(checkpoint, POLICY.override(trash_for=3600.0))
    assert "16 files moved to the trash (1.4 kB)" in caplog.text
    maintained(checkpoint)
    assert "op 0 / part 2 / default: nothing to do" in caplog.messages


def test_plan_logs_the_names_of_its_tasks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    plan_query(QuerySettings("hourly", str(neglected(tmp_path / "c")), POLICY), Options())
    listed = ", ".join(f"op 0 / part {number}" for number in range(4))
    assert f"4 tasks: {listed}" in caplog.messages


def test_the_names_of_a_thousand_tasks_are_cut() -> None:
    assert task_line(["a"]) == "1 task: a"
    line = task_line([f"task {number}" for number in range(1000)])
    assert line.endswith("task 14, task 15, and 984 more")


@pytest.mark.airflow
@pytest.mark.slow
def test_no_task_of_a_run_dumps_its_returned_value(scene: Scene) -> None:
    ended = scene.run("logged")
    assert ended.state == "success"
    logs = {name: ended.log(name) for name in ended.states}
    assert "Returned value was" not in "".join(logs.values())
    assert "4 tasks: op 0 / part 0, op 0 / part 1, op 0 / part 2, op 0 / part 3" in logs["plan"]
    assert "op 0 / part 3 / default: snapshots 17 and 25 written (" in logs["op 0 / part 3"]
