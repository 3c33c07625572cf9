"""A setting of the policy is declared once: flag, key, form and documents follow."""

from dataclasses import fields

import pytest

from statemaint.airflow.form import document
from statemaint.airflow.settings import QuerySettings
from statemaint.model.policy import SETTINGS, Policy, Setting
from statemaint.queries.models import PolicySettings, Query
from tests.support.paths import ROOT
from tests.support.program import run


def test_every_field_of_the_policy_is_a_setting() -> None:
    assert [setting.name for setting in SETTINGS] == [field.name for field in fields(Policy)]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_a_setting_is_a_flag_a_key_a_row_of_the_form_and_a_field_of_the_documents(
    setting: Setting,
) -> None:
    flag = "--" + setting.name.replace("_", "-")
    for verb in ("plan", "maintain"):
        assert f"{flag} " in run(verb, "--help").stdout
    assert setting.name in PolicySettings.model_fields
    page = document(Query(checkpoint="/q"), QuerySettings("q", "/q", Policy()))
    assert f"| `{setting.name}` | {setting.shown(setting.default)} |" in page
    assert f"| `{setting.name}` |" in (ROOT / "docs/json.md").read_text()
    assert f'"{setting.name}"' in (ROOT / "helm/statemaint/values.schema.json").read_text()
