"""Maintains the state of Spark Structured Streaming queries outside their executors."""

import warnings
from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from statemaint.checkpoint import OpenCheckpoint
    from statemaint.storage import S3Options

__all__ = ["__version__", "open", "read_state"]
__version__ = "0.2.0"


def open(address: str | PathLike[str], *, s3: "S3Options | None" = None) -> "OpenCheckpoint":  # noqa: A001 -- as a name of ours
    """Returns the checkpoint at an address, whose methods do what the command line does.

    Args:
        address: a path, `s3://`, `hdfs://` and others.
        s3: how S3 is reached; by default, as the environment sets it.

    Raises:
        ConfigError: when the address is empty or has a secret in it.
        UnsupportedError: for a scheme that this version cannot reach.
    """
    from statemaint.checkpoint import OpenCheckpoint, storage_at  # noqa: PLC0415 -- as below

    return OpenCheckpoint(storage_at(address, s3))


def read_state(
    address: str,
    operator: int = 0,
    *,
    partition: int | None = None,
    store: str | None = None,
    family: str | None = None,
    version: int | None = None,
) -> "pa.Table":
    """Returns the rows of one store or column family at a version as a `pyarrow.Table`.

    Deprecated, and removed with 0.4: `statemaint.open(address).show()` has Spark's names as
    columns. Those of this table are `partition`, `key` and `value`; the last two are structs.

    Args:
        address: the address of the checkpoint.
        operator: the stateful operator.
        partition: all of them by default.
        store: the store's name; required where there are several.
        family: the column family's name; required where there are several.
        version: the newest committed one by default.

    Raises:
        ConfigError: when `pyarrow` is not installed, or the requested state does not exist.
        CheckpointError: when a file of the version is damaged.
        StorageError: when a listing or read failed.
    """
    from statemaint.state.arrow import read_table  # noqa: PLC0415 -- importing us stays cheap

    new = "statemaint.open(address).show(operator, batch=version - 1)"
    warnings.warn(f"read_state is deprecated: use {new}", DeprecationWarning, stacklevel=2)
    table = read_table(
        address, operator, partition=partition, store=store, family=family, version=version
    )
    old = {"partitionId": "partition", "key": "key", "value": "value"}
    return table.select([*old]).rename_columns([*old.values()])
