"""The columns of each DataFrame, with their types and units, as in `docs/spark.md`."""

from collections.abc import Mapping, Sequence
from typing import Any

FINDINGS = "array<struct<code:string,detail:string>>"

_STORE = {
    "query": "string",
    "checkpoint": "string",
    "operator": "int",
    "partition": "int",
    "store": "string",
}

NAMES_OF_SPARK = {"operatorId": "operator", "partitionId": "partition", "storeName": "store"}
"""Columns that DataFrames have besides: what Spark's tables of state call a column of ours."""

INVENTORY: Mapping[str, str] = {
    **_STORE,
    "provider": "string",
    "target_version": "bigint",
    "first_version": "bigint",
    "last_version": "bigint",
    "snapshots": "array<bigint>",
    "chain_length": "int",
    "files": "bigint",
    "bytes": "bigint",
    "findings": FINDINGS,
    "exit_code": "int",
    "error": "string",
}

PLAN: Mapping[str, str] = {
    **_STORE,
    "action": "string",
    "version": "bigint",
    "path": "string",
    "bytes": "bigint",
    "reason": "string",
    "detail": "string",
    "exit_code": "int",
}

OUTCOMES: Mapping[str, str] = {
    "run": "string",
    **_STORE,
    "outcome": "string",
    "version": "bigint",
    "chain_before": "int",
    "chain_after": "int",
    "files": "bigint",
    "bytes": "bigint",
    "snapshots_written": "int",
    "bytes_written": "bigint",
    "files_deleted": "bigint",
    "bytes_deleted": "bigint",
    "reclaimable_bytes": "bigint",
    "rows": "bigint",
    "digest": "string",
    "findings": FINDINGS,
    "exit_code": "int",
    "error": "string",
    "unit": "string",
    "weight": "double",
    "started": "double",
    "seconds": "double",
    "savepoint": "string",
}

# Other messages of a task to the driver: JSON, in rows without a store.
NOTED: Mapping[str, str] = {**OUTCOMES, "note": "string"}

VERIFIED: Mapping[str, str] = {
    "query": "string",
    "checkpoint": "string",
    "share": "int",
    "verdict": "string",
    "looked_at": "string",
    "healthy": "boolean",
    "stores": "bigint",
    "versions_checked": "bigint",
    "findings": FINDINGS,
    "exit_code": "int",
    "error": "string",
}

# Of a history: the outcomes of maintenance and savepoints, and the results of verifications.
HISTORY: Mapping[str, str] = {"verb": "string", **OUTCOMES, **VERIFIED}


def ddl(columns: Mapping[str, str]) -> str:
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())


def arrow_schema(columns: Mapping[str, str]) -> Any:
    import pyarrow as pa

    finding = pa.struct([("code", pa.string()), ("detail", pa.string())])
    kinds = {
        "string": pa.string(),
        "binary": pa.binary(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "array<bigint>": pa.list_(pa.int64()),
        FINDINGS: pa.list_(finding),
    }
    return pa.schema([(name, kinds[kind]) for name, kind in columns.items()])


def batch(columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> Any:
    """Returns rows as an Arrow batch; a column that a row lacks is null."""
    import pyarrow as pa

    return pa.RecordBatch.from_pylist(list(rows), schema=arrow_schema(columns))
