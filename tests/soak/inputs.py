"""What the queries of the soak read: a small file for each batch, always the same."""

import json
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

_START = datetime(2026, 1, 1, tzinfo=UTC)
_STEP = timedelta(seconds=10)
_ROWS, _USERS = 60, 400
_LATE = 25


def write_inputs(folder: Path, batches: int) -> None:
    """Writes the events of so many batches, and no others, in Spark's order."""
    shutil.rmtree(folder, ignore_errors=True)
    for side in ("left", "right"):
        (folder / side).mkdir(parents=True)
        for batch in range(batches):
            file = folder / side / f"{batch:05d}.json"
            file.write_text("".join(_lines(side, batch)))
            # Spark takes files by their time first.
            os.utime(file, (1_700_000_000 + batch, 1_700_000_000 + batch))


def _lines(side: str, batch: int) -> Iterator[str]:
    random = Random(f"{side} {batch}")  # noqa: S311 -- the same at each run
    for _ in range(_ROWS):
        at = _START + batch * _STEP - timedelta(seconds=random.randrange(_LATE))
        row = {
            "user": random.randrange(_USERS),
            "value": random.randrange(1000),
            "at": at.isoformat(),
        }
        yield json.dumps(row) + "\n"
