"""Folding the chains of RocksDB stores: a zip and its SST files, and the changelogs above it.

RocksDB itself opens, reads and writes the files, through `rocksdict` and in this process. `changes`
decides the effect of the changelogs, and `database` gives RocksDB the resulting commands.
"""

from statemaint.fold.rocksdb.changes import Limits
from statemaint.fold.rocksdb.write import Built, Fresh, RocksEngine, build, build_rows

__all__ = ["Built", "Fresh", "Limits", "RocksEngine", "build", "build_rows"]
