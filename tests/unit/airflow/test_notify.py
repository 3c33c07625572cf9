from collections.abc import Mapping
from typing import Any

import pytest

from statemaint.airflow.callbacks import deadline_missed
from statemaint.airflow.endings import notify_all


def test_each_notifier_has_the_report_and_none_stops_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls: list[Mapping[str, Any]] = []

    def broken(_: Mapping[str, Any]) -> None:
        raise RuntimeError("no network")

    notify_all([broken, calls.append], {"run_id": "a"}, {"note": "Broken: ..."})
    assert calls == [{"run_id": "a", "statemaint": {"note": "Broken: ..."}}]
    assert "no network" in caplog.text


def fails(_: Mapping[str, Any]) -> None:
    raise RuntimeError("no network")


_late: list[Mapping[str, Any]] = []


def succeeds(context: Mapping[str, Any]) -> None:
    _late.append(context["dag_run"])


def test_no_notifier_of_a_missed_deadline_stops_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls = [{"call": f"{__name__}.{name}"} for name in ("fails", "nowhere", "succeeds")]
    deadline_missed("a", calls, {"dag_run": {"run_id": "r"}})
    assert _late == [{"run_id": "r"}]
    assert "no network" in caplog.text
    assert "nowhere" in caplog.text
