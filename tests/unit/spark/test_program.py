"""The parts of a fleet that several programs share."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from statemaint.queries.reading import is_in_shard
from statemaint.spark import program as module

NAMES = [f"query_{number}" for number in range(40)]


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "queries.yaml").write_text(
        "queries:\n"
        "  kept: {checkpoint: /c/kept, savepoint: {to: /backup/kept}}\n"
        "  other: {checkpoint: /c/other}\n"
    )
    return str(tmp_path / "queries.yaml")


def test_each_query_is_in_one_shard() -> None:
    for shards in (1, 2, 3, 7):
        for name in NAMES:
            assert sum(is_in_shard(name, (one, shards)) for one in range(1, shards + 1)) == 1
    assert {name for name in NAMES if is_in_shard(name, (1, 2))} not in (set(), set(NAMES))


@pytest.mark.parametrize("verb", ["maintain", "savepoint"])
def test_a_shard_without_work_ends_well_and_starts_no_spark(
    verb: str, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    def session(*_: object) -> object:
        begun.append(verb)
        raise RuntimeError("no Spark in this test")

    monkeypatch.setattr(module, "session", session)
    # `kept` is in the one, and nothing else that has savepoints.
    of_kept = next(one for one in range(1, 101) if is_in_shard("kept", (one, 100)))
    of_other = next(one for one in range(1, 101) if is_in_shard("other", (one, 100)))
    assert of_kept != of_other
    empty = {"maintain": 100 if 100 not in (of_kept, of_other) else 99, "savepoint": of_other}
    command = [verb, "--queries", file, "--json", "--shard"]
    done = CliRunner().invoke(module.program, [*command, f"{empty[verb]}/100"])
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"exit_code": 0, "queries": []})
    assert begun == []
    CliRunner().invoke(module.program, [*command, f"{of_kept}/100"])
    assert begun == [verb]


def test_a_query_without_savepoints_has_no_task_that_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def session(*_: object) -> object:
        raise RuntimeError("no Spark in this test")

    monkeypatch.setattr(module, "session", session)
    monkeypatch.setenv("STATEMAINT_ORIGIN", "here")
    saved, other = (
        "kept: {checkpoint: /c, savepoint: {to: '/saved/{batch}'}}",
        "other: {checkpoint: /o}",
    )
    file = tmp_path / "queries.yaml"
    file.write_text(f"textfile: {tmp_path}/metrics\nqueries:\n  {saved}\n  {other}\n")
    CliRunner().invoke(module.program, ["savepoint", "--queries", str(file)])
    published = [path.name for path in (tmp_path / "metrics").iterdir()]
    assert published == ["statemaint_kept@savepoint-0@here.prom"]


def test_a_file_without_savepoints_is_refused_in_every_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "session", lambda *_: type("Spark", (), {"stop": lambda _: None})())
    monkeypatch.setattr(module, "check_executors", lambda *_: None)
    file = tmp_path / "queries.yaml"
    file.write_text("queries:\n  a: {checkpoint: /c/a}\n")
    for shard in ("1/2", "2/2"):
        done = CliRunner().invoke(
            module.program, ["savepoint", "--queries", str(file), "--shard", shard]
        )
        assert "no query says where its savepoints are" in str(done.exception)


@pytest.mark.parametrize("flag", ["--to", "--partitions"])
def test_one_place_or_another_shape_is_refused_for_several_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: str
) -> None:
    monkeypatch.setattr(module, "session", lambda *_: type("Spark", (), {"stop": lambda _: None})())
    monkeypatch.setattr(module, "check_executors", lambda *_: None)
    file = tmp_path / "queries.yaml"
    file.write_text("queries:\n  a: {checkpoint: /c/a}\n  b: {checkpoint: /c/b}\n")
    command = ["savepoint", "--queries", str(file), flag, "3"]
    done = CliRunner().invoke(module.program, command)
    expected = "--to and another shape are of one query (--query); the latter needs --to"
    assert str(done.exception) == expected


@pytest.mark.parametrize("verb", ["maintain", "savepoint", "verify"])
def test_an_age_without_a_history_is_refused(verb: str, file: str) -> None:
    command = [verb, "--keep-history", "7d", "--queries", file]
    done = CliRunner().invoke(module.program, command)
    assert str(done.exception).endswith("--keep-history has no effect without --history")
