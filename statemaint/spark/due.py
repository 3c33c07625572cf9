"""The queries of a fleet that are due: their schedule has had a time since their last good run."""

from collections.abc import Callable, Sequence

from statemaint.errors import StatemaintError
from statemaint.maintain.record import read_record
from statemaint.queries.checks import newest_time
from statemaint.queries.models import Query
from statemaint.queries.reading import QueriesReading
from statemaint.report.record import Record
from statemaint.spark.fleet import Target
from statemaint.spark.leases import each

# Returns the schedule of a query, and the time of its last good run in its record.
Kind = tuple[Callable[[Query], str | None], Callable[[Record], float | None]]
MAINTENANCE: Kind = (lambda query: query.schedule, lambda record: record.success)
SAVEPOINTS: Kind = (
    lambda query: query.savepoint.schedule if query.savepoint else None,
    lambda record: record.savepoint.ended if record.savepoint else None,
)


def due(reading: QueriesReading, fleet: Sequence[Target], kind: Kind, now: float) -> list[Target]:
    """Returns the queries that need a run now; in doubt, a query does.

    A query without a schedule always does. One small file of each checkpoint is read, its record.
    """
    schedule_of, last_of = kind

    def is_due(target: Target) -> bool:
        query = reading.queries.get(target.query)
        scheduled = newest_time(schedule_of(query), now) if query else None
        if target.mistake or scheduled is None:
            return True
        try:
            record = read_record(target.open())
        except StatemaintError:
            return True  # the run says why
        last = last_of(record) if record else None
        return last is None or last < scheduled

    answers = each(is_due, fleet)
    return [target for target, answer in zip(fleet, answers, strict=True) if answer]
