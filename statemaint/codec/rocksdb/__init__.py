"""The files of the RocksDB provider: changelogs, snapshot zips, and RocksDB's own logs."""
