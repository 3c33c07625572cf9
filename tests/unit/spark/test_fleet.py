import json
from pathlib import Path

import pytest

from statemaint.errors import ConfigError
from statemaint.model.policy import PRESETS, Policy
from statemaint.queries import valid_queries
from statemaint.spark.fleet import Target, fleet_of

FILE = """
defaults: {min_batches_to_retain: 7}
queries:
  a: {checkpoint: /c/a, policy: {grace: 5m}}
  b: {checkpoint: "s3://bucket/b"}
  idle: {checkpoint: /c/idle, enabled: false}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "queries.yaml").write_text(FILE)
    return tmp_path / "queries.yaml"


def test_a_file_gives_its_enabled_queries_with_their_policies(file: Path) -> None:
    safe = PRESETS["safe"].override(min_batches_to_retain=7)
    expected = (Target("a", "/c/a", safe.override(grace=300.0)), Target("b", "s3://bucket/b", safe))
    assert fleet_of(file) == fleet_of(str(file)) == fleet_of(valid_queries(file)) == expected


def test_addresses_by_name_are_a_fleet_with_the_safe_policy() -> None:
    assert fleet_of({"a": "/c/a"}) == (Target("a", "/c/a", PRESETS["safe"]),)
    assert fleet_of(iter([Target("a", "/c/a")])) == (Target("a", "/c/a", PRESETS["safe"]),)


def test_settings_of_the_run_count_for_every_query(file: Path) -> None:
    found = fleet_of(file, {"min_deltas_for_snapshot": 3})
    assert {one.policy.min_deltas_for_snapshot for one in found} == {3}
    assert {one.policy.min_batches_to_retain for one in found} == {7}


def test_a_target_travels_as_it_is() -> None:
    target = Target("a", "/c/a", Policy(max_seconds_per_run=3.5))
    assert Target.from_json(json.loads(json.dumps(target.to_json()))) == target


def test_a_file_with_a_mistake_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "queries.yaml").write_text("queries: {a: {chkpoint: /c}}")
    with pytest.raises(ConfigError, match="chkpoint"):
        fleet_of(tmp_path / "queries.yaml")


def test_a_connection_of_airflows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "queries.yaml").write_text(
        "queries: {a: {checkpoint: 's3://bucket/a', connection: aws_default}}"
    )
    with pytest.raises(ConfigError, match=r"queries\.a\.connection: .* take it out"):
        fleet_of(tmp_path / "queries.yaml")
