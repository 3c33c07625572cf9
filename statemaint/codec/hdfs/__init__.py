"""The files of the HDFS-backed provider: records of deltas and snapshots, and their checksums."""
