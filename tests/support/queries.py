"""Queries files that must be valid."""

from pathlib import Path

from statemaint.queries.problems import InvalidQueriesError
from statemaint.queries.reading import QueriesReading, read_queries


def valid_queries(path: str | Path) -> QueriesReading:
    """Returns the queries of a file or a folder without mistakes.

    Raises:
        InvalidQueriesError: when there is one; a line for each problem names the file, the line,
            the key, the problem and the solution.
    """
    reading = read_queries(path)
    if reading.all_problems:
        raise InvalidQueriesError(reading.all_problems)
    return reading
