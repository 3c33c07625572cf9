"""`make demo`: a neglected query, a real Airflow that maintains it, and Spark as the judge.

The demo starts servers and writes files without restriction. Tests use its servers; the package
cannot import it.
"""
