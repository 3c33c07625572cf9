import json
from pathlib import Path

import pytest

from helm.sync import COPIES, VALUES_SCHEMA, values_schema
from tools.queries_schema import json_schema

pytestmark = pytest.mark.helm


@pytest.mark.parametrize(("source", "copy"), COPIES.items(), ids=lambda path: Path(path).name)
def test_the_chart_delivers_the_file_that_stands_in_the_repository(
    source: Path, copy: Path
) -> None:
    if not source.exists():
        pytest.skip(f"{source.parent.name}/{source.name} is not written yet")
    assert copy.read_bytes() == source.read_bytes(), "run `python helm/sync.py`"


def test_the_charts_values_have_the_schema_of_the_queries_file() -> None:
    shipped = json.loads(VALUES_SCHEMA.read_text(encoding="utf-8"))
    assert values_schema(shipped) == shipped, "run `python helm/sync.py`"
    part = {**shipped["properties"]["queries"], "$defs": shipped["$defs"]}
    assert part == {key: one for key, one in json_schema().items() if key != "$schema"}
