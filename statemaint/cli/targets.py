"""The address of a checkpoint, given as a query's name or as an address."""

import os
from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click
from click.shell_completion import CompletionItem

from statemaint.cli.output import note
from statemaint.errors import ConfigError, NotACheckpointError, StatemaintError
from statemaint.model.policy import Policy
from statemaint.storage import checkpoint_around, is_file, place_of

if TYPE_CHECKING:
    from statemaint.queries.models import SavepointSettings
    from statemaint.queries.problems import Problem
    from statemaint.queries.reading import QueriesReading

VARIABLE = "STATEMAINT_QUERIES"
"""The variable with the path of the queries file."""
_HERE = "statemaint_queries.yaml"
_KEY = "statemaint.queries"


class Address(str):
    """The address of a checkpoint, with the settings that the queries file has for it.

    They are `None` if an address was given, not a name.
    """

    __slots__ = ("detail", "named", "policy")
    policy: Policy | None
    detail: str | None  # of the query's metrics
    named: "tuple[QueriesReading, str] | None"  # the queries file, and the query's name

    def __new__(cls, text: str, named: "tuple[QueriesReading, str] | None" = None) -> Self:
        address = super().__new__(cls, text)
        address.named, address.policy, address.detail = named, None, None
        if named:
            reading, name = named
            address.policy, address.detail = reading.policy_of(name), reading.queries[name].detail
        return address


def savepoints_of(address: Address) -> "tuple[str, SavepointSettings] | None":
    """Returns a query's name and where its savepoints are; `None` if no name was given."""
    if address.named is None:
        return None
    reading, name = address.named
    settings = reading.queries[name].savepoint
    if settings is None:
        raise ConfigError(
            f"{reading.path}: query {name!r} has no `savepoint`; add `savepoint: {{to: ADDRESS}}`, "
            "or give DEST as an address"
        )
    return name, settings


class CheckpointName(click.ParamType):  # type: ignore[type-arg]  # generic only in newer clicks
    """A checkpoint's address, or the name of a query in the queries file."""

    name = "uri"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Address:
        del param
        if isinstance(value, Address):
            return value
        text = str(value)
        path = None if _is_address(text) else _queries_file(ctx)
        if path is None:
            return Address(text)
        reading = _read(path)
        if not _is_folder(text):
            return _named(text, reading)
        return _folder_or_query(text, reading, chosen=bool(ctx and ctx.meta.get(_KEY)))

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Returns the queries that begin so; the shell adds folders.

        A file that cannot be read has no names: the verb reports its fault.
        """
        del param
        names: list[str] = []
        if path := _queries_file(ctx):
            with suppress(StatemaintError, OSError, ValueError):
                names = sorted(_read(path).queries)
        # Folders come first: click's script for bash drops completions before them.
        return [
            CompletionItem(incomplete, type="dir"),
            *(CompletionItem(name) for name in names if name.startswith(incomplete)),
        ]


def _queries_file(ctx: click.Context | None) -> str | None:
    given: str | None = ctx.meta.get(_KEY) if ctx else None
    return given or os.environ.get(VARIABLE) or (_HERE if Path(_HERE).is_file() else None)


def queries_file(config: tuple[str, ...] = ()) -> str:
    """Returns the queries file: the argument, `--queries`, the variable's, or the one here."""
    ctx = click.get_current_context()
    if len(config) > 1 or (config and ctx.meta.get(_KEY)):
        raise click.UsageError("give one queries file, as CONFIG or with --queries", ctx)
    path = config[0] if config else _queries_file(ctx)
    if path is None:
        raise click.UsageError(f"give the queries file with --queries FILE, or set {VARIABLE}", ctx)
    return path


def _is_address(text: str) -> bool:
    return not text.strip() or "/" in text or ":" in text or text in {".", ".."}


def _is_folder(text: str) -> bool:
    try:
        return Path(text).is_dir()
    except (OSError, ValueError):
        return False


def _read(path: str) -> "QueriesReading":
    from statemaint.queries.reading import read_queries  # noqa: PLC0415 -- loads pydantic

    return read_queries(path)


def _named(name: str, reading: "QueriesReading") -> Address:
    from statemaint.queries.problems import InvalidQueriesError  # noqa: PLC0415 -- loads pydantic

    if name not in reading.queries:
        broken = {entry.name: entry for entry in reading.broken}
        if name in broken:
            problems = "; ".join(map(str, broken[name].problems))
            raise ConfigError(f"{reading.path}: query {name!r} is not valid: {problems}")
        if not reading.usable:
            raise InvalidQueriesError(reading.problems)
        near = _near(name, reading.queries)
        raise ConfigError(f"{name!r} is neither a folder here nor a query in {reading.path}{near}")
    query = reading.queries[name]
    if query.connection:
        note(
            f"{name}: Airflow's connection {query.connection!r} is not used here; credentials "
            "come from this environment"
        )
    return Address(query.checkpoint, (reading, name))


def _folder_or_query(text: str, reading: "QueriesReading", *, chosen: bool) -> Address:
    """Returns the address of a folder here, or of the query of that name.

    It is the query if the folder is its checkpoint, or its file is `chosen` for this call.
    """
    if text not in {*reading.queries, *(entry.name for entry in reading.broken)}:
        return Address(text)
    named = _named(text, reading)
    if not chosen and place_of(named) != place_of(text):
        raise ConfigError(
            f"{text!r} is a folder here, and a query in {reading.path} whose checkpoint is "
            f"{named}; give ./{text} for the folder, or --queries {reading.path} for the query"
        )
    return named


def of_queries(
    ctx: click.Context, tags: Iterable[str]
) -> "tuple[str, list[Address], list[Problem]]":
    """Returns the queries file, its enabled queries with any of some tags, and its mistakes.

    Without a tag it is all of them, if the file was given by `--queries`.
    """
    wanted, path = {*tags}, _queries_file(ctx)
    if path is None or not (wanted or ctx.meta.get(_KEY)):
        raise click.UsageError("give URI, or --queries FILE for all queries of a file", ctx)
    reading = _read(path)
    names = (
        name
        for name, query in sorted(reading.queries.items())
        if query.enabled and (not wanted or wanted.intersection(query.tags))
    )
    addresses = [_named(name, reading) for name in names]
    if not addresses and not reading.all_problems:
        raise ConfigError(f"{path}: no enabled query{' has such a tag' if wanted else ''}")
    return path, addresses, [*reading.all_problems]


def _near(name: str, names: Iterable[str]) -> str:
    ordered = sorted(names)
    if near := get_close_matches(name, ordered, n=1):
        return f"; did you mean {near[0]!r}?"
    return f", which has {', '.join(ordered[:5])}{', ...' if len(ordered) > 5 else ''}"  # noqa: PLR2004


def explained(error: StatemaintError, uri: str) -> StatemaintError:
    """Returns the error of an address that is not a checkpoint, with its actual kind if known."""
    lone = is_file(uri)
    if not lone and not isinstance(error, NotACheckpointError):
        return error
    if around := checkpoint_around(uri):
        return NotACheckpointError(uri, f"it is a part of the checkpoint {around}")
    return NotACheckpointError(uri, "it is a file") if lone else error


def queries_option() -> click.Option:
    """Returns `--queries`, which is read before the address."""
    return click.Option(
        ["--queries"],
        metavar="FILE",
        type=click.Path(),
        is_eager=True,
        expose_value=False,
        callback=lambda ctx, _, value: ctx.meta.update({_KEY: value}),
        help=(
            "The queries file, or a folder of such files, for a query's name.  [default: "
            f"{VARIABLE}, or {_HERE} here]"
        ),
    )
