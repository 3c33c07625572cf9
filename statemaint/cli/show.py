"""`show` prints rows of state at a version; `diff` compares those of two versions."""

import csv
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict
from functools import partial
from itertools import chain, islice
from tempfile import SpooledTemporaryFile
from types import SimpleNamespace
from typing import Any

import click

from statemaint.cli import options as flags
from statemaint.cli import tables
from statemaint.cli.options import NUMBER, POSITIVE
from statemaint.cli.output import Json, note, print_pieces, print_rows, settings
from statemaint.cli.progress import work_done
from statemaint.errors import ConfigError
from statemaint.fold.temporary import temporary_directory
from statemaint.model.ids import batch_of
from statemaint.report.to_json import fields_json, id_json
from statemaint.state import StateRow, StateSelection, select_state
from statemaint.state.arrow import arrow_module, record_batches
from statemaint.state.diff import ChangedRow, Counts, StateDiff, StoreDiff, diff_state
from statemaint.state.rows import DecodedRow, Readable
from statemaint.state.shuffle_key import holding
from statemaint.wording import command, counted, printable
from statemaint.workers import Workers


@click.command("show")
@flags.uri
@flags.family_flags
@click.option("--version", "version", type=POSITIVE, help="Default: the newest.")
@flags.key_flag
@click.option("--limit", type=POSITIVE, help="Maximum number of rows.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "parquet"]),
    help="As a table, which is the default; as --csv; or as a Parquet file, with --output, of one "
    "store or family.",
)
@flags.workers_flag
@flags.as_json_or_lines
def show_verb(
    uri: str,
    *,
    key: str | None,
    limit: int | None,
    as_csv: bool,
    form: str | None,
    workers: Workers,
    **where: Any,
) -> None:
    """Print the rows of state at a version, decoded with the schema that the query wrote.

    Keys and values are printed as separate columns under their stored names. Times are in UTC.
    Memory does not grow with the state; the rest is sorted in the temporary directory.
    On a terminal a table has the first 20 rows of each kind, or all with --all or --limit. With
    --key, only the partition that the key hashes to is read, if the checkpoint shows it.

    A Parquet file has the columns `batchId`, `operatorId`, `partitionId`, `storeName`, `key` and
    `value`, the last two with the columns of the state within. `statemaint bootstrap` takes it
    back, edited.
    """
    form = _form(form, as_csv=as_csv)
    selection = select_state(uri, **where)
    read = selection if key is None else holding(selection, key)  # it may have no partition at all
    # Closed here: an interrupt while a row is printed also ends the readers.
    with closing(read.decoded(workers=workers, slowly=limit is not None)) as decoded:
        readable = Readable().row
        if form == "parquet":
            fitting = (row for row in decoded if key is None or reads(readable(row).key, key))
            write_parquet(selection, islice(fitting, limit))
            return
        matching = (row for row in map(readable, decoded) if reads(row.key, key))
        selected = islice(matching, limit)
        if form == "csv":
            print_pieces(_csv(selection, selected))
        elif settings().as_json:
            rows_json = (
                {**id_json(row.store), "family": row.family, "key": row.key, "value": row.value}
                for row in selected
            )
            print_rows({"checkpoint": uri, "version": selection.version}, rows_json)
        else:
            _print_table(selection, matching, key, limit)


def _form(form: str | None, *, as_csv: bool) -> str:
    flag = "--csv" if as_csv else f"--format {form}"
    if as_csv and form not in (None, "csv"):
        raise click.UsageError(f"--csv and --format {form} are mutually exclusive")
    form = "csv" if as_csv else form or "table"
    if form != "table" and settings().as_json:
        raise click.UsageError(f"{flag} and --json are mutually exclusive")
    if form == "parquet" and settings().output is None:
        raise click.UsageError("--format parquet needs --output FILE")
    return form


def _print_table(
    selection: StateSelection, matching: Iterator[StateRow], key: str | None, limit: int | None
) -> None:
    shown, count = RowTables(f"at version {selection.version}", limited=limit is not None), 0
    with work_done("reading"):
        for row in islice(matching, limit):
            shown.add(row, partial(_columns, row))
            count += 1
        more = next(matching, None) is not None
    shown.print(more=more)
    # Those without rows count, too.
    families = sorted({family for _, family in selection.kinds if family})
    if len(families) > 1:
        own = ", ".join(selection.families_of_spark)
        of_spark = f"; of Spark's own: {own}" if own else ""
        names = ", ".join(map(printable, families))
        tables.print_line(f"--family NAME shows one of {names}{of_spark}")
    if more:
        tables.print_line(f"--limit {count} omits the others")
    elif not count:
        has = "no rows" if key is None else f"no row has a key column equal to {key!r}"
        tables.print_line(f"{has} at version {selection.version}")


def _columns(row: StateRow) -> dict[str, Any]:
    """Returns a row by column: its partition, each `key.NAME`, and each `value.NAME` or a list."""
    key = {f"key.{name}": value for name, value in row.key.items()}
    if isinstance(row.value, list):
        return {"partition": row.store.partition, **key, "value": row.value}
    value = {f"value.{name}": value for name, value in row.value.items()}
    return {"partition": row.store.partition, **key, **value}


