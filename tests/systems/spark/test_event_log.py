"""The event log of a real Spark shows the restarts of a query, in each of its forms."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import __version__ as spark_version

from statemaint.audit import doctor
from statemaint.storage import LocalStorage
from tests.support.paths import ROOT

_ONE_FILE = ("spark.eventLog.rolling.enabled=false", "spark.eventLog.compress=false")
_PARTS = ("spark.eventLog.rolling.enabled=true", "spark.eventLog.compress=true")


@pytest.mark.parametrize("form", [_ONE_FILE, _PARTS])
def test_the_restarts_in_an_event_log_correct_the_forecast(
    tmp_path: Path, form: tuple[str, ...]
) -> None:
    checkpoint, logs = tmp_path / "checkpoint", tmp_path / "logs"
    logs.mkdir()
    module = "tests.systems.spark.logged_query"
    done = subprocess.run(
        [sys.executable, "-m", module, str(checkpoint), str(logs), *form],
        check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT,
    )  # fmt: skip
    _, *took = json.loads(done.stdout.splitlines()[-1])
    found = doctor(LocalStorage(checkpoint), event_logs=LocalStorage(logs))
    past = found.past or ()
    first, second = past
    assert (first.version, second.version) == (1, 2)
    assert (first.warm, first.spark, first.slots) == (True, spark_version, 2)
    for restart, seconds in zip(past, took, strict=True):
        assert 0.5 * seconds < restart.seconds <= seconds
    assert len(found.ratios) == 2
    assert found.forecast.slots == 2
