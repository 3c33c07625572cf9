"""The form of a run: numbers as text, and what is looser than the file."""

from typing import Any

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from airflow.sdk.exceptions import ParamValidationError

from statemaint.airflow.form import form, reshape_form
from statemaint.airflow.settings import Options, QuerySettings, chosen_ids, wrong_options
from statemaint.airflow.tasks import plan_query
from statemaint.errors import ConfigError
from statemaint.model.policy import Policy

POLICY = Policy(min_batches_to_retain=100, min_deltas_for_snapshot=10)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        (None, ()),
        ("", ()),
        ("0", (0,)),
        ("0, 3-5,9 ", (0, 3, 4, 5, 9)),
        ("7 - 8, 7", (7, 8)),
        ([3, 1], (3, 1)),
        ([], ()),
    ],
)
def test_numbers_are_short_text_or_a_list_of_earlier_builds(
    text: object, numbers: tuple[int, ...]
) -> None:
    assert chosen_ids("partitions", text) == numbers
    assert Options.of({"partitions": text}).partitions == numbers


@pytest.mark.parametrize("text", ["7-3", "1-2-3", "-1", "1 2", "0-9999999", "a", "٣"])
def test_other_text_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        chosen_ids("operators", text)
    wrong = str(caught.value)
    assert wrong == f"operators: {text!r} is not a number or a range, such as `0, 3-7`"
    context: dict[str, Any] = {
        "params": {"operators": text},
        "dag_run": type("Run", (), {"conf": {}}),
    }
    failure = wrong_options(context)
    assert failure is not None
    assert failure.reason == f"CONFIG: {wrong}"
    assert Options.of(context["params"], scoped=False).operators == ()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [(" , ", "names no number; empty means all"), ("1," * 101, "longer than 200")],
)
def test_text_without_a_number_or_without_an_end_is_refused(text: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        chosen_ids("partitions", text)


@pytest.mark.parametrize("value", [None, "", "0, 3-7", [0, 3], []])
def test_the_form_takes_text_and_what_scripts_give(value: object) -> None:
    for name in ("operators", "partitions"):
        assert form(POLICY).get(name, None) is not None
        assert form(POLICY)[name].resolve(value) == value


@pytest.mark.parametrize("value", ["0;3", "all", [-1], ["0"], 3])
def test_the_form_refuses_the_rest_when_a_run_is_triggered(value: object) -> None:
    with pytest.raises(ParamValidationError):
        form(POLICY)["partitions"].resolve(value)


def test_no_choice_of_the_form_is_a_null() -> None:
    engine = form(POLICY, "spark")["engine"].schema
    assert engine["values_display"] == {
        "null": "As set for the query (One task on Spark)",
        "tasks": "Mapped tasks",
        "spark": "One task on Spark",
    }
    assert engine["enum"] == [None, "tasks", "spark"]
    choices = [param.schema for param in reshape_form().values() if "enum" in param.schema]
    assert len(choices) == 3
    assert all("null" in schema["values_display"] for schema in choices)


def test_the_form_says_what_is_looser_than_the_file() -> None:
    texts = {name: param.schema.get("description_md", "") for name, param in form(POLICY).items()}
    retained = "Less is looser than the file. At least 1. Empty: 100, as in the queries file."
    assert retained in texts["min_batches_to_retain"]
    assert "More is looser than the file. At least 1. Empty: 10" in texts["min_deltas_for_snapshot"]


def test_a_looser_run_says_so_in_its_log(caplog: pytest.LogCaptureFixture) -> None:
    options = Options.of({"min_batches_to_retain": 2, "min_deltas_for_snapshot": 11})
    planned = plan_query(QuerySettings("a", "/nowhere/at/all", POLICY), options)
    assert planned.failure is not None
    assert caplog.messages[:2] == [
        "a: min_batches_to_retain 2 is looser than the query's own 100, for this run only",
        "a: min_deltas_for_snapshot 11 is looser than the query's own 10, for this run only",
    ]
    tighter = Options.of({"min_batches_to_retain": 100, "min_deltas_for_snapshot": 9})
    assert [*tighter.looser(POLICY)] == []


def test_the_part_of_a_run_is_as_short_as_its_form() -> None:
    options = Options(operators=(0,), partitions=(9, 3, 4, 5, 1))
    assert options.scope == "operator 0 and partition 1, 3-5, 9"
    assert Options(partitions=(3, 1, 4)).scope == "partition 1, 3, 4"
