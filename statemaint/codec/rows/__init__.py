"""Spark's rows: column types, `UnsafeRow` read and written, its hash, and its text form."""
