"""The records that a fleet's queries show as metrics, written by the driver.

They are made as everywhere (`maintain.record`), of what executors have noted beside their rows.
"""

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from statemaint.errors import StatemaintError
from statemaint.maintain.record import is_refusal, note_run, note_verification
from statemaint.report import Emptied
from statemaint.report.ended import code_of, run_ended
from statemaint.report.record import LastRun, with_emptied
from statemaint.spark.fleet import Target
from statemaint.spark.leases import each
from statemaint.spark.outcomes import Row
from statemaint.storage import Storage

_log = logging.getLogger(__name__)


def note_runs(run: str, ends: Mapping[Target, "QueryEnd"]) -> None:
    """Adds the end of a run to the record of each query, unless it was refused for its arguments.

    A failure is only logged.
    """

    def note(target: Target, storage: Storage) -> None:
        end = ends[target]
        if not (end.failure and is_refusal(code_of(end.failure))):
            note_run(storage, end.last_run(run, storage.now()))

    _noted(note, ends)


def note_verifications(fleet: Iterable[Target], rows: Iterable[Row]) -> None:
    """Adds the result of a verification to the record of each query all of whose shares ended."""
    shares = by_query(rows)

    def note(target: Target, storage: Storage) -> None:
        found = shares[target.query]
        codes = {one["code"] for row in found for one in row["findings"] or ()}
        if found and not any(row["error"] for row in found):
            healthy = all(row["healthy"] for row in found)
            note_verification(storage, codes, healthy=healthy)

    _noted(note, fleet)


def by_query(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Returns rows by their query; none for a query without any."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["query"]].append(row)
    return found


def _noted(note: Callable[[Target, Storage], None], targets: Iterable[Target]) -> None:
    def noted(target: Target) -> None:
        try:
            note(target, target.open())
        except StatemaintError as error:
            _log.warning("%s: it is not in the metrics: %s", target.query, error)

    each(noted, [one for one in targets if not one.mistake])


class QueryEnd:
    """What a run knows of a query at its end.

    Attributes:
        failure: why its plan failed, or its lease was refused.
        units: the number of its units.
        emptied: what was deleted from its trash.
    """

    def __init__(self, planned: Iterable[Row], refused: StatemaintError | None = None) -> None:
        """Begins with the notes and errors of its plan."""
        self.failure = f"{refused.code}: {refused}" if refused else None
        self._decided: Mapping[str, Any] = {}
        self.units, self.emptied = 0, Emptied()
        self._parts: list[Mapping[str, Any]] = []
        self._errors: list[str] = []
        for row in planned:
            if row["note"]:
                self._decided = json.loads(row["note"])["decided"]
            self.failure = self.failure or row["error"]

    def add(self, units: int, done: Sequence[Row]) -> None:
        """Adds the notes and errors of its units."""
        self.units = units
        self._parts = [json.loads(row["note"]) for row in done if row["note"]]
        self._errors = [code for row in done if (code := code_of(row["error"]))]

    def last_run(self, run: str, now: float) -> LastRun:
        """Returns the end of its run."""
        lags = [one.get("lag") for one in (self._decided, *self._parts)]
        behind = max((one for one in lags if one is not None), default=None)
        decided = {**self._decided, "lag": behind}
        last = run_ended(
            run, self.units, self._parts, decided,
            ended=now, failure=self.failure, errors=self._errors,
        )  # fmt: skip
        return with_emptied(last, self.emptied)
