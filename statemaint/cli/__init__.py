"""The command line: flags, tables, JSON and exit codes. It decides nothing about files.

`<verb>.py` holds a verb: its command and its table, and its JSON where nothing else prints or
compares it; all other JSON is made in `statemaint.report`. `options`, `output`, `tables`, `rows`
and `recovery` are what verbs share, and `main` is the group and its errors.
"""

from statemaint.cli.main import main

__all__ = ["main"]
