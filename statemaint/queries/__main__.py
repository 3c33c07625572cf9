"""Prints the JSON schema of the queries file: `python -m statemaint.queries`."""

import json

from statemaint.queries import json_schema

if __name__ == "__main__":
    print(json.dumps(json_schema(), indent=2))  # noqa: T201 -- its result
