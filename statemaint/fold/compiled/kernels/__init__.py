"""Compiled loops over records. Nothing here is imported before a fold is large enough to pay.

Everything runs without the GIL on buffers that the caller owns; `compiled` says how it is compiled.
"""
