"""`queries`: the file from which Airflow's DAGs are built."""

from collections.abc import Mapping

import click
from rich.markup import escape

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
    shown = {"valid": True, "queries": listed}
    print_result(
        shown, as_json=as_json, table=lambda: _print_table(config, listed, full=what == "list")
    )


def _print_table(config: str, listed: Mapping[str, str], *, full: bool) -> None:
    """Prints the number of queries in a valid file, or each query."""
    console = tables.new_console()
    if not full:
        console.print(f"{escape(config)}: valid, {len(listed)} queries")
        return
    table = tables.new_table("query", "checkpoint")
    for name, checkpoint in listed.items():
        table.add_row(escape(name), escape(checkpoint))
    console.print(table)
