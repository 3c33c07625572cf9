"""The command line: a face without decisions."""

from statemaint.cli.main import main

__all__ = ["main"]
