"""How the program starts Spark: its own, that of `spark-submit`, or a remote one."""

from typing import Any

import pytest

from statemaint.spark import session as module
from statemaint.spark.session import session

_JAVA = "spark.driver.defaultJavaOptions"


class Builder:
    """Takes what a session would be built from, and builds nothing."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}

    def config(self, name: str, value: str) -> "Builder":
        self.settings[name] = value
        return self

    def appName(self, _name: str) -> "Builder":  # noqa: N802 -- as Spark's
        return self

    def master(self, name: str) -> "Builder":
        return self.config("spark.master", name)

    def remote(self, address: str) -> "Builder":
        return self.config("spark.remote", address)

    def getOrCreate(self) -> dict[str, str]:  # noqa: N802 -- as Spark's
        return self.settings


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Spark, and no `spark-submit` that has started this process."""
    monkeypatch.setattr(module, "_session_class", lambda: type("Spark", (), {"builder": Builder()}))
    for name in ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")


def test_its_own_spark_compiles_java_once() -> None:
    settings: Any = session(None, None)
    assert settings["spark.master"] == "local[*]"
    assert settings[_JAVA] == "-XX:TieredStopAtLevel=1"


def test_sparks_of_others_keep_their_java_options(monkeypatch: pytest.MonkeyPatch) -> None:
    remote: Any = session(None, "sc://far")
    assert remote == {"spark.remote": "sc://far"}
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "4040")
    assert session(None, None) == {}
