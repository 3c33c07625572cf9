"""The compressions of state files: each stream is a sequence of blocks (`base`).

A new one is entered in `registry`. What is inside the blocks belongs to `hdfs` and `rocksdb`.
"""
