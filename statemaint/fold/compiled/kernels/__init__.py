"""Compiled loops over records, imported only when a fold is large enough to pay for it.

All loops run without the GIL on buffers that the caller owns; `compiled` compiles them.
"""
