"""`python -m tests.support.promised VERSION`: the names that a release promises to keep.

They are read from its documents, and kept in tests/project/promised for all later releases.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT

DOCS, PROMISED = ROOT / "docs", ROOT / "tests/project/promised"
_METRIC = re.compile(r"^\| `(\w+)` \| (\w+) \| [^|]* \| ([^|]*) \|", re.MULTILINE)
_FLAG = re.compile(r"^  (?:-\w, )?(--[a-z-]+)", re.MULTILINE)
_CODE = re.compile(r"^### ([A-Z][A-Z0-9_]+)$", re.MULTILINE)
_FIELD = re.compile(r"`([a-z][a-z0-9_]+)`")


def names(docs: Path = DOCS) -> Iterator[str]:
    """Yields the names in documents, each with its kind; some more than once."""
    for name, kind, labels in _METRIC.findall((docs / "metrics.md").read_text()):
        yield f"metric {name} {kind}"
        yield from (f"metric {name} {label}" for label in _FIELD.findall(labels))
    _, *verbs = re.split(r"^## ", (docs / "cli.md").read_text(), flags=re.MULTILINE)
    for verb in verbs:
        name, *flags = verb.split()[0], *_FLAG.findall(verb)
        yield f"verb {name}"
        yield from (f"verb {name} {flag}" for flag in flags)
    schema = json.loads((docs / "queries.schema.json").read_text())
    yield from (f"key of the queries file {key}" for key in _keys(schema))
    yield from (f"code {code}" for code in _CODE.findall((docs / "runbook.md").read_text()))
    fields = _FIELD.findall((docs / "json.md").read_text())
    yield from (f"field of JSON {field}" for field in fields)


def _keys(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from schema.get("properties", ())
    for part in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(part, dict | list):
            yield from _keys(part)


def main() -> None:
    lines = "".join(f"{name}\n" for name in sorted({*names()}))
    (PROMISED / f"{sys.argv[1]}.txt").write_text(lines)


if __name__ == "__main__":
    main()
