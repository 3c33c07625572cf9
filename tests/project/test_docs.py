"""What the documents promise exists, and the other way round."""

import json

import jsonschema
import pytest
import yaml

from statemaint import errors
from statemaint.metrics.catalogue import METRICS, Metric
from statemaint.model.findings import Finding, FindingCode
from statemaint.plan.reasons import AttestReason, DeleteReason, KeepReason, SnapshotReason
from statemaint.state.stats import NoticeCode
from tests.support.paths import ROOT

RUNBOOK = (ROOT / "docs/runbook.md").read_text()
REASONS = [*SnapshotReason, *AttestReason, *DeleteReason, *KeepReason]


@pytest.mark.parametrize("code", list(FindingCode))
def test_every_finding_has_its_heading_in_the_runbook(code: FindingCode) -> None:
    assert f"\n### {code}\n" in RUNBOOK


@pytest.mark.parametrize(
    "error",
    [errors.StatemaintError, errors.ConfigError, errors.NotACheckpointError,
     errors.UnsupportedError, errors.StorageError, errors.CodecError,
     errors.SnapshotMismatchError, errors.Superseded],
)  # fmt: skip
def test_every_error_that_ends_the_program_has_its_heading(
    error: type[errors.StatemaintError],
) -> None:
    assert f"\n### {error.code}\n" in RUNBOOK


@pytest.mark.parametrize("code", list(FindingCode))
def test_the_runbook_says_which_findings_are_damage(code: FindingCode) -> None:
    section = RUNBOOK.split(f"\n### {code}\n")[1].split("\n###")[0]
    assert section.strip().startswith("*Damage") == Finding(code, "").damage


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_is_explained(reason: str) -> None:
    assert f"`{reason}`" in (ROOT / "docs/json.md").read_text()


@pytest.mark.parametrize("code", list(NoticeCode))
@pytest.mark.parametrize("document", ["docs/state.md", "docs/json.md"])
def test_every_notice_is_explained(code: NoticeCode, document: str) -> None:
    assert f"`{code}`" in (ROOT / document).read_text()


@pytest.mark.parametrize("metric", METRICS, ids=lambda one: one.name)
def test_every_metric_is_listed_with_its_question(metric: Metric) -> None:
    assert metric.question.endswith((".", "?"))
    row = f"| `{metric.name}` | {metric.kind} | {metric.unit} |"
    assert row in (ROOT / "docs/metrics.md").read_text()


def test_the_example_follows_the_schema_that_editors_check_it_with() -> None:
    schema = json.loads((ROOT / "docs/queries.schema.json").read_text())
    example = yaml.safe_load((ROOT / "dags/statemaint_queries.example.yaml").read_text())
    jsonschema.validate(example, schema)
    example["queries"]["click_join"]["polic"] = {}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(example, schema)


@pytest.mark.parametrize(
    ("row", "question"), [(0, "My query restarts slowly"), (1, "May I delete these files?")]
)
def test_the_first_questions_come_first_and_their_answers_fit_a_screen(
    row: int, question: str
) -> None:
    table = (ROOT / "docs/README.md").read_text().split("|---|---|\n")[1]
    asked, answer = table.splitlines()[row].split("|")[1:3]
    heading = answer.split("*")[1].removeprefix("*")
    assert asked.strip() == question
    assert len(RUNBOOK.split(f"\n## {heading}\n")[1].split("\n## ")[0].splitlines()) <= 24
