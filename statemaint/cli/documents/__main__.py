"""Prints docs/json.md; with `--schema`, docs/json.schema.json."""

import json
import sys

from statemaint.cli.documents.page import page
from statemaint.cli.documents.schema import schema

if sys.argv[1:] == ["--schema"]:
    sys.stdout.write(json.dumps(schema(), indent=2) + "\n")
else:
    sys.stdout.write(page())
