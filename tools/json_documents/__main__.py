"""Prints docs/json.md; with `--schema`, docs/json.schema.json."""

import json
import sys

from tools.json_documents.page import page, schema

if sys.argv[1:] == ["--schema"]:
    sys.stdout.write(json.dumps(schema(), indent=2) + "\n")
else:
    sys.stdout.write(page())
