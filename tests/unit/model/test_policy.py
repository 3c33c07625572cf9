"""The policy's numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.errors import ConfigError
from statemaint.model.policy import PRESETS, SETTINGS, Policy, duration, seconds


@pytest.mark.parametrize(
    ("text", "value"),
    [("0s", 0), ("90s", 90), ("15m", 900), ("1h", 3600), ("7d", 604800), ("1.5h", 5400)],
)
def test_reads_durations(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "5", "h", "-1s", "1w", "1h30m", "inf s", "1 h"])
def test_refuses_what_is_no_duration(text: str) -> None:
    with pytest.raises(ConfigError, match="not a duration"):
        seconds(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0s"),
        (59, "59s"),
        (59.0, "59s"),
        (60.0, "1m"),
        (900, "15m"),
        (7200.0, "2h"),
        (604800, "7d"),
        (1.5, "1.5s"),
    ],
)
def test_writes_the_largest_unit_that_gives_a_whole_number(value: float, text: str) -> None:
    assert duration(value) == text


@given(st.integers(0, 10**7))
def test_writes_a_duration_as_it_is_read(value: int) -> None:
    assert seconds(duration(value)) == value


@pytest.mark.parametrize(
    "changes",
    [
        {"min_deltas_for_snapshot": 0},
        {"min_batches_to_retain": 0},
        {"grace": -1},
        {"orphan_age": -0.5},
        {"max_deletes_per_run": -1},
        {"max_seconds_per_run": -1},
        {"grace": float("nan")},
    ],
)
def test_refuses_thresholds_that_cannot_be(changes: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="must be at least"):
        Policy().override(**changes)


def test_refuses_a_setting_that_does_not_exist() -> None:
    with pytest.raises(ConfigError, match="trash"):
        Policy().override(trash=1)


def test_refuses_a_part_of_a_batch() -> None:
    with pytest.raises(ConfigError, match=r"min_batches_to_retain must be .*, not 1\.5"):
        Policy().override(min_batches_to_retain=1.5)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("grace", 900.0, "15m"),
        ("min_batches_to_retain", 7, "7"),
        ("max_deletes_per_run", None, "unlimited"),
        ("rebase", True, "on"),
        ("rebase", False, "off"),
    ],
)
def test_a_setting_is_shown_by_its_kind(name: str, value: float | None, text: str) -> None:
    (setting,) = (setting for setting in SETTINGS if setting.name == name)
    assert setting.shown(value) == text


def test_none_keeps_the_default() -> None:
    assert Policy().override(grace=None, min_batches_to_retain=7) == Policy(min_batches_to_retain=7)


def test_the_spark_preset_has_sparks_defaults() -> None:
    spark = PRESETS["spark"]
    assert (spark.min_deltas_for_snapshot, spark.min_batches_to_retain) == (10, 100)
    assert not spark.rebase
