"""Findings from names and listings alone. Pure. Findings that read files belong in `audit`."""
