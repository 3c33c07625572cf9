"""The files of the RocksDB provider: changelogs, snapshot zips, and RocksDB's own log records.

RocksDB itself reads the content of SST files: see `fold.rocksdb`.
"""