def _csv(selection: StateSelection, selected: Iterable[StateRow]) -> Iterator[str]:
    """Yields rows with a header; nested values are JSON, and null is empty.

    A column that only some rows have is empty in the others.
    """
    lines: Iterator[dict[str, Any]] = map(_csv_cells, selected)
    names: dict[str, None] = {}
    if len(selection.kinds) > 1:
        spool = Spool()
        for line in lines:
            names |= dict.fromkeys(line)
            spool.append(json.dumps(line))
        lines = map(json.loads, spool)
    elif first := next(lines, None):
        names, lines = dict.fromkeys(first), chain((first,), lines)
    if not names:
        return
    # Each line is what the writer's "file" returns for it.
    returned: Any = SimpleNamespace(write=str)
    writer = csv.DictWriter(returned, names, extrasaction="ignore", lineterminator="\n")
    yield writer.writeheader()
    yield from map(writer.writerow, lines)


def _csv_cells(row: StateRow) -> dict[str, Any]:
    place = {"operator": row.store.operator, "store": row.store.store, "family": row.family}
    cells = {
        name: json.dumps(value) if isinstance(value, dict | list | bool) else value
        for name, value in _columns(row).items()
    }
    return {**place, **cells}


def write_parquet(selection: StateSelection, rows: Iterable[DecodedRow]) -> None:
    """Writes rows to the file of `--output`, and reports how they are put back."""
    arrow, count = arrow_module(), 0
    import pyarrow.parquet as pq

    schema, batches = record_batches(selection, rows)
    try:
        with work_done("reading"), pq.ParquetWriter(sys.stdout.buffer, schema) as writer:
            for group in _groups(batches):
                table = arrow.Table.from_batches(group, schema)
                writer.write_table(table)
                count += table.num_rows
    except arrow.ArrowException as error:
        text = f"Parquet cannot store these rows, {error}; print them by --format csv or --json"
        raise ConfigError(text) from error
    version = selection.version
    what = f"{counted(count, 'row')} of version {version} (batch {batch_of(version)})"
    note(f"{settings().output}: {what}")
    if back := _way_back(selection):
        note(f"edited, it is put back by {back}")


def _groups(batches: Iterator[Any]) -> Iterator[list[Any]]:
    held: list[Any] = []
    for batch in batches:
        held.append(batch)
        if sum(each.nbytes for each in held) >= 16 * 1024 * 1024:  # of a row group, in memory
            yield held
            held = []
    if held:
        yield held


def _way_back(selection: StateSelection) -> str | None:
    """Returns the command that puts the file back; `None` if `bootstrap` does not take it.

    Rows of an older version can only follow its batch in another folder.
    """
    from statemaint.provider.edits import given_as  # noqa: PLC0415 -- loads what writes state

    number = selection.parts[0].store.id.operator
    operators = {operator.id: operator for operator in selection.checkpoint.operators}
    ((store, family),) = selection.kinds
    name = given_as(operators[number], family or store) if number in operators else None
    if name is None:
        return None
    file, root = settings().output or "", selection.storage.root
    words = ["bootstrap", root, f"{name}={file}" if name else file]
    words += ["--operator", str(number)] if number else []
    words += ["--at", str(selection.version)]
    words += ["--to", "DEST"] if selection.version != selection.checkpoint.target else []
    return command(*words)


