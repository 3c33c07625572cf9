"""The flags that several verbs share."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import click

from statemaint.cli.targets import Address, CheckpointName
from statemaint.errors import ConfigError, StatemaintError
from statemaint.memory import VARIABLE, keep_freed_memory, memory_size
from statemaint.model.policy import PRESETS, SETTINGS, Policy, Setting, seconds
from statemaint.plan.actions import Request
from statemaint.storage import Storage
from statemaint.workers import Workers

Command = Callable[..., None]
NUMBER, POSITIVE = click.IntRange(min=0), click.IntRange(min=1)


class Parsed(click.ParamType):  # type: ignore[type-arg]  # generic only in newer clicks
    """A value that a function parses from text, such as `90s`, `512MB` or `3/10`."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name, self._parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ConfigError as error:
            self.fail(str(error), param, ctx)


def _share(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([1-9][0-9]{0,8})/([1-9][0-9]{0,8})", text, re.ASCII)
    if not found or int(found[1]) > int(found[2]):
        raise ConfigError(f"{text!r} is not a valid share; write it like 3/10, the third of ten")
    return int(found[1]), int(found[2])


def _address(text: str) -> str:
    if not text.strip():
        raise ConfigError("the address is empty")
    return text


DURATION, SHARE = Parsed("duration", seconds), Parsed("share", _share)
SIZE, ADDRESS = Parsed("size", memory_size), Parsed("address", _address)

uri = click.argument("uri", metavar="URI", type=CheckpointName())
as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document, also for an error."
)
operator_flag = click.option("--operator", type=NUMBER, default=0, help="Default: 0.")
partition_flag = click.option("--partition", type=NUMBER, help="Default: all.")
store_flag = click.option("--store", metavar="NAME", help="Default: all.")
key_flag = click.option("--key", metavar="TEXT", help="Only rows with a key column equal to TEXT.")
publish_flag = click.option(
    "--publish",
    is_flag=True,
    help="Publish the metrics of a query given by its name, where the queries file says.",
)


def with_options(command: Command, options: Iterable[Callable[[Command], Command]]) -> Command:
    """Adds options, which `--help` lists in this order."""
    for option in reversed([*options]):
        command = option(command)
    return command


def as_json_or_lines(command: Command) -> Command:
    shown = "Print JSON as lines: the document without its list, then each element of the list."
    return as_json(click.option("--json-lines", is_flag=True, help=shown)(command))


def workers_flag(command: Command) -> Command:
    """Adds `--workers` and `--memory`, and passes the verb one `workers`."""

    @click.option(
        "--workers",
        "number",
        type=POSITIVE,
        help="Number of stores to work on at a time.  "
        "[default: chosen for the storage and the size]",
    )
    @click.option(
        "--memory",
        type=SIZE,
        envvar=VARIABLE,
        help="Memory to keep within, such as 512MB or 1GB, by working on fewer stores at a time.  "
        "[default: STATEMAINT_MEMORY, or half of the available memory]",
    )
    @wraps(command)
    def with_workers(*, number: int | None, memory: int | None, **rest: Any) -> None:
        keep_freed_memory()
        command(workers=Workers(number, memory), **rest)

    return with_workers


def policy_flags(command: Command) -> Command:
    """Adds the policy's flags and passes the verb one `policy`.

    A verb of several addresses gets a function that returns the policy of each.
    """

    @click.option(
        "--preset",
        type=click.Choice(sorted(PRESETS)),
        help="The policy to start from; the flags below change it.  "
        "[default: safe; for a query's name, its policy in the queries file]",
    )
    @policy_changes
    @wraps(command)
    def with_policy(*, preset: str | None, policy: dict[str, Any], **rest: Any) -> None:
        def policy_of(uri: object) -> Policy:
            named = getattr(uri, "policy", None)
            base = PRESETS[preset or "safe"] if preset or named is None else named
            return base.override(**policy)

        uri = rest.get("uri")
        command(policy=policy_of if isinstance(uri, tuple) else policy_of(uri), **rest)

    return with_policy


def policy_changes(command: Command) -> Command:
    """Adds the policy's flags without a preset; passes the verb those that are set, by name."""

    @wraps(command)
    def with_changes(**arguments: Any) -> None:
        given = {setting.name: arguments.pop(setting.name, None) for setting in SETTINGS}
        policy = {name: value for name, value in given.items() if value is not None}
        command(policy=policy, **arguments)

    return with_options(with_changes, map(_option, SETTINGS))


def _option(setting: Setting) -> Callable[[Command], Command]:
    flag = setting.name.replace("_", "-")
    default = "" if setting.default is None else setting.shown(setting.default)
    names = f"--{flag}"
    kind: Parsed | click.IntRange | None = DURATION if setting.kind is float else None
    if setting.kind is bool:
        names, default = f"--{flag}/--no-{flag}", flag
    elif setting.kind is int:
        kind = click.IntRange(min=setting.least)
    shown = f"{setting.meaning}  [default: {default}]" if default else setting.meaning
    return click.option(names, setting.name, default=None, type=kind, help=shown)


def scope_flags(command: Command) -> Command:
    """Adds the flags that restrict a run, and passes the verb one `request`."""

    @click.option(
        "--operator", type=NUMBER, multiple=True, help="Restrict to this operator; repeatable."
    )
    @click.option(
        "--partition", type=NUMBER, multiple=True, help="Restrict to this partition; repeatable."
    )
    @click.option(
        "--store",
        multiple=True,
        metavar="NAME",
        help="Restrict to stores of this name; repeatable.",
    )
    @click.option(
        "--target-version",
        "target",
        type=POSITIVE,
        help="Write the snapshot at this committed version instead of the newest.",
    )
    @click.option(
        "--force-snapshot",
        is_flag=True,
        help="Write a snapshot at the target even when its chain is short.",
    )
    @wraps(command)
    def with_request(*, force_snapshot: bool, target: int | None, **rest: Any) -> None:
        names = ("operator", "partition", "store")
        operators, partitions, stores = (frozenset(rest.pop(name)) for name in names)
        request = Request(target, force_snapshot, operators, partitions, stores)
        command(request=request, **rest)

    return with_request


def family_flags(command: Command) -> Command:
    shown = "Column family; Spark's internal families must be named."
    family = click.option("--family", metavar="NAME", help=shown)
    return with_options(command, (operator_flag, partition_flag, store_flag, family))


@contextmanager
def publishing(
    address: Address, storage: Storage, *, wanted: bool, push: str | None = None
) -> Iterator[None]:
    """Publishes a query's record after the run in the block, also if that fails.

    It goes where the queries file says, or to the Pushgateway `push`; it is an error before the run
    if neither is known.
    """
    if not wanted:
        yield
        return
    from statemaint.cli.queries import publisher  # noqa: PLC0415 -- loads pydantic

    publish = publisher(address, push)
    try:
        yield
    except StatemaintError:
        publish(storage)
        raise
    publish(storage)
