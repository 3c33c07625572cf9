from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from statemaint.airflow.pages.render import ago, ahead, span, stamp

NOW = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "just now"),
        (0, "just now"),
        (59, "just now"),
        (60, "1 min ago"),
        (3599, "59 min ago"),
        (3600, "1 h ago"),
        (86_399, "23 h ago"),
        (86_400, "1 day ago"),
        (2 * 86_400, "2 days ago"),
    ],
)
def test_an_age_is_rounded_down(seconds: int, text: str) -> None:
    assert ago(NOW - timedelta(seconds=seconds), NOW) == text


def test_what_never_happened_has_no_age() -> None:
    assert ago(None, NOW) == "never"
    assert stamp(None) == ""


def test_what_should_have_begun_is_due() -> None:
    assert ahead(NOW - timedelta(seconds=1), NOW) == "due"
    assert ahead(NOW + timedelta(hours=19), NOW) == "in 19 h"


def test_a_span_has_one_unit() -> None:
    assert [span(one) for one in (-1, 12.9, 61, 7300)] == ["0 s", "12 s", "1 min", "2 h"]


def test_a_stamp_is_in_utc() -> None:
    assert stamp(NOW) == "2026-11-24 12:00 UTC"
