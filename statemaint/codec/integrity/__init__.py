"""Checksum files, and digests of a whole state. Checksums inside a format stay with the format."""
