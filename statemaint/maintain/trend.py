"""The trend of a query in storage, beside its record: each run in the record is added to it."""

import json
import logging

from statemaint.errors import CodecError, NotFoundError, StatemaintError
from statemaint.records.runs import TREND
from statemaint.report.record import LastRun
from statemaint.report.trend import Trend, with_run
from statemaint.storage import Storage
from statemaint.storage.base import must_be_small
from statemaint.wording import shortened

_log = logging.getLogger(__name__)
_MOST_BYTES = 1 << 20  # ten times what is written
_INVALID = (CodecError, KeyError, TypeError, ValueError, AttributeError, RecursionError)


def read_trend(storage: Storage) -> Trend:
    """Returns the trend; an empty one if there is none, or only one of another build."""
    try:
        content = storage.read(TREND)
        must_be_small(len(content), TREND, _MOST_BYTES)
        return Trend.from_json(json.loads(content))
    except NotFoundError:
        return Trend()
    except _INVALID as error:
        _log.warning("%s is not a trend of this version: %s", TREND, shortened(error, 200))
        return Trend()


def note_in_trend(storage: Storage, last: LastRun) -> None:
    """Adds the end of a run to the trend; a failure is only logged."""
    try:
        before = read_trend(storage)
        after = with_run(before, last)
        if after != before:
            content = json.dumps(after.to_json(), separators=(",", ":"))
            storage.replace(TREND, [content.encode() + b"\n"])
    except StatemaintError as error:
        _log.warning("the run is not in the trend: %s", error)
