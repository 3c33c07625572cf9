"""Prints the JSON schema of the queries file: `python -m tools.queries_schema`."""

import ast
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from statemaint.queries import models


def json_schema() -> dict[str, Any]:
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema = models.QueriesFile.model_json_schema()
    descriptions = _descriptions()
    for name, model in {**schema["$defs"], schema["title"]: schema}.items():
        for field, text in descriptions[name].items():
            described = {**model["properties"][field], "description": text}
            model["properties"][field] = dict(sorted(described.items()))
    return {**dialect, **schema}


def _descriptions() -> dict[str, dict[str, str]]:
    """Returns the docstrings of the models' fields, which pydantic would read at each start."""
    tree = ast.parse(Path(models.__file__).read_text(encoding="utf-8"))
    return {
        model.name: {
            field.target.id: " ".join(ast.literal_eval(text.value).split())
            for field, text in pairwise(model.body)
            if isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        }
        for model in tree.body
        if isinstance(model, ast.ClassDef)
    }


if __name__ == "__main__":
    print(json.dumps(json_schema(), indent=2))  # its result
