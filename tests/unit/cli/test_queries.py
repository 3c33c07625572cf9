import json
from itertools import combinations
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from statemaint.cli.main import VERBS, program
from statemaint.storage import LocalStorage
from tests.support.checkpoints import write_checkpoint
from tests.support.program import run

BAD = """\
queries:
  good: {checkpoint: /good, pool: big}
  cron: {checkpoint: /cron, schedule: "99 * * * *"}
  twice: {checkpoint: "file:///good"}
  key:
    checkpoint: /key
    retrys: 3
"""


def validated(folder: Path, text: str, *more: str) -> Result:
    file = folder / "queries.yaml"
    file.write_text(text, encoding="utf-8")
    return CliRunner().invoke(program, ["queries", str(file), *more])


def test_every_mistake_is_a_line_with_its_place_and_the_exit_code_is_2(tmp_path: Path) -> None:
    done = validated(tmp_path, BAD, "validate")
    assert done.exit_code == 2
    assert done.stdout == ""
    file = tmp_path / "queries.yaml"
    starts = [f"statemaint: CONFIG: {file}:{line}: queries." for line in (2, 3, 4, 7)]
    lines = done.stderr.splitlines()
    assert [line[: len(start)] for line, start in zip(lines, starts, strict=True)] == starts


def test_json_has_what_is_wrong_and_what_is_not(tmp_path: Path) -> None:
    done = validated(tmp_path, BAD, "validate", "--json")
    found = json.loads(done.stdout)
    assert done.exit_code == 2
    assert (found["valid"], found["queries"]) == (False, {})
    assert [one["line"] for one in found["problems"]] == [2, 3, 4, 7]
    assert found["problems"][1]["key"] == "queries.cron.schedule"


@pytest.mark.parametrize("what", ["validate", "list"])
def test_a_file_that_does_not_exist_is_one_line(tmp_path: Path, what: str) -> None:
    done = CliRunner().invoke(program, ["queries", str(tmp_path / "none.yaml"), what])
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert line.endswith(
        "none.yaml: cannot be read (No such file or directory); write the queries file"
    )


def test_a_valid_file_says_how_many_queries_and_which_pools_to_make(tmp_path: Path) -> None:
    text = "queries: {a: {checkpoint: /a}, b: {checkpoint: /b, pool: big}, c: {checkpoint: /c}}"
    done = validated(tmp_path, text, "validate")
    assert done.exit_code == 0
    assert done.stdout.endswith("queries.yaml: valid, 3 queries\n")
    assert "or the tasks wait forever: big; create each with `airflow pools set" in done.stderr


def test_a_valid_file_says_which_executors_airflow_must_have(tmp_path: Path) -> None:
    text = "queries: {a: {checkpoint: /a, executor: Far}, b: {checkpoint: /b}}"
    done = validated(tmp_path, text, "validate")
    assert done.exit_code == 0
    assert "must have these, or the DAGs of their queries show only an error: Far" in done.stderr
    assert json.loads(validated(tmp_path, text, "validate", "--json").stdout)["executors"] == [
        "Far"
    ]


def test_a_notifier_that_cannot_be_imported_is_a_mistake_with_its_line(tmp_path: Path) -> None:
    text = """\
queries:
  "a_{x}":
    for_each: {x: [1, 2]}
    checkpoint: /{x}
    notify:
      - call: json.dumps
      - call: no_such_module.tell
"""
    done = validated(tmp_path, text, "validate")
    assert done.exit_code == 2
    places = [line.partition(" cannot be imported")[0] for line in done.stderr.splitlines()]
    file = tmp_path / "queries.yaml"
    assert places == [
        f"statemaint: CONFIG: {file}:7: queries.a_{x}.notify: no_such_module.tell" for x in (1, 2)
    ]


def test_the_list_has_the_queries_that_can_be_used(tmp_path: Path) -> None:
    text = 'queries: {"a_{x}": {for_each: {x: [1, 2]}, checkpoint: "/{x}"}, b: {}}'
    done = validated(tmp_path, text, "list")
    assert done.exit_code == 2
    assert [line.split()[0] for line in done.stdout.splitlines()][-2:] == ["a_1", "a_2"]
    assert "queries.b.checkpoint: is missing; add it" in done.stderr


