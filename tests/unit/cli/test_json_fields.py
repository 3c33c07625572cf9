"""docs/json.md names every field that any verb prints with `--json`, on real checkpoints."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT
from tests.support.program import run
from tests.unit.cli.test_show import unpacked

PAGE = (ROOT / "docs/json.md").read_text()
# Objects whose names are the query's own, or explained in a table of their own.
_OWN = {"key", "value", "before", "after", "keep", "requests", "damage", "policy", "request"}
TIGHT = "--min-deltas-for-snapshot 5 --min-batches-to-retain 2 --grace 0s --trash-for 1d"
CASES = (
    "scan ROOT", f"plan ROOT {TIGHT}", "verify ROOT --deep", "doctor ROOT", "digest ROOT",
    "show ROOT", "diff ROOT", "stats ROOT", "repair ROOT", "rollback ROOT --to-batch 9",
    f"maintain ROOT {TIGHT}", "runs ROOT", "runs ROOT RUN", "scan FOLDER", "doctor FOLDER",
    "verify FOLDER", "stats FOLDER", "scan ROOT/none",
)  # fmt: skip


def fields(value: Any) -> Iterator[str]:
    """Yields the name of every field of a document."""
    if isinstance(value, list):
        for one in value:
            yield from fields(one)
    if isinstance(value, dict):
        for name, one in value.items():
            yield name
            if name not in _OWN:
                yield from fields(one)


@pytest.mark.parametrize("damaged", [False, True], ids=["healthy", "damaged"])
def test_every_field_of_a_document_is_explained(tmp_path: Path, damaged: bool) -> None:  # noqa: FBT001
    folder = tmp_path / "folder"
    root = unpacked("join2", folder / "one")
    if damaged:
        (root / "state/0/1/left-keyToNumValues/9.delta").write_bytes(b"LZ4Block")
    unknown: dict[str, str] = {}
    for case in CASES:
        words = case.replace("ROOT", str(root)).replace("FOLDER", str(folder)).split()
        if "RUN" in words:
            runs = json.loads(run("runs", str(root), "--json").stdout)["runs"]
            words[-1] = runs[0]["run"] if runs else "RUN"
        found = json.loads(run(*words, "--json").stdout)
        unknown |= {name: case for name in fields(found) if not explained(name)}
    assert unknown == {}


def explained(name: str) -> bool:
    """Returns whether the page has a name as code, alone or behind others."""
    return re.search(rf"`(?:[\w.]+\.)?{re.escape(name)}`", PAGE) is not None
