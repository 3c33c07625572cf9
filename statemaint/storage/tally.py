"""Counts of requests."""

from collections import Counter
from threading import Lock


class Tally:
    """The number of requests of each kind; threads may share it."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = Lock()

    def add(self, verb: str, requests: int = 1) -> None:
        with self._lock:
            self._counts[verb] += requests

    def counts(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)
