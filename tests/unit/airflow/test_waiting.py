"""A task that finds the lease held: rescheduled, or deferred to the triggerer."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowRescheduleException,
    TaskDeferred,
)

from statemaint.airflow import endings, passed_on, run_tasks, triggers
from statemaint.airflow.endings import StatemaintTask, WaitingOperator, wait
from statemaint.airflow.operators import MaintainCheckpointOperator, VerifyCheckpointOperator
from statemaint.airflow.run_tasks import Terms
from statemaint.airflow.settings import QuerySettings
from statemaint.airflow.triggers import LeaseTrigger, delay_after
from statemaint.execute.lease import acquire
from statemaint.model.policy import PRESETS
from statemaint.records.claims import Holder
from statemaint.storage import LocalStorage
from tests.systems.airflow.support import neglected

HOUR = timedelta(hours=1)
DEFAULT = "AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE"


class Context(dict[str, Any]):
    """What a task that waits reads of Airflow's context."""

    def __init__(self, task: object, *, rescheduled: datetime | None = None) -> None:
        instance = SimpleNamespace(
            get_first_reschedule_date=lambda _: rescheduled, xcom_push=lambda *_: None
        )
        super().__init__(task=task, ti=instance, task_reschedule_count=int(bool(rescheduled)))


def operator(**more: Any) -> VerifyCheckpointOperator:
    return VerifyCheckpointOperator(task_id="verify", checkpoint="s3://lake/a", **more)


def ends(
    monkeypatch: pytest.MonkeyPatch, task: object, *, rescheduled: datetime | None = None
) -> BaseException:
    """Returns how a task ends that would wait for an hour at most."""
    context = Context(task, rescheduled=rescheduled)
    monkeypatch.setattr(endings, "get_current_context", lambda: context)
    with pytest.raises(BaseException) as caught:  # noqa: PT011 -- what it is, is the result
        wait("LEASE_HELD: by a", HOUR, checkpoint="s3://lake/a", connection="lake")
    return caught.value


def deferred(
    monkeypatch: pytest.MonkeyPatch, task: WaitingOperator
) -> tuple[TaskDeferred, dict[str, Any]]:
    ended = ends(monkeypatch, task)
    assert isinstance(ended, TaskDeferred)
    return ended, ended.trigger.serialize()[1]


def test_a_deferrable_task_waits_in_the_triggerer_until_its_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began = datetime.now(UTC).timestamp()
    ended, fields = deferred(monkeypatch, operator(deferrable=True))
    assert fields.keys() == {"checkpoint", "connection", "until", "looks"}
    assert (fields["checkpoint"], fields["connection"]) == ("s3://lake/a", "lake")
    assert fields["until"] == pytest.approx(began + 3600, abs=60)
    assert json.loads(json.dumps(fields)) == fields, "only plain values"
    # Without a triggerer, Airflow's scheduler fails the task.
    assert ended.timeout == HOUR + timedelta(minutes=5)


def test_a_trigger_is_made_again_from_what_airflow_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    trigger = deferred(monkeypatch, operator(deferrable=True))[0].trigger
    path, fields = trigger.serialize()
    module, _, name = path.rpartition(".")
    assert getattr(import_module(module), name)(**fields).serialize() == (path, fields)


@pytest.mark.parametrize(
    ("setting", "given", "ending"),
    [
        ("False", None, AirflowRescheduleException),
        ("True", None, TaskDeferred),
        ("True", False, AirflowRescheduleException),
        ("False", True, TaskDeferred),
    ],
)
def test_airflows_default_counts_unless_an_operator_has_its_own(
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    given: bool | None,  # noqa: FBT001
    ending: type[BaseException],
) -> None:
    monkeypatch.setenv(DEFAULT, setting)
    task = MaintainCheckpointOperator(task_id="a", checkpoint="/a", deferrable=given)
    assert isinstance(ends(monkeypatch, task), ending)


def test_a_task_of_a_generated_dag_waits_as_airflows_default_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = StatemaintTask(
        task_id="plan", python_callable=lambda: "planned", op_args=[], op_kwargs={}
    )
    assert isinstance(ends(monkeypatch, task), AirflowRescheduleException)
    monkeypatch.setenv(DEFAULT, "True")
    assert isinstance(ends(monkeypatch, task), TaskDeferred)


def test_a_task_goes_on_after_the_triggerers_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    task: Any = StatemaintTask(
        task_id="plan", python_callable=lambda: "done", op_args=[], op_kwargs={}
    )
    since = datetime.now(UTC) - timedelta(minutes=10)
    assert task.look_again({}, {"looks": 3}, since=since.isoformat()) == "done"
    monkeypatch.setenv(DEFAULT, "True")
    ended, fields = deferred(monkeypatch, task)  # another run was quicker
    assert (fields["looks"], fields["until"]) == (3, (since + HOUR).timestamp())
    assert ended.kwargs == {"since": since.isoformat()}


