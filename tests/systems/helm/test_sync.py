from pathlib import Path

import pytest

from helm.sync import COPIES

pytestmark = pytest.mark.helm


@pytest.mark.parametrize(("source", "copy"), COPIES.items(), ids=lambda path: Path(path).name)
def test_the_chart_delivers_the_file_that_stands_in_the_repository(
    source: Path, copy: Path
) -> None:
    if not source.exists():
        pytest.skip(f"{source.parent.name}/{source.name} is not written yet")
    assert copy.read_bytes() == source.read_bytes(), "run `python helm/sync.py`"
