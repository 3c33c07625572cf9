"""Copies into the chart what it can only deliver, or check, as a file of its own.

These are the DAG file, the plugin, and the schema of the queries file, which becomes the part
`queries` of the chart's values. Run `python helm/sync.py` after a change; tests compare them.
"""

import json
import shutil
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parent.parent
_QUERIES_SCHEMA = _ROOT / "docs" / "queries.schema.json"
_FILES = _ROOT / "helm" / "statemaint" / "files"

COPIES = {
    _ROOT / "dags" / "statemaint_dags.py": _FILES / "dags" / "statemaint_dags.py",
    _ROOT / "plugins" / "statemaint_plugin.py": _FILES / "plugins" / "statemaint_plugin.py",
}
VALUES_SCHEMA = _ROOT / "helm" / "statemaint" / "values.schema.json"


def values_schema(known: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of the chart's values with the queries file's schema as its part."""
    file = json.loads(_QUERIES_SCHEMA.read_text(encoding="utf-8"))
    part = {key: value for key, value in file.items() if not key.startswith("$")}
    return {
        **known,
        "properties": {**known["properties"], "queries": part},
        "$defs": file["$defs"],
    }


def main() -> None:
    """Makes every copy equal to its source."""
    for source, copy in COPIES.items():
        shutil.copyfile(source, copy)
        print(copy.relative_to(_ROOT))
    schema = values_schema(json.loads(VALUES_SCHEMA.read_text(encoding="utf-8")))
    VALUES_SCHEMA.write_text(json.dumps(schema, indent=2) + "\n", encoding="utf-8")
    print(VALUES_SCHEMA.relative_to(_ROOT))


if __name__ == "__main__":
    main()
