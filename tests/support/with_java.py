"""Runs the program with the given arguments, and names the Java that it used as its last word."""

import sys

from statemaint.cli import main
from statemaint.storage.hadoop.jvm import shared_jvm

try:
    main()
finally:
    process = shared_jvm()._process
    print(process and process.pid, file=sys.stderr)  # noqa: T201
