import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from statemaint.airflow.pages.render import runbook_of
from statemaint.model.findings import FindingCode
from tests.support.paths import ROOT


def test_the_package_has_the_runbook() -> None:
    there = (ROOT / "statemaint/airflow/pages/runbook.md").read_text(encoding="utf-8")
    assert there == (ROOT / "docs/runbook.md").read_text(encoding="utf-8"), "run `make generated`"


@pytest.mark.parametrize("code", [one.value for one in FindingCode])
def test_each_finding_has_its_text(code: str) -> None:
    text = runbook_of(code)
    assert text is not None
    assert "<p>" in text
    assert "<h" not in text
    assert "<a " not in text  # there is no page to go to


def test_an_unknown_code_has_none() -> None:
    assert runbook_of("NEW_CODE") is None
