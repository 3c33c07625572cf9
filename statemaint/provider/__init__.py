"""State stores with Spark's own method names, for work on state while its query is stopped.

The package writes deltas, snapshots and, in `bootstrap`, a new batch; maintenance never calls
it.
"""

from statemaint.provider.bootstrap import bootstrap
from statemaint.provider.files import (
    CannotLoadStateStoreError,
    StateStoreConf,
    StateStoreMetrics,
    StoreState,
)
from statemaint.provider.hdfs import (
    HDFSBackedReadStateStore,
    HDFSBackedStateStore,
    HDFSBackedStateStoreProvider,
    StoreFile,
)
from statemaint.provider.rocks_store import (
    RocksDBReadStateStore,
    RocksDBStateStore,
    StateStoreCheckpointInfo,
)
from statemaint.provider.rocksdb import RocksDBStateStoreProvider
from statemaint.provider.surgery import Bootstrapped, LiveCheckpointError

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
