"""Brings back the files that a run moved to the trash, as far as they still fit (S17)."""
