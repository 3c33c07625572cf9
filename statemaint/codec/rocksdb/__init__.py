"""The files of the RocksDB provider: changelogs, snapshot zips, and RocksDB's own log records.

What lies inside an SST file is RocksDB's to read: see `fold.rocksdb`.
"""
