"""Stands in for dags/statemaint_dags.py until `python helm/sync.py` copies it here."""
