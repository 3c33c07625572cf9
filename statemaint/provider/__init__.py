"""State stores with Spark's own method names, for work on state while its query is stopped.

The package writes deltas, snapshots and, in `bootstrap`, a new batch; maintenance never calls
it.
"""

from statemaint.provider.bootstrap import bootstrap
from statemaint.provider.files import CannotLoadStateStoreError, StateStoreConf, StoreFile
from statemaint.provider.hdfs import HDFSBackedStateStoreProvider
from statemaint.provider.refusals import LiveCheckpointError
from statemaint.provider.rocks_store import (
    RocksDBReadStateStore,
    RocksDBStateStore,
    StateStoreCheckpointInfo,
)
from statemaint.provider.rocksdb import RocksDBStateStoreProvider
from statemaint.provider.store import (
    HDFSBackedReadStateStore,
    HDFSBackedStateStore,
    StateStoreMetrics,
    StoreState,
)
from statemaint.provider.surgery import Bootstrapped

__all__ = [
    "Bootstrapped",
    "CannotLoadStateStoreError",
    "HDFSBackedReadStateStore",
    "HDFSBackedStateStore",
    "HDFSBackedStateStoreProvider",
    "LiveCheckpointError",
    "RocksDBReadStateStore",
    "RocksDBStateStore",
    "RocksDBStateStoreProvider",
    "StateStoreCheckpointInfo",
    "StateStoreConf",
    "StateStoreMetrics",
    "StoreFile",
    "StoreState",
    "bootstrap",
]
