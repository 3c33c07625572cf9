"""The command line: flags, tables, JSON and exit codes. It decides nothing about files.

`main.VERBS` names the module of each verb: its command and its table, and its JSON unless another
module prints or compares it; all other JSON is built in `statemaint.report`.
"""

from statemaint.cli.main import main

__all__ = ["main"]
