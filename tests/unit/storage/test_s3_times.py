"""Times in S3's answers are those that botocore reads, whatever their form."""

from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.utils import parse_timestamp

from statemaint.storage.s3.client import parse_time

MOMENT = datetime(2026, 11, 23, 18, 5, 28, tzinfo=UTC)


@pytest.mark.parametrize(
    "found",
    [
        "2026-11-23T18:05:28.000Z",
        "2026-11-23T18:05:28Z",
        "2026-11-23T18:05:28+00:00",
        "2026-11-23 18:05:28",
        "Mon, 23 Nov 2026 18:05:28 GMT",
        "Mon, 23 Nov 2026 18:05:28 +0000",
        "Monday, 23-Nov-26 18:05:28 GMT",
        "Mon Nov 23 18:05:28 2026 UTC",
        "1795457128",
        1795457128,
        1795457128.0,
    ],
)
def test_every_form_of_a_time_is_read_as_botocore_reads_it(found: Any) -> None:
    parsed = parse_time(found)
    expected = parse_timestamp(found)
    if expected.tzinfo is None:
        expected = expected.replace(tzinfo=UTC)
    assert parsed == expected == MOMENT


@pytest.mark.parametrize("found", ["", "never", "2026-13-01T00:00:00Z", "Mon, 99 Nov 2026"])
def test_what_is_no_time_is_an_error(found: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_time(found)
