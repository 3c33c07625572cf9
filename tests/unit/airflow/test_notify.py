from collections.abc import Mapping
from typing import Any

import pytest

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
