"""`make demo`: a neglected query, a real Airflow that maintains it, and Spark as the judge.

It starts servers and writes to any place it likes. Nothing else may import it.
"""