class Spool:
    """Lines in order; more than 256 KiB are held in a file in the temporary directory."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(256 * 1024, "w+", encoding="utf-8", newline="\n")  # noqa: SIM115

    def __del__(self) -> None:
        self._file.close()

    def append(self, line: str) -> None:
        """Adds a line, which contains no line break."""
        with temporary_directory():
            self._file.write(line + "\n")

    def __iter__(self) -> Iterator[str]:
        """Yields the lines, once; no lines may follow."""
        with temporary_directory(), self._file:
            self._file.seek(0)
            for line in self._file:
                yield line[:-1]


def reads(key: dict[str, Any], text: str | None) -> bool:
    return text is None or text in _texts(key)


def _texts(value: Any) -> Iterator[str]:
    match value:
        case dict():
            yield from _texts([*value.values()])
        case list():
            for member in value:
                yield from _texts(member)
        case str():
            yield value
        case _:
            yield json.dumps(value)


_Kind = tuple[int, str, str]
"""The operator, store and family of a row: rows that share them share their columns."""


class RowTables:
    """Tables of rows, one for each kind of row; they are printed once all rows are known.

    On a terminal each has the first rows, or all if they are `limited` in another way, or with
    `--all`; elsewhere all, as a search through the output must not miss one.
    """

    def __init__(self, when: str, *, limited: bool) -> None:
        self._when, self._whole = when, settings().everything
        every = limited or self._whole or not tables.new_console().is_terminal
        self._most = None if every else tables.MOST_ROWS
        self._columns: dict[_Kind, list[tables.Column[str]]] = {}
        self._cells: dict[_Kind, Spool] = defaultdict(Spool)
        self._counts: Counter[_Kind] = Counter()

    def add(self, row: StateRow | ChangedRow, columns: Callable[[], dict[str, Any]]) -> None:
        """Adds a row; `columns` returns its cells by column."""
        kind = row.store.operator, row.store.store, row.family or ""
        self._counts[kind] += 1
        if self._most is not None and self._counts[kind] > self._most:
            return
        cells = columns()
        if kind not in self._columns:
            self._columns[kind] = [self._column(name, at) for at, name in enumerate(cells)]
        self._cells[kind].append(json.dumps([tables.cell(value) for value in cells.values()]))

    def _column(self, name: str, at: int) -> tables.Column[str]:
        spare = at if name.startswith("value.") and not self._whole else 0
        return tables.Column(printable(name), spare=spare, cut=not self._whole)

    def print(self, *, more: bool = False) -> None:
        """Prints each table under its title; `more` is whether there are rows beyond the limit."""
        for kind, cells in sorted(self._cells.items()):
            operator, store, family = kind
            title = " / ".join(part for part in (f"op {operator}", store, family) if part)
            number = self._counts[kind]
            tables.print_line(f"{title}: {_counted(number, more=more)} {self._when}")
            tables.print_table(self._columns[kind], map(json.loads, cells))
            if (left := number - (self._most or number)) > 0:
                tables.print_line(f"and {counted(left, 'more row')}; --all shows them")


def _counted(lines: int, *, more: bool) -> str:
    if not more:
        return counted(lines, "row")
    return "the first row" if lines == 1 else f"the first {lines:,} rows"


@click.command("diff")
@flags.uri
@flags.family_flags
@click.option("--from", "older", type=NUMBER, help="Older version; default: the one before --to.")
@click.option("--to", "newer", type=POSITIVE, help="Newer version; default: the newest.")
@flags.key_flag
@click.option("--limit", type=NUMBER, help="Maximum number of rows; the counts always cover all.")
@flags.workers_flag
@flags.as_json_or_lines
def diff_verb(
    uri: str,
    *,
    older: int | None,
    newer: int | None,
    key: str | None,
    limit: int | None,
    workers: Workers,
    **where: Any,
) -> None:
    """Compare the rows of state at two versions: what was added, changed and removed.

    Prints the counts of all rows, then the rows, decoded and cut as by `show`. Version 0 is the
    empty state.
    """
    requested, spool = diff_state(uri, (older, newer), **where), Spool()
    when = f"between versions {requested.older} and {requested.newer}"
    shown, as_json = RowTables(when, limited=limit is not None), settings().as_json

    def add(row: ChangedRow) -> None:
        if as_json:
            change = {"family": row.family, "change": row.fate.value}
            values = fields_json(row, "key before after")
            spool.append(json.dumps({**id_json(row.store), **change, **values}))
        else:
            shown.add(row, partial(_changed_columns, row))

    with work_done("comparing"):
        diff = requested.compare(lambda row: reads(row.key, key), limit, workers=workers, into=add)
    if as_json:
        print_rows({"checkpoint": uri, **diff_json(diff)}, map(json.loads, spool))
        return
    tables.print_line(f"from version {diff.older} to version {diff.newer}")
    _print_counts(diff)
    shown.print()


def diff_json(diff: StateDiff) -> Json:
    stores = [
        {**id_json(store.store), "family": store.family, **asdict(store.counts)}
        for store in diff.stores
    ]
    total = asdict(diff.total)
    return {"from": diff.older, "to": diff.newer, "total": total, "stores": stores}


def _print_counts(diff: StateDiff) -> None:
    """Prints the counts of all stores; if they exceed a table, those with the most changes."""
    cut = len(diff.stores) > tables.MOST_ROWS and not settings().everything
    stores = sorted(diff.stores, key=_most_first)[: tables.MOST_ROWS] if cut else diff.stores
    measures = ("added", "changed", "removed", "rewritten")

    def row(name: str, counts: Counts) -> list[str]:
        return [name, *(tables.known(getattr(counts, measure)) for measure in measures)]

    counts = (row(tables.place(store.store, store.family), store.counts) for store in stores)
    columns: list[tables.Column[Any]] = [tables.Column("store"), *map(tables.number, measures)]
    tables.print_table(columns, chain(counts, (row("total", diff.total),)))
    if more := len(diff.stores) - len(stores):
        tables.print_line(f"and {counted(more, 'more store')}, also in the total; --all shows them")


def _most_first(store: StoreDiff) -> tuple[object, ...]:
    counts = store.counts
    return -(counts.added + counts.changed + counts.removed), store.store, store.family or ""


def _changed_columns(row: ChangedRow) -> dict[str, Any]:
    key = {f"key.{name}": value for name, value in row.key.items()}
    before, after = ("" if value is None else value for value in (row.before, row.after))
    place = {"partition": row.store.partition, "change": row.fate.value}
    return place | key | {"before": before, "after": after}
