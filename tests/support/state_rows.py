"""Our rows of state in the shape that Spark's state reader gives them."""

from collections.abc import Iterator
from typing import Any

from statemaint.state import StateRow

_TIMERS = "_keyToTimestamp"


def store_of(row: StateRow) -> str:
    store = f"{row.store.operator}/{row.store.store}"
    if row.family is None:
        return store
    return f"{store}/{'timers' if row.family.endswith(_TIMERS) else row.family}"


def as_spark(row: StateRow) -> Iterator[dict[str, Any]]:
    """A row as Spark's reader names its columns, which are others for state variables."""
    begin = {"partition_id": row.store.partition}
    if row.family is not None and row.family.endswith(_TIMERS):
        expiry = {"expiration_timestamp_ms": row.key["expiryTimestampMs"]}
        yield {**begin, "key": row.key["key"], **expiry}
    elif "userKey" in row.key:
        columns = {"user_map_key": row.key["userKey"], "user_map_value": row.value}
        yield {**begin, "key": row.key["key"], **columns}
    elif isinstance(row.value, dict):
        yield {**begin, "key": row.key, "value": row.value}
    elif "__event_time" in row.key:
        yield from ({**begin, "key": row.key, "value": value} for value in row.value)
    else:
        yield {**begin, "key": row.key, "list_value": row.value}
