"""The command line: flags, tables, JSON and exit codes. It decides nothing about files.

`<verb>.py` contains a verb: its command and its table, and its JSON unless another module prints or
compares it; all other JSON is built in `statemaint.report`. Verbs share `options`, `output`,
`tables`, `rows` and `recovery`; `main` contains the group and its errors.
"""

from statemaint.cli.main import main

__all__ = ["main"]
