"""Checksum files and digests: what tells that bytes, or rows, are still the same."""
