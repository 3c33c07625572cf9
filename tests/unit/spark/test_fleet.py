import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from statemaint.errors import ConfigError
from statemaint.model.policy import PRESETS, Policy
from statemaint.report.task import dumped, loaded
from statemaint.spark.fleet import Target, fleet_of
from tests.support.queries import valid_queries

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


def test_each_query_of_a_fleet_has_a_name_of_its_own() -> None:
    fleet = [Target(name, f"/c/{place}") for place, name in enumerate("aba")]
    with pytest.raises(ConfigError, match="more than one query is named a; rename them"):
        fleet_of(fleet)
    # Two files may have an entry of one name with a mistake each, and stop no other query.
    invalid = [Target("a", "", mistake="no checkpoint"), Target("a", "", mistake="no such key")]
    assert [target.query for target in fleet_of(invalid)] == ["a", "a"]


def test_settings_of_the_run_count_for_every_query(file: Path) -> None:
    found = fleet_of(file, {"min_deltas_for_snapshot": 3})
    assert {one.policy.min_deltas_for_snapshot for one in found} == {3}
    assert {one.policy.min_batches_to_retain for one in found} == {7}


def test_a_target_travels_as_it_is() -> None:
    target = Target("a", "/c/a", Policy(max_seconds_per_run=3.5))
    assert loaded(Target, json.loads(json.dumps(dumped(target)))) == target


@pytest.mark.parametrize("text", ["", "queries: ["])
def test_a_file_that_cannot_be_read_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "queries.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"queries\.yaml"):
        fleet_of(tmp_path / "queries.yaml")


def mistakes(fleet: Iterable[Target]) -> dict[str, str | None]:
    return {one.query: one.mistake for one in fleet}


def test_a_mistake_stands_alone_in_a_fleet(tmp_path: Path) -> None:
    file = tmp_path / "queries.yaml"
    file.write_text(
        "pushgateway: host\n"
        "queries:\n"
        "  a: {chkpoint: /c}\n"
        "  b: {checkpoint: /b}\n"
        "  c: {checkpoint: 's3://bucket/a', connection: aws_default}\n"
    )
    found = mistakes(fleet_of(file))
    assert found.pop("b") is None
    assert list(found) == ["c", "a", str(file)]
    assert f"{file}:5: queries.c.connection: Spark's executors have no" in str(found["c"])
    assert f"{file}:3: queries.a.chkpoint: no such key" in str(found["a"])
    assert f"{file}:1: pushgateway: not a web address" in str(found[str(file)])


def test_a_query_with_a_mistake_is_not_opened(tmp_path: Path) -> None:
    target = Target("a", str(tmp_path), mistake="queries.yaml:3: queries.a: is wrong")
    with pytest.raises(ConfigError, match=r"^queries\.yaml:3: queries\.a: is wrong$"):
        target.open()
    assert loaded(Target, json.loads(json.dumps(dumped(target)))) == target


def test_the_last_good_version_of_an_entry_is_maintained_and_its_file_has_the_mistake(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATEMAINT_STATE", str(tmp_path / "state"))
    before = fleet_of(file)
    file.write_text(FILE.replace("grace: 5m", "grace: 5 minutes"))
    after = fleet_of(file)
    assert set(after[:-1]) == set(before)
    assert "queries.a.policy.grace: not a duration" in str(after[-1].mistake)
    assert after[-1].query == str(file)
