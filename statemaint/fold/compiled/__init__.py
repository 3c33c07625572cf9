"""The fast engine: folds of HDFS-backed stores in compiled kernels, equal to those of `reference`.

What is called once for each record belongs in `kernels`, all else here.
"""
