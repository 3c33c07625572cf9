"""The compressions of state files: each stream is a sequence of blocks (`base`).

A new one is entered in `registry`. The content of the blocks belongs to `hdfs` and `rocksdb`.
"""
