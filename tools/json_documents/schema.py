"""docs/json.schema.json, made from the declared documents."""

from itertools import chain
from typing import Any

from tools.json_documents.catalogue import VERBS, Named, everything, named_in
from tools.json_documents.kinds import (
    Choice,
    Columns,
    Either,
    JsonField,
    JsonObject,
    Kind,
    ListOf,
    MapOf,
    Plain,
)
from tools.json_documents.shared import ERROR

Json = dict[str, Any]


def schema() -> Json:
    """Returns the JSON Schema: a definition for each verb, and for each named part.

    Other fields are allowed, since fields are only added.
    """
    names = [verb.name for verb in VERBS]
    parts = {_key(one): _definition(one) for one in chain(everything(), named_in(ERROR))}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The documents of statemaint --json",
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in names],
        "$defs": {
            **{
                verb.name: {"anyOf": [_type(one) for one in (*verb.documents, ERROR)]}
                for verb in VERBS
            },
            **parts,
        },
    }


def _key(one: Named) -> str:
    return one.name.replace(" ", "-")


def _definition(one: Named) -> Json:
    if isinstance(one, Choice):
        return {"enum": [*one.meanings]}
    about = {"description": one.about} if one.about else {}
    return {
        **about,
        "type": "object",
        "required": [field.name for field in one.fields if not field.optional],
        "properties": {field.name: _property(field) for field in one.fields},
    }


def _property(field: JsonField) -> Json:
    return {"description": field.meaning, **_type(field.kind)}


def _type(kind: Kind) -> Json:
    match kind:
        case Plain(schema=name):
            return {"type": name}
        case Choice() | JsonObject():
            return {"$ref": f"#/$defs/{_key(kind)}"}
        case ListOf(of):
            return {"type": "array", "items": _type(of)}
        case MapOf(of, by):
            names = {"propertyNames": _type(by)} if isinstance(by, Choice) else {}
            return {"type": "object", **names, "additionalProperties": _type(of)}
        case Columns():
            return {"type": "object"}
        case Either(kinds):
            return {"anyOf": [_type(one) for one in kinds]}
