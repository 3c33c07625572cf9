"""Maintains the state of Spark Structured Streaming queries outside their executors."""

from typing import Any

__all__ = ["__version__", "read_state"]
__version__ = "0.1.0"


def read_state(address: str, operator: int = 0, **where: Any) -> Any:
    """Returns the rows of one store or column family at a version as a `pyarrow.Table`.

    Its columns are `partition`, `key` and `value`, the last two of structs.

    Args:
        address: of the checkpoint.
        operator: the stateful operator.
        where: `partition` (all by default), `store` and `family` (needed where there are several)
            and `version` (the newest committed one by default).

    Raises:
        ConfigError: when `pyarrow` is not installed, or there is nothing of what is asked for.
        CheckpointError: when a file of the version is damaged.
        StorageError: when anything could not be listed or read.
    """
    from statemaint.state.arrow import read_table  # noqa: PLC0415 -- whoever imports us pays

    return read_table(address, operator, **where)
