"""What the live queries must come to, in plain Python: rows and state after each batch.

Batch `b` reads the values from `b * ROWS` on, all at one time, a second after those of the batch
before. The query counts and sums them by user in windows, with a watermark.
"""

import json
from collections.abc import Mapping
from pathlib import Path

ROWS, USERS, WINDOW, DELAY = 200, 997, 60, 10
START = 1_767_225_600  # 2026-01-01, in seconds
# By the end of its window, in seconds, and its user: how many, and the sum of their values.
State = Mapping[tuple[int, int], tuple[int, int]]


def user_of(value: int) -> int:
    return value * value % USERS


def write_input(folder: Path, batch: int) -> None:
    """Writes what a batch reads, as one file that appears at once."""
    at = START + batch
    lines = [
        json.dumps({"value": value, "timestamp": at})
        for value in range(batch * ROWS, (batch + 1) * ROWS)
    ]
    temp = folder / f".{batch}.tmp"
    temp.write_text("\n".join(lines))
    temp.rename(folder / f"{batch:06d}.json")


class Truth:
    """State and output of every batch, computed as far as they are asked for."""

    def __init__(self) -> None:
        self.states: list[State] = []
        self.outputs: list[list[list[int]]] = []

    def state(self, batch: int) -> State:
        """Returns the groups after a batch: those whose window the watermark has not passed."""
        self._compute(batch)
        return self.states[batch]

    def output(self, batch: int) -> list[list[int]]:
        """Returns the groups that a batch has changed: end of window, user, count, sum."""
        self._compute(batch)
        return self.outputs[batch]

    def _compute(self, last: int) -> None:
        for batch in range(len(self.states), last + 1):
            groups = dict(self.states[-1]) if self.states else {}
            end = (START + batch) // WINDOW * WINDOW + WINDOW
            changed = set()
            for value in range(batch * ROWS, (batch + 1) * ROWS):
                key = end, user_of(value)
                count, total = groups.get(key, (0, 0))
                groups[key] = count + 1, total + value
                changed.add(key)
            watermark = START + batch - 1 - DELAY  # of the batch before
            self.outputs.append(sorted([*key, *groups[key]] for key in changed))
            self.states.append({key: row for key, row in groups.items() if key[0] > watermark})
