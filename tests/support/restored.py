"""Takes all rows of an operator out of a checkpoint, and puts them back, as a caller would."""

from collections import defaultdict
from typing import Any

from statemaint.planning import scan_checkpoint
from statemaint.provider import bootstrap
from statemaint.state import select_state
from statemaint.storage import Storage

_TIMERS = "Timers_keyToTimestamp"


def given_rows(storage: Storage, operator: int) -> Any:
    """Returns the rows of an operator's newest state in the form that `bootstrap` takes."""
    rows: dict[str, list[tuple[Any, Any]]] = defaultdict(list)
    for row in select_state(storage, operator).decoded():
        name = row.family or row.store.store
        side, _, kind = name.partition("-")
        if kind == "keyWithIndexToValue":
            rows[side].append((row.key[:-1], row.entries[0]))
        elif kind == "keyWithTsToValues":
            rows[side] += [(row.key, entry) for entry in row.entries]
        elif not kind and (not name.startswith("$") or name.endswith(_TIMERS)):
            value = list(row.entries) if row.layout.many else row.entries[0]
            rows[name].append((row.key, value))
    return rows["default"] if [*rows] == ["default"] else rows


def operators_of(storage: Storage) -> list[int]:
    return sorted({store.id.operator for store in scan_checkpoint(storage).stores})


def removed(rows: Any) -> Any:
    """Returns the removal of all keys of some rows."""
    if isinstance(rows, dict):
        return {name: removed(some) for name, some in rows.items()}
    return [(key, None) for key, _ in rows]


def take_out_and_put_back(storage: Storage) -> int:
    """Removes all rows of each operator in one batch, puts them back in another; counts both."""
    for operator in (operators := operators_of(storage)):
        rows = given_rows(storage, operator)
        assert rows, operator
        bootstrap(storage, removed(rows), operator=operator)
        assert not [*select_state(storage, operator).decoded()]
        bootstrap(storage, rows, operator=operator)
    return 2 * len(operators)
