"""Spark's rows: column types, `UnsafeRow` read and written, its hash, and what people see of it."""
