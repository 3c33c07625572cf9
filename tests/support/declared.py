"""Holds JSON against its declaration (`tools.json_documents`), more strictly than a schema."""

from collections.abc import Iterator
from typing import Any

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

Seen = set[tuple[str, str]]
"""The fields that were there: the name of the object, and a label of the field (`labels`)."""

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def problems(kind: Kind, value: Any, seen: Seen, at: str = "") -> list[str]:
    """Returns where a value departs from its declared type; adds the fields that are there.

    Unlike a reader, which passes over fields that it does not know, it takes none that is not
    declared.
    """
    match kind:
        case Plain(name):
            fits = isinstance(value, _TYPES[name])
            good = fits and (isinstance(value, bool) == (name == "boolean"))
        case Choice(meanings=meanings):
            good = value in meanings
        case Columns():
            good = isinstance(value, dict)
        case Either(kinds):
            return _least(kinds, value, seen, at)
        case ListOf() | MapOf() | JsonObject():
            return [*_of_parts(kind, value, seen, at)]
    return [] if good else [f"{at}: {value!r} is no {_name(kind)}"]


def labels(field: JsonField, *value: Any) -> set[str]:
    """Returns the name of a field, with each type that it may have, or that a value of it has."""
    kinds = field.kind.kinds if isinstance(field.kind, Either) else ()
    fitting = [one for one in kinds if not value or not problems(one, value[0], set())]
    return {f"{field.name} ({_name(one)})" for one in fitting} if kinds else {field.name}


def _name(kind: Kind) -> str:
    match kind:
        case Plain(name=name) | Choice(name=name) | JsonObject(name=name):
            return name
        case ListOf() | MapOf() | Columns() | Either():
            return type(kind).__name__


def _least(kinds: tuple[Kind, ...], value: Any, seen: Seen, at: str) -> list[str]:
    """Returns the problems with the type that fits best."""
    tried = []
    for kind in kinds:
        there: Seen = set()
        tried.append((problems(kind, value, there, at), there))
    found, there = min(tried, key=lambda one: len(one[0]))
    seen |= there
    return found


def _of_parts(kind: ListOf | MapOf | JsonObject, value: Any, seen: Seen, at: str) -> Iterator[str]:
    of_list = isinstance(kind, ListOf)
    if not (isinstance(value, list) if of_list else isinstance(value, dict)):
        yield f"{at}: {type(value).__name__} in place of {type(kind).__name__}"
    elif isinstance(kind, ListOf):
        for number, one in enumerate(value):
            yield from problems(kind.of, one, seen, f"{at}[{number}]")
    elif isinstance(kind, MapOf):
        for name, one in value.items():
            if isinstance(kind.by, Choice):
                yield from problems(kind.by, name, seen, f"{at} {name}")
            yield from problems(kind.of, one, seen, f"{at}.{name}")
    else:
        yield from _of_fields(kind, value, seen, at)


def _of_fields(shape: JsonObject, value: dict[str, Any], seen: Seen, at: str) -> Iterator[str]:
    known = {one.name: one for one in shape.fields}
    yield from (f"{at}.{name} is not declared" for name in value if name not in known)
    for name, one in known.items():
        if name in value:
            seen |= {(shape.name, label) for label in labels(one, value[name])}
            yield from problems(one.kind, value[name], seen, f"{at}.{name}")
        elif not one.optional:
            yield f"{at}.{name} is missing"
