"""The records that a fleet's queries show as metrics, written by the driver.

They are made as everywhere (`maintain.record`), of what executors have noted beside their rows.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from statemaint.errors import StatemaintError
from statemaint.maintain.record import is_refusal, note_run, note_verification
from statemaint.maintain.work import TaskResults
from statemaint.report import Emptied
from statemaint.report.record import code_of, with_emptied
from statemaint.spark.fleet import Target
from statemaint.spark.leases import each
from statemaint.spark.outcomes import Row
from statemaint.storage import Storage

_log = logging.getLogger(__name__)


def note_runs(
    run: str, ends: Mapping[Target, TaskResults], emptied: Mapping[Target, Emptied]
) -> None:
    """Adds the end of a run to the record of each query, unless it was refused for its arguments.

    A failure is only logged.
    """

    def note(target: Target, storage: Storage) -> None:
        end = ends[target]
        if not is_refusal(code_of(end.failure)):
            last = end.ended(run, storage.now())
            note_run(storage, with_emptied(last, emptied.get(target, Emptied())))

    _noted(note, ends)


def note_verifications(fleet: Iterable[Target], rows: Iterable[Row]) -> None:
    """Adds the result of a verification to the record of each query all of whose shares ended."""
    shares: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        shares[row["query"]].append(row)

    def note(target: Target, storage: Storage) -> None:
        found = shares[target.query]
        codes = {one["code"] for row in found for one in row["findings"] or ()}
        if found and not any(row["error"] for row in found):
            healthy = all(row["healthy"] for row in found)
            note_verification(storage, codes, healthy=healthy)

    _noted(note, fleet)


def _noted(note: Callable[[Target, Storage], None], targets: Iterable[Target]) -> None:
    def noted(target: Target) -> None:
        try:
            note(target, target.open())
        except StatemaintError as error:
            _log.warning("%s: it is not in the metrics: %s", target.query, error)

    each(noted, [one for one in targets if not one.mistake])