def test_a_folder_is_validated_with_the_file_and_line_of_each_mistake(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("queries: {a: {checkpoint: /a}}\n")
    (tmp_path / "two.yml").write_text("queries:\n  b: {checkpoint: b}\n")
    done = CliRunner().invoke(program, ["queries", str(tmp_path), "validate", "--json"])
    found = json.loads(done.stdout)
    assert (done.exit_code, found["queries"]) == (2, {"a": "/a"})
    places = [(one["file"], one["line"], one["key"]) for one in found["problems"]]
    assert places == [(str(tmp_path / "two.yml"), 2, "queries.b.checkpoint")]


def test_a_name_is_found_in_a_folder_beside_a_file_with_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(f"queries: {{a: {{checkpoint: {tmp_path}/none}}}}\n")
    (tmp_path / "two.yaml").write_text("queries: [\n")
    run = CliRunner().invoke
    done = run(program, ["scan", "--queries", str(tmp_path), "a"])
    assert f"{tmp_path}/none" in str(done.exception)
    done = run(program, ["scan", "--queries", str(tmp_path), "b"])
    assert f"{tmp_path}/two.yaml:2: expected the node content" in str(done.exception or done.stderr)


def test_a_query_called_in_the_folder_of_its_checkpoint_has_its_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("orders", "clicks", "other"):
        (tmp_path / name).mkdir()
        write_checkpoint(LocalStorage(tmp_path / name))
    file = tmp_path / "queries.yaml"
    policy = "policy: {min_batches_to_retain: 7}"
    file.write_text(
        f"queries: {{orders: {{checkpoint: {tmp_path}/orders, {policy}}}, "
        f"clicks: {{checkpoint: 's3://lake/clicks', {policy}}}, bad: {{}}}}"
    )
    monkeypatch.setenv("STATEMAINT_QUERIES", str(file))
    monkeypatch.chdir(tmp_path)

    def retained(address: str) -> int:
        done = CliRunner().invoke(program, ["plan", address, "--json"])
        return int(json.loads(done.stdout)["policy"]["min_batches_to_retain"])

    addresses = ("orders", "./orders", "other", "./clicks")
    assert [*map(retained, addresses)] == [7, 100, 100, 100]
    done = run("plan", "clicks")
    assert done.returncode == 2
    assert "whose checkpoint is s3://lake/clicks; give ./clicks for the folder" in done.stderr
    (tmp_path / "bad").mkdir()
    assert "query 'bad' is not valid" in run("plan", "bad").stderr
    (tmp_path / "lent").mkdir()
    file.write_text(f"queries: {{lent: {{checkpoint: {tmp_path}/orders, {policy}}}}}")
    done = run("plan", "lent", "--queries", str(file), "--json")
    assert json.loads(done.stdout)["checkpoint"] == f"{tmp_path}/orders"


def test_the_file_may_come_from_the_variable_or_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "queries.yaml"
    file.write_text("queries: {a: {checkpoint: /a}}", encoding="utf-8")
    for words in (["queries", "list", "--queries", str(file)], ["queries", str(file), "list"]):
        assert CliRunner().invoke(program, words).stdout.split() == [
            "query",
            "checkpoint",
            "a",
            "/a",
        ]
    both = CliRunner().invoke(program, ["queries", str(file), "list", "--queries", str(file)])
    assert both.exit_code == 2
    monkeypatch.setenv("STATEMAINT_QUERIES", str(file))
    assert CliRunner().invoke(program, ["queries", "validate"]).stdout.endswith("1 query\n")


@pytest.mark.parametrize("verb", ["queries validate", "exporter"])
def test_without_a_queries_file_a_line_says_how_to_give_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(program, verb.split())
    assert done.exit_code == 2
    assert "give the queries file with --queries FILE, or set STATEMAINT_QUERIES" in done.stderr


def test_every_verb_lists_the_options_that_it_shares_in_one_order() -> None:
    verbs = {name: program.get_command(click.Context(program), name) for name in VERBS}
    orders = {
        name: [param.name for param in verb.params if isinstance(param, click.Option)]
        for name, verb in verbs.items()
        if verb
    }
    for (name, first), (other, second) in combinations(orders.items(), 2):
        shared = [option for option in first if option in second]
        assert shared == [option for option in second if option in first], (name, other)


def test_every_verb_of_a_query_takes_the_queries_file() -> None:
    for name in {*VERBS} - {"apply", "completion"}:
        verb = program.get_command(click.Context(program), name)
        assert verb is not None
        assert any("--queries" in param.opts for param in verb.params), name
