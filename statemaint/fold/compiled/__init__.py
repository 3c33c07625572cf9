"""The fast engine: folds of HDFS-backed stores in compiled kernels."""
