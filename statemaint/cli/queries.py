"""`queries`: the file from which Airflow's DAGs are built."""

from collections.abc import Mapping

import click

from statemaint.cli import tables
from statemaint.cli.options import as_json
from statemaint.cli.output import print_result
from statemaint.queries import load_queries


@click.command("queries")
@click.argument("config", metavar="CONFIG.yaml")
@click.argument("what", type=click.Choice(["validate", "list"]))
@as_json
def queries_verb(config: str, what: str, *, as_json: bool) -> None:
    """Validate the queries file from which Airflow's DAGs are generated, or list its queries."""
    queries = load_queries(config).queries
    listed = {name: str(query.checkpoint) for name, query in sorted(queries.items())}
    print_result(
        lambda: {"valid": True, "queries": listed},
        as_json=as_json,
        table=lambda: _print_table(config, listed, full=what == "list"),
    )


def _print_table(config: str, listed: Mapping[str, str], *, full: bool) -> None:
    """Prints the number of queries in a valid file, or each query."""
    if full:
        tables.print_table(("query", "checkpoint"), listed.items())
    else:
        tables.print_line(f"{config}: valid, {len(listed)} queries")
