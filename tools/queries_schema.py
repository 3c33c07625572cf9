"""Prints the JSON schema of the queries file: `python -m tools.queries_schema`."""

import json
from typing import Any

from statemaint.queries.models import QueriesFile


def json_schema() -> dict[str, Any]:
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {**dialect, **QueriesFile.model_json_schema()}


if __name__ == "__main__":
    print(json.dumps(json_schema(), indent=2))  # its result
