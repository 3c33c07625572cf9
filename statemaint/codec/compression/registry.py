"""The compression that a setting names."""

from statemaint.codec.compression.base import Compression
from statemaint.codec.compression.lz4 import Lz4Block
from statemaint.codec.compression.lzf import Lzf
from statemaint.codec.compression.snappy import Snappy
from statemaint.codec.compression.zstd import Zstd

_ALL: tuple[Compression, ...] = (Lz4Block(), Lzf(), Snappy(), Zstd())
_CLASSES = {"lz4": "LZ4", "lzf": "LZF", "snappy": "Snappy", "zstd": "ZStd"}

COMPRESSIONS = {compression.name: compression for compression in _ALL}
"""Every compression that state files may have, by Spark's short name."""


def named(setting: str) -> Compression | None:
    """Returns the compression that `stateStore.compression.codec` names, if it is known."""
    # Mirrors Spark's `CompressionCodec`: short names in any case, and full names of its classes.
    for name, compression in COMPRESSIONS.items():
        full_name = f"org.apache.spark.io.{_CLASSES[name]}CompressionCodec"
        if setting.lower() == name or setting == full_name:
            return compression
    return None
