"""Metrics of a query's maintenance for Prometheus: pushed, written as a textfile, or scraped.

All three show one thing: the record of the query (`report.record`), which the report of each run
makes. `catalogue` defines every metric, `families` fills them from a record, and `publish` and
`exporter` deliver them.
"""
