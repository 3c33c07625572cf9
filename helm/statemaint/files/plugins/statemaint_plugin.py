"""Stands in for plugins/statemaint_plugin.py until `python helm/sync.py` copies it here."""
