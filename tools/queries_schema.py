"""Prints the JSON schema of the queries file: `python -m tools.queries_schema`."""

import json

from statemaint.queries import json_schema

if __name__ == "__main__":
    print(json.dumps(json_schema(), indent=2))  # its result
