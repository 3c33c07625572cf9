"""RocksDB itself, from `rocksdict`: an extra of this package.

Importing this module raises `NotInstalledError` if that is missing.
"""

from statemaint.errors import NotInstalledError

try:
    from rocksdict import (
        Checkpoint,
        IngestExternalFileOptions,
        Options,
        Rdict,
        RdictIter,
        SstFileWriter,
        WriteBatch,
        WriteOptions,
    )
except ImportError as error:
    raise NotInstalledError("rocksdict, which reads RocksDB's files,", extra="rocksdb") from error

__all__ = [
    "Checkpoint",
    "IngestExternalFileOptions",
    "Options",
    "Rdict",
    "RdictIter",
    "SstFileWriter",
    "WriteBatch",
    "WriteOptions",
]