def test_a_plan_publishes_the_held_lease_at_its_first_wait_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(DEFAULT, "True")
    published: list[QuerySettings] = []
    monkeypatch.setattr(run_tasks, "publish_held", published.append)
    settings = QuerySettings("a", "s3://lake/a", PRESETS["safe"], connection="lake")
    task = StatemaintTask(
        task_id="plan", python_callable=lambda: "planned", op_args=[], op_kwargs={}
    )
    for looks in (0, 2):
        task.looks = looks
        context = Context(task)
        for module in (endings, passed_on, run_tasks):
            monkeypatch.setattr(module, "get_current_context", lambda context=context: context)
        with pytest.raises(TaskDeferred) as caught:
            run_tasks._wait("LEASE_HELD: by b", settings, Terms(HOUR))
        fields = caught.value.trigger.serialize()[1]
        assert (fields["checkpoint"], fields["connection"]) == ("s3://lake/a", "lake")
    assert published == [settings]


def test_a_task_gives_up_after_its_time_however_it_has_waited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    long_ago = datetime.now(UTC) - 2 * HOUR
    ended = ends(monkeypatch, operator(deferrable=False), rescheduled=long_ago)
    assert isinstance(ended, AirflowFailException)
    task = operator(deferrable=True)
    task.since = long_ago
    ended = ends(monkeypatch, task)
    assert isinstance(ended, AirflowFailException)
    assert str(ended) == "LEASE_HELD: by a; gave up after 1:00:00"


def test_each_delay_is_twice_the_one_before_up_to_five_minutes() -> None:
    seconds = [delay_after(looks).total_seconds() for looks in (0, 1, 2, 5, 6, 7, 10_000)]
    assert seconds == [5, 10, 20, 160, 300, 300, 300]


class Clock:
    """A clock that sleeping moves on; `wakes` is called after each sleep."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, wakes: Any = lambda _: None) -> None:
        self.now, self.slept, self.wakes = 1000.0, list[float](), wakes
        monkeypatch.setattr(triggers, "time", SimpleNamespace(time=lambda: self.now))
        run = SimpleNamespace(sleep=self.sleep, to_thread=asyncio.to_thread)
        monkeypatch.setattr(triggers, "asyncio", run)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        self.wakes(len(self.slept))


def fired(trigger: LeaseTrigger) -> list[Any]:
    async def events() -> list[Any]:
        return [event.payload async for event in trigger.run()]

    return asyncio.run(events())


def test_a_trigger_fires_when_the_lease_is_released(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    checkpoint = neglected(tmp_path / "a")
    lease = acquire(LocalStorage(checkpoint), Holder("other"))
    clock = Clock(monkeypatch, lambda sleeps: lease.release() if sleeps == 3 else None)
    trigger = LeaseTrigger(str(checkpoint), None, until=clock.now + 3600, looks=1)
    assert fired(trigger) == [{"looks": 4}]
    assert clock.slept == [10, 20, 40]


def test_a_trigger_fires_at_its_deadline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    checkpoint = neglected(tmp_path / "a")
    acquire(LocalStorage(checkpoint), Holder("other"))
    clock = Clock(monkeypatch)
    assert fired(LeaseTrigger(str(checkpoint), None, until=clock.now + 17)) == [{"looks": 3}]
    assert clock.slept == [5, 10, 2]


def test_a_trigger_that_cannot_read_the_lease_leaves_the_error_to_the_task(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Clock(monkeypatch)
    assert fired(LeaseTrigger("nowhere://a/b", None, until=5000.0)) == [{"looks": 1}]
    assert "the lease of nowhere://a/b cannot be read" in caplog.text


def test_a_held_lease_defers_an_operator_with_the_address_that_is_held(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    checkpoint = neglected(tmp_path / "a")
    acquire(LocalStorage(checkpoint), Holder("other"))

    class Waits(VerifyCheckpointOperator):
        def work(self, context: Any) -> dict[str, Any]:
            del context
            acquire(self.storage(), Holder("mine"))
            return {}

    task = Waits(task_id="a", checkpoint=str(checkpoint), deferrable=True)
    monkeypatch.setattr(endings, "get_current_context", lambda: Context(task))
    with pytest.raises(TaskDeferred) as caught:
        task.execute({})
    assert caught.value.trigger.serialize()[1]["checkpoint"] == str(checkpoint)
