"""The types of JSON values, as documents are declared with them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Plain:
    """A value without parts.

    Attributes:
        name: its display name.
        many: several of them.
        schema: its type in JSON Schema.
    """

    name: str
    many: str
    schema: str


@dataclass(frozen=True, slots=True)
class Choice:
    """A string from a closed set.

    Attributes:
        name: its display name.
        meanings: each string that it may be, with its meaning.
        page: the document that explains them, if the page does not.
    """

    name: str
    meanings: Mapping[str, str]
    page: str = ""

    @property
    def explained(self) -> bool:
        """Returns whether the strings have their own meanings here."""
        return any(self.meanings.values())


@dataclass(frozen=True, slots=True)
class ListOf:
    """Any number of values of one type."""

    of: "Kind"


@dataclass(frozen=True, slots=True)
class MapOf:
    """An object of any number of fields.

    Attributes:
        of: the type of its values.
        by: the meaning of its names, in words or as a closed set.
    """

    of: "Kind"
    by: str | Choice


@dataclass(frozen=True, slots=True)
class Columns:
    """An object with the columns of a row, by their stored names."""


@dataclass(frozen=True, slots=True)
class Either:
    """A value of one of several types."""

    kinds: tuple["Kind", ...]


@dataclass(frozen=True, slots=True)
class JsonField:
    """A field of an object.

    Attributes:
        name: its name.
        kind: its type.
        meaning: in one line, with the unit.
        optional: whether it is absent if it does not apply.
    """

    name: str
    kind: "Kind"
    meaning: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class JsonObject:
    """An object whose fields are known: a whole document, or a part of one.

    Attributes:
        name: its display name; no two objects share a name.
        fields: in the order in which they are printed.
        about: a remark on the whole.
        lines: the field whose elements `--json-lines` prints, a line each; empty without that flag.
    """

    name: str
    fields: tuple[JsonField, ...]
    about: str = ""
    lines: str = ""


Kind = Plain | Choice | ListOf | MapOf | Columns | Either | JsonObject

TEXT = Plain("string", "strings", "string")
INTEGER = Plain("integer", "integers", "integer")
NUMBER = Plain("number", "numbers", "number")
BOOLEAN = Plain("boolean", "booleans", "boolean")
NULL = Plain("null", "nulls", "null")


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb and its documents.

    Attributes:
        name: the verb.
        documents: each document that it may print, except an error.
        about: when it prints each.
    """

    name: str
    documents: tuple[JsonObject, ...]
    about: str = ""


def or_null(*kinds: Kind) -> Either:
    """Returns a type whose values may also be null."""
    return Either((*kinds, NULL))


def listed(names: type[Enum]) -> dict[str, str]:
    """Returns the strings of an enumeration, which another document explains."""
    return {str(one.value): "" for one in names}


def parts_of(kind: Kind) -> tuple[Kind, ...]:
    """Returns the parts of a type."""
    match kind:
        case ListOf(of):
            return (of,)
        case MapOf(of, by):
            return (of, by) if isinstance(by, Choice) else (of,)
        case Either(kinds):
            return kinds
        case JsonObject(fields=fields):
            return tuple(one.kind for one in fields)
        case Plain() | Choice() | Columns():
            return ()
