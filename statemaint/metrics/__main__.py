"""Prints docs/metrics.md."""

import sys

from statemaint.metrics.document import document

sys.stdout.write(document())
