"""The columns of the DataFrames are those that `docs/spark.md` describes."""

import re
from collections.abc import Mapping

import pytest

from statemaint.spark.frames import HISTORY, INVENTORY, OUTCOMES, PLAN, VERIFIED
from tests.support.paths import ROOT

DOCUMENT = (ROOT / "docs/spark.md").read_text()


@pytest.mark.parametrize(
    ("heading", "columns"),
    [
        ("inventory", INVENTORY),
        ("plan_fleet", PLAN),
        ("maintain_fleet", OUTCOMES),
        ("verify_fleet", VERIFIED),
    ],
)
def test_the_columns_are_documented_with_their_types(
    heading: str, columns: Mapping[str, str]
) -> None:
    section = DOCUMENT.split(f"\n### {heading}\n")[1].split("\n##")[0]
    rows = re.findall(r"^\| (`[^|]*) \| ([^|]*) \|", section, re.MULTILINE)
    found = {name: kind for names, kind in rows for name in re.findall(r"`(\w+)`", names)}
    expected = {
        name: "array&lt;struct&lt;code, detail&gt;&gt;" if "struct" in kind else kind
        for name, kind in columns.items()
    }
    escaped = {name: kind.replace("<bigint>", "&lt;bigint&gt;") for name, kind in expected.items()}
    assert list(found.items()) == list(escaped.items())


def test_a_history_has_the_columns_of_its_verbs_and_which_one_it_was() -> None:
    section = DOCUMENT.split("\n## History\n")[1].split("\n## ")[0]
    assert {*HISTORY} == {"verb", *OUTCOMES, *VERIFIED}
    assert f"`verb` ({HISTORY['verb']})" in section
