"""Bytes to records and back: nothing here opens a file, reads a clock or decides anything."""
