"""Savepoints: whole copies of one committed batch, from which a query starts."""
