"""Rows of state as a Parquet file, which `bootstrap` takes back."""

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from statemaint.cli.output import note, settings
from statemaint.cli.progress import work_done
from statemaint.errors import ConfigError
from statemaint.model.ids import batch_of
from statemaint.state import StateSelection
from statemaint.state.arrow import arrow_module, record_batches
from statemaint.state.rows import DecodedRow
from statemaint.wording import command, counted

# The bytes of a row group, which is held in memory.
_GROUP = 16 * 1024 * 1024


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
        if sum(each.nbytes for each in held) >= _GROUP:
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
    version, file = selection.version, settings().output or ""
    words = ["bootstrap", selection.storage.root, f"{name}={file}" if name else file]
    words += ["--operator", str(number)] if number else []
    older = version != selection.checkpoint.target
    return command(*words, "--at", str(version), *(("--to", "DEST") if older else ()))
