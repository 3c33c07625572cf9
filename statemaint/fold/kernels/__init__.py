"""Compiled loops over records. Nothing here is imported before a fold is large enough to pay.

Everything runs without the GIL on buffers that the caller owns, and is compiled once per machine:
the result is cached on disk beside the module, or below `NUMBA_CACHE_DIR`.
"""
