"""The mistakes in a queries file, in words; and the notifiers, which only an import can check."""

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from statemaint.errors import ConfigError
from statemaint.queries import models
from statemaint.storage import has_secret
from statemaint.wording import moment

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One mistake in a queries file."""

    line: int  # from 1; 0 if it has none
    key: str  # the dotted path
    what: str  # the mistake, and what to do
    file: str  # its path
    entry: str = ""  # the key of the entry below `queries` that has it; empty outside of them
    kept: float | None = field(default=None, compare=False)  # the last good version, since then

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        text = f"{place}: {self.key}: {self.what}" if self.key else f"{place}: {self.what}"
        if self.kept is None:
            return text
        return f"{text} (its last good version is used, since {moment(self.kept)} UTC)"


class InvalidQueriesError(ConfigError):
    """A queries file with problems; its text has a line for each."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(map(str, self.problems)))


def explained(error: ValidationError, below: Path) -> Iterator[tuple[Path, str]]:
    """Yields the path and the explanation of each error in the part of the file at a path."""
    for detail in error.errors(include_url=False):
        path = (*below, *(part for part in detail["loc"] if part != "[key]"))
        yield path, _what(detail, path)


_PHRASES = {
    "missing": "is missing; add it",
    "model_type": "must be a mapping",
    "dict_type": "must be a mapping",
    "mapping_type": "must be a mapping",
    "tuple_type": "must be a list",
    "string_type": "must be text (in quotes, where YAML reads it as something else)",
    "string_too_short": "must not be empty",
    "string_pattern_mismatch": "must be a name of letters, digits and _ . -",
}


def _what(detail: ErrorDetails, path: Path) -> str:
    kind = detail["type"]
    if kind == "extra_forbidden":
        return f"no such key; the keys are {', '.join(_known_keys(path))}"
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    phrase = _PHRASES.get(kind) or detail["msg"].replace("Input should", "must", 1)
    # In place of the path of a secret may be the secret.
    unseen = kind == "missing" or path[0] == "pushgateway_auth"
    return phrase if unseen else f"{phrase}, not {shown(detail['input'])}"


def shown(value: object) -> str:
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, str) and has_secret(value):
        return "an address with a secret"
    return json.dumps(value, default=str)


_MODELS: Mapping[str, type[BaseModel]] = {
    "": models.QueriesFile,
    "defaults": models.PolicySettings,
    "policy": models.PolicySettings,
    "notify": models.Notifier,
    "pushgateway_auth": models.PushgatewayAuth,
    "spark": models.SparkSettings,
    "savepoint": models.SavepointSettings,
}


def _known_keys(path: Sequence[str | int]) -> list[str]:
    """Returns the keys that are allowed beside the last key of a path."""
    around = [part for part in path[:-1] if isinstance(part, str)]
    last = around[-1] if around else ""
    in_query = len(around) == 2 and around[0] == "queries"  # noqa: PLR2004 -- queries, its name
    return list((models.Query if in_query else _MODELS[last]).model_fields)


def resolve(notifier: models.Notifier) -> Callable[..., Any]:
    """Returns the callable that a notifier names: of a class, an object with its arguments."""
    module, _, name = notifier.call.rpartition(".")
    try:
        target = getattr(import_module(module), name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 -- a user's module, or a script
        raise ValueError(f"{notifier.call} cannot be imported: {error}") from None
    if inspect.isclass(target):
        try:
            target = target(**notifier.arguments)
        except Exception as error:  # noqa: BLE001 -- a user's class
            raise ValueError(f"{notifier.call} refuses its arguments: {error}") from None
    elif notifier.arguments:
        raise ValueError(f"{notifier.call} is a function and takes no arguments; leave them out")
    if not callable(target):
        raise ValueError(f"{notifier.call} cannot be called")  # noqa: TRY004 -- as all others
    callback: Callable[..., Any] = target
    return callback


def unresolved(queries: Mapping[str, models.Query]) -> Iterator[tuple[str, int, str]]:
    """Yields each query with a notifier that cannot be called, its place in the list, and why."""
    for name, query in queries.items():
        for place, notifier in enumerate(query.notify):
            try:
                resolve(notifier)
            except ValueError as error:
                yield name, place, " ".join(str(error).split())
