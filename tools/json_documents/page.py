"""docs/json.md and docs/json.schema.json, made from the declared documents."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from tools.json_documents import kinds
from tools.json_documents.catalogue import VERBS, Named, everything, home, named_in
from tools.json_documents.shared import ERROR
from tools.json_documents.state import VALUES

Json = dict[str, Any]

_HEAD = """\
# JSON

Made from `tools/json_documents` by `make generated`; do not edit.
[json.schema.json](json.schema.json) is the same as a JSON Schema (2020-12) of this version, with a
definition for each verb.

Every verb prints one document with `--json`. Fields are only added, never renamed or removed, so a
reader must ignore unknown ones; the same holds for new values of a closed set. `format` increases
with each incompatible change. A field that is marked *optional* is absent if it does not apply; all
others are always present. Paths are relative to the checkpoint, versions are state versions
(batch + 1).

**Lines.** `--json-lines` prints the document without its list in one line, then each element of
the list in one line:

"""
_ERRORS = """\
## Errors

An error is also printed as a document, in place of the verb's. The line on stderr and the exit code
remain. If part of a result was printed before, only the exit code shows the error.

"""
_SHARED = """\
## Parts of several verbs

"""


def page() -> str:
    lines = [_HEAD + "\n".join(_lists()), _ERRORS + "\n".join(_tables(named_in(ERROR)))]
    lines += map(_section, VERBS)
    several = (one for one in everything() if home(one) is None)
    lines.append(_SHARED + "\n".join(_tables(several)))
    return "\n".join(lines)


def _lists() -> Iterator[str]:
    yield from ("| verb | document | list |", "|---|---|---|")
    for verb in VERBS:
        for one in verb.documents:
            if one.lines:
                yield f"| `{verb.name}` | {_link(one)} | `{one.lines}` |"
    yield ""


def _section(verb: kinds.Verb) -> str:
    """Returns the section of a verb: its documents, and the parts that only it has."""
    links = [_link(one) for one in verb.documents]
    listed = ", ".join(links[:-1]) + " or " + links[-1] if links[1:] else links[0]
    lines = [f"## {verb.name}\n", f"Prints: {listed}. {verb.about}".rstrip() + "\n"]
    own = (part for one in verb.documents for part in named_in(one))
    lines += _tables(one for one in own if home(one) == verb)
    if verb.name == "show":
        lines.append(VALUES)
    return "\n".join(lines)


def _tables(named: Iterable[Named]) -> Iterator[str]:
    """Yields a table for each named type, once."""
    for one in {one.name: one for one in named}.values():
        if isinstance(one, kinds.JsonObject):
            yield f"### {_title(one)}\n"
            yield from _fields(one)
        elif one.explained:
            yield f"### {_title(one)}\n"
            yield from ("| value | meaning |", "|---|---|")
            yield from (f"| `{text}` | {meaning} |" for text, meaning in one.meanings.items())
            yield ""


def _fields(shape: kinds.JsonObject) -> Iterator[str]:
    if shape.about:
        yield shape.about + "\n"
    yield from ("| field | type | meaning |", "|---|---|---|")
    yield from map(_row, shape.fields)
    yield ""


def _row(field: kinds.JsonField) -> str:
    optional = " *(optional)*" if field.optional else ""
    return f"| `{field.name}` | {_type(field.kind)}{optional} | {field.meaning} |"


def _type(kind: kinds.Kind) -> str:
    match kind:
        case kinds.Plain(name):
            return name
        case kinds.Columns():
            return "object of columns"
        case kinds.Choice() | kinds.JsonObject():
            return _named(kind)
        case kinds.ListOf(of):
            return _list(of)
        case kinds.MapOf(of, by):
            return f"object: {_type(of)} by {by if isinstance(by, str) else _named(by)}"
        case kinds.Either(several):
            return " or ".join(map(_type, several))


def _list(of: kinds.Kind) -> str:
    if isinstance(of, kinds.Columns):
        return "list of such objects"
    return f"list of {of.name}s" if isinstance(of, kinds.Plain) else f"list: {_type(of)}"


def _named(one: Named) -> str:
    if isinstance(one, kinds.JsonObject) or one.explained:
        return _link(one)
    if one.page:
        return f"[{one.name}]({one.page})"
    return " or ".join(f"`{value}`" for value in one.meanings)


def _title(one: Named) -> str:
    return one.name[0].upper() + one.name[1:]


def _link(one: Named) -> str:
    return f"[{one.name}](#{one.name.replace(' ', '-')})"


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
                verb.name: {"anyOf": [_schema_of(one) for one in (*verb.documents, ERROR)]}
                for verb in VERBS
            },
            **parts,
        },
    }


def _key(one: Named) -> str:
    return one.name.replace(" ", "-")


def _definition(one: Named) -> Json:
    if isinstance(one, kinds.Choice):
        return {"enum": [*one.meanings]}
    about = {"description": one.about} if one.about else {}
    return {
        **about,
        "type": "object",
        "required": [field.name for field in one.fields if not field.optional],
        "properties": {
            field.name: {"description": field.meaning, **_schema_of(field.kind)}
            for field in one.fields
        },
    }


def _schema_of(kind: kinds.Kind) -> Json:
    match kind:
        case kinds.Plain(name):
            return {"type": name}
        case kinds.Choice() | kinds.JsonObject():
            return {"$ref": f"#/$defs/{_key(kind)}"}
        case kinds.ListOf(of):
            return {"type": "array", "items": _schema_of(of)}
        case kinds.MapOf(of, by):
            names = {"propertyNames": _schema_of(by)} if isinstance(by, kinds.Choice) else {}
            return {"type": "object", **names, "additionalProperties": _schema_of(of)}
        case kinds.Columns():
            return {"type": "object"}
        case kinds.Either(several):
            return {"anyOf": [_schema_of(one) for one in several]}
