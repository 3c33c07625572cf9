"""The command line: flags, tables, JSON and exit codes. It decides nothing about files."""

from statemaint.cli.main import main

__all__ = ["main"]
