"""The types of JSON values, as documents are declared with them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import NoneType
from typing import Annotated, Any, ClassVar, get_args, get_origin

from statemaint.wording import Explained


@dataclass(frozen=True, slots=True)
class Plain:
    """A value without parts, by the name of its type in JSON Schema."""

    name: str


@dataclass(frozen=True, slots=True)
class Choice:
    """A string from a closed set."""

    name: str
    meanings: Mapping[str, str]  # each string that it may be, with its meaning
    page: str = ""  # the document that explains them, if the page does not

    def __hash__(self) -> int:
        return hash(self.name)

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
    """An object of any number of fields."""

    of: "Kind"
    by: str | Choice  # the meaning of its names


@dataclass(frozen=True, slots=True)
class Columns:
    """An object with the columns of a row, by their stored names."""


@dataclass(frozen=True, slots=True)
class Either:
    """A value of one of several types."""

    kinds: tuple["Kind", ...]


@dataclass(frozen=True, slots=True)
class JsonField:
    """A field of an object; an optional one is absent if it does not apply."""

    name: str
    kind: "Kind"
    meaning: str  # in one line, with the unit
    optional: bool = False


@dataclass(frozen=True, slots=True)
class JsonObject:
    """An object whose fields are known: a whole document, or a part of one."""

    name: str  # no two objects share one
    fields: tuple[JsonField, ...]  # in the order in which they are printed
    about: str = ""  # a remark on the whole
    lines: str = ""  # the field whose elements `--json-lines` prints, a line each, if it can


Kind = Plain | Choice | ListOf | MapOf | Columns | Either | JsonObject

PLAIN: dict[object, Kind] = {
    str: Plain("string"),
    int: Plain("integer"),
    float: Plain("number"),
    bool: Plain("boolean"),
    NoneType: Plain("null"),
}


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb and its documents."""

    name: str
    documents: tuple[JsonObject, ...]  # each that it may print, except an error
    about: str = ""  # when it prints each


def listed(names: type[Enum]) -> dict[str, str]:
    """Returns the strings of an enumeration, which another document explains."""
    return {str(one.value): "" for one in names}


def explained(members: Iterable[Explained]) -> dict[str, str]:
    return {member.value: member.meaning for member in members}


def parts_of(kind: Kind) -> tuple[Kind, ...]:
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


class Part:
    """An object that is declared as a class: `LongestChain` is the *longest chain*.

    Its docstring is the remark on the whole. The meaning of a field is given by `said`, or by its
    annotated type. A field whose name begins with `_` stands for those of its type; the `_` after
    a name that Python reserves is not of the name.
    """

    shape: ClassVar[JsonObject]

    def __init_subclass__(cls, *, lines: str = "") -> None:
        name = re.sub("(?!^)(?=[A-Z])", " ", cls.__name__).lower()
        about = " ".join((cls.__doc__ or "").split())
        cls.shape = JsonObject(name, tuple(_fields(cls)), about, lines)


def said(meaning: str, *, optional: bool = False) -> Any:
    """Gives a field of a `Part` its meaning; an optional one is absent if it does not apply."""
    return meaning, optional


Row = Annotated[dict[str, Any], Columns()]


def _fields(part: type) -> Iterator[JsonField]:
    for name, hint in part.__annotations__.items():
        if name.startswith("_"):
            yield from hint.shape.fields
            continue
        meaning, optional = vars(part).get(name) or (_meaning(hint), False)
        yield JsonField(name.rstrip("_"), _kind_of(hint), meaning, optional)


def _meaning(hint: Any) -> str:
    *_, meaning = (one for one in hint.__metadata__ if isinstance(one, str))
    return meaning


def _kind_of(hint: Any) -> Kind:
    if hint in PLAIN:
        return PLAIN[hint]
    if isinstance(hint, type) and issubclass(hint, Part):
        return hint.shape
    if get_origin(hint) is Annotated:
        kinds = (one for one in hint.__metadata__ if isinstance(one, Kind))
        return next(kinds, None) or _kind_of(hint.__origin__)
    arguments = get_args(hint)
    if get_origin(hint) is list:
        return ListOf(_kind_of(arguments[0]))
    if get_origin(hint) is dict:
        by = arguments[0].__metadata__[0]
        return MapOf(_kind_of(arguments[1]), by)
    return Either(tuple(map(_kind_of, arguments)))
