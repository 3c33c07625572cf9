"""Where the savepoints of a query are, and which are kept, in the queries file."""

from pathlib import Path

import pytest

from statemaint.savepoint.keep import RULES
from tests.unit.queries.test_queries import complaint, load
from tools.queries_schema import json_schema


def test_a_query_has_its_savepoints_beside_each_other(tmp_path: Path) -> None:
    text = """
    queries:
      "clicks_{region}":
        for_each: {region: [eu, us]}
        checkpoint: "/data/{region}"
        savepoint: {to: "s3://backup/{query}/{batch}", keep: {last: 7, weekly: 4}}
    """
    savepoint = load(tmp_path, text).queries["clicks_eu"].savepoint
    assert savepoint
    assert savepoint.address("clicks_eu", 24) == "s3://backup/clicks_eu/24"
    assert savepoint.folder("clicks_eu") == "s3://backup/clicks_eu"
    assert savepoint.keep == {"last": 7, "weekly": 4}


def test_a_savepoint_may_be_named_by_query_and_batch_together(tmp_path: Path) -> None:
    text = "queries: {a: {checkpoint: /x, savepoint: {to: '/to/{query}-{batch}/'}}}"
    savepoint = load(tmp_path, text).queries["a"].savepoint
    assert savepoint
    assert (savepoint.folder("a"), savepoint.address("a", 3)) == ("/to", "/to/a-3/")
    assert savepoint.keep is None


@pytest.mark.parametrize(
    ("schedule", "interval"),
    [("", None), (", schedule: '@once'", None), (", schedule: '@daily'", 86400.0)],
)
def test_the_interval_is_that_of_the_schedule(
    tmp_path: Path, schedule: str, interval: float | None
) -> None:
    text = f"queries: {{a: {{checkpoint: /x, savepoint: {{to: '/to/{{batch}}'{schedule}}}}}}}"
    assert load(tmp_path, text).queries["a"].savepoint_interval == interval


def test_the_file_has_every_rule() -> None:
    keep = json_schema()["$defs"]["SavepointSettings"]["properties"]["keep"]
    assert keep["anyOf"][0]["propertyNames"]["enum"] == [*RULES]


@pytest.mark.parametrize(
    ("savepoint", "said"),
    [
        ("{}", "savepoint.to: is missing; add it"),
        ("{to: '/b/{day}/{batch}'}", "savepoint.to: {day} is unknown here; {query} stands for"),
        ("{to: '/b/{query}'}", "savepoint.to: '/b/{query}' needs {batch} in its last part"),
        ("{to: '/b/{batch}/{query}'}", "savepoint.to: '/b/{batch}/{query}' needs {batch} in its"),
        ("{to: 's3://{batch}'}", "savepoint.to: 's3://{batch}' needs {batch} in its last part"),
        ("{to: '/{batch}'}", "savepoint.to: '/{batch}' needs {batch} in its last part"),
        ("{to: 'b/{batch}'}", "savepoint.to: 'b/{batch}' depends on where a task happens to run"),
        ("{to: 's3://u:p@b/{batch}'}", "savepoint.to: the address has a secret in it"),
        ("{to: '/x/clicks/{batch}'}", "savepoint.to: lies inside of the query's checkpoint"),
        ("{to: '/x/{query}/{batch}'}", "savepoint.to: lies inside of the query's checkpoint"),
        (
            "{to: '/b/{batch}', every: 1d}",
            "savepoint.every: no such key; the keys are to, schedule",
        ),
        ("{to: '/b/{batch}', schedule: '1d'}", "savepoint.schedule: '1d' is not a valid schedule"),
        ("{to: '/b/{batch}', keep: {}}", "savepoint.keep: names no savepoint to keep; write it"),
        ("{to: '/b/{batch}', keep: {last: 0}}", "savepoint.keep.last: must be greater than or"),
        (
            "{to: '/b/{batch}', keep: {hourly: 1}}",
            "savepoint.keep.hourly: must be 'last', ",
        ),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, savepoint: str, said: str) -> None:
    text = f"queries: {{clicks: {{checkpoint: /x/clicks, savepoint: {savepoint}}}}}"
    assert complaint(tmp_path, text).startswith(f"queries.clicks.{said}")
