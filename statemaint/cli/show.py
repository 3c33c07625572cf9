"""`show`: rows of state at a version."""

from itertools import islice
from typing import Any

import click

from statemaint.cli import rows as state_rows
from statemaint.cli import tables
from statemaint.cli.options import as_json, uri
from statemaint.cli.output import show
from statemaint.state import select_state

_NUMBER = click.IntRange(min=0)


@click.command("show")
@uri
@click.option("--operator", type=_NUMBER, default=0, help="Default: 0.")
@click.option("--partition", type=_NUMBER, help="Default: all of them.")
@click.option("--store", metavar="NAME", help="Default: all of them.")
@click.option("--family", metavar="NAME", help="Column family; Spark's own only when named.")
@click.option("--version", "version", type=click.IntRange(min=1), help="Default: the newest.")
@click.option("--key", metavar="TEXT", help="Only rows with a key column that reads TEXT.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many rows.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@as_json
def show_verb(
    uri: str,
    *,
    key: str | None,
    limit: int | None,
    as_csv: bool,
    as_json: bool,
    **where: Any,
) -> None:
    """Print the rows of state at a version, decoded with the schema that the query wrote.

    Key and value come apart, under the names that the state is stored with. Times are UTC.
    """
    if as_csv and as_json:
        raise click.UsageError("--csv and --json cannot be had at once")
    found = select_state(uri, **where)
    rows = islice(state_rows.with_key(found.rows(), key), limit)
    if as_csv:
        state_rows.print_csv(rows)
        return
    shown = list(rows)
    document = {"version": found.version, "rows": [state_rows.row_json(one) for one in shown]}
    show(document, as_json=as_json, table=lambda: tables.state(found.version, shown))
