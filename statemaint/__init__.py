"""Maintains the state of Spark Structured Streaming queries outside their executors."""

from typing import Any

__all__ = ["__version__", "read_state"]
__version__ = "0.2.0"


def read_state(address: str, operator: int = 0, **where: Any) -> Any:
    """Returns the rows of one store or column family at a version as a `pyarrow.Table`.

    Its columns are `partition`, `key` and `value`; the last two are structs.

    Args:
        address: the address of the checkpoint.
        operator: the stateful operator.
        where: `partition` (all by default), `store` and `family` (required where there are several)
            and `version` (the newest committed one by default).

    Raises:
        ConfigError: when `pyarrow` is not installed, or the requested state does not exist.
        CheckpointError: when a file of the version is damaged.
        StorageError: when a listing or read failed.
    """
    from statemaint.state.arrow import read_table  # noqa: PLC0415 -- importing us stays cheap

    return read_table(address, operator, **where)
