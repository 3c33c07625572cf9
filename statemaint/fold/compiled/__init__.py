"""The compiled engine: folds of HDFS-backed stores in kernels, equal to those of `reference`.

Code that runs once for each record belongs in `kernels`, all other code here.
"""
