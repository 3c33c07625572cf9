"""`queries`: the file from which Airflow's DAGs are built."""

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import click

from statemaint.cli import tables
from statemaint.cli.options import as_json
from statemaint.cli.output import print_result
from statemaint.errors import ConfigError
from statemaint.queries import DEFAULT_POOL, Problem, Query, in_order, read_queries
from statemaint.queries.notifiers import unresolved
from statemaint.wording import counted


@click.command("queries")
@click.argument("config", metavar="CONFIG", type=click.Path())
@click.argument("what", type=click.Choice(["validate", "list"]))
@as_json
def queries_verb(config: str, what: str, *, as_json: bool) -> None:
    """Validate the queries file from which Airflow's DAGs are generated, or list its queries.

    CONFIG is a file, or a folder whose files *.yaml and *.yml all count.
    """
    reading = read_queries(config)
    queries = dict(sorted(reading.queries.items()))
    wrong = (
        reading.problem_of(name, why, "notify", place) for name, place, why in unresolved(queries)
    )
    problems = in_order((*reading.all_problems, *wrong))
    if not problems or what == "list" or as_json:
        print_result(
            lambda: _document(queries, problems),
            as_json=as_json,
            table=lambda: _print_table(config, queries, full=what == "list"),
        )
    for problem in problems:
        click.echo(f"statemaint: {ConfigError.code}: {problem}", err=True)
    if problems:
        sys.exit(ConfigError.exit_code)


def _document(queries: Mapping[str, Query], problems: Iterable[Problem]) -> dict[str, Any]:
    wrong = [
        {"file": one.file, "line": one.line or None, "key": one.key, "problem": one.what}
        for one in problems
    ]
    return {
        "valid": not wrong,
        "queries": {name: query.checkpoint for name, query in queries.items()},
        "disabled": [name for name, query in queries.items() if not query.enabled],
        "pools": _pools(queries),
        "executors": _executors(queries),
        "problems": wrong,
    }


def _pools(queries: Mapping[str, Query]) -> list[str]:
    return sorted({query.pool for query in queries.values() if query.enabled})


def _executors(queries: Mapping[str, Query]) -> list[str]:
    return sorted(
        {query.executor for query in queries.values() if query.enabled and query.executor}
    )


def _print_table(config: str, queries: Mapping[str, Query], *, full: bool) -> None:
    if full:
        listed = [(name, query.checkpoint) for name, query in queries.items()]
        tables.print_table(("query", "checkpoint"), listed)
        return
    tables.print_line(f"{config}: valid, {counted(len(queries), 'query', 'queries')}", wrap=False)
    if others := [pool for pool in _pools(queries) if pool != DEFAULT_POOL]:
        click.echo(
            f"Airflow must have these pools, or the tasks wait forever: {', '.join(others)}; "
            f"create each with `airflow pools set NAME SLOTS TEXT` (the plugin creates only "
            f"{DEFAULT_POOL})",
            err=True,
        )
    if executors := _executors(queries):
        click.echo(
            f"Airflow's setting `executor` must have these, or the DAGs of their queries show only "
            f"an error: {', '.join(executors)}",
            err=True,
        )
