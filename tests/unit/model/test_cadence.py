import pytest

from statemaint.plan.planner import silent_after

HOUR, DAY = 3600.0, 86_400.0


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        ([], DAY),
        ([None, 5.0], DAY),
        ([0.0, 10.0, 20.0], HOUR),
        ([HOUR * n for n in range(24)], 3 * HOUR),
        ([7 * DAY * n for n in range(5)], 21 * DAY),
        ([0.0, HOUR, 2 * HOUR, 3 * DAY, 3 * DAY + HOUR], DAY),
        ([DAY * day + 10 * batch for day in range(9) for batch in range(4)], 1.5 * (DAY - 30)),
        ([7.0] * 9, DAY),
        ([HOUR * n + 10 * batch for n in range(10) for batch in range(20)], 3 * (HOUR - 190)),
    ],
    ids=[
        "none",
        "one",
        "often",
        "hourly",
        "weekly",
        "after an outage",
        "daily, several a run",
        "a copy",
        "several a run",
    ],
)
def test_a_query_is_silent_after_three_of_its_pauses(
    times: list[float | None], seconds: float
) -> None:
    assert silent_after(reversed(times)) == seconds
