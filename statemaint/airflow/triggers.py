"""The trigger that waits in Airflow's triggerer until no run holds a checkpoint's lease."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from statemaint.airflow.connections import opener
from statemaint.errors import LeaseHeldError
from statemaint.execute.lease import check_free
from statemaint.records.claims import Holder

_log = logging.getLogger(__name__)
_FIRST_DELAY, _LONGEST_DELAY = timedelta(seconds=5), timedelta(minutes=5)


def delay_after(looks: int) -> timedelta:
    """Returns the time until the next look at a held lease: each is twice the one before."""
    return min(_FIRST_DELAY * (1 << min(looks, 10)), _LONGEST_DELAY)


class LeaseTrigger(BaseTrigger):
    """Fires when no run holds the lease, at the deadline, or when the lease cannot be read.

    The task then looks for itself: it begins, gives up, or fails with the error that it meets.
    A look is a listing and a small read, in a thread, so that the triggerer's loop goes on. `until`
    is in seconds since the epoch; the delays go on after `looks` earlier ones.
    """

    def __init__(
        self, checkpoint: str, connection: str | None, *, until: float, looks: int = 0
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.checkpoint, self.connection = checkpoint, connection
        self.until, self.looks = until, looks

    def serialize(self) -> tuple[str, dict[str, Any]]:
        names = ("checkpoint", "connection", "until", "looks")
        return f"{__name__}.LeaseTrigger", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        held, looks = True, self.looks
        while held and (left := self.until - time.time()) > 0:
            await asyncio.sleep(min(delay_after(looks).total_seconds(), left))
            held, looks = await asyncio.to_thread(self.is_held), looks + 1
        yield TriggerEvent({"looks": looks})  # type: ignore[no-untyped-call]

    def is_held(self) -> bool:
        """Returns whether a run holds the lease; `False` if that cannot be read."""
        try:
            check_free(opener(self.connection)(self.checkpoint), Holder("waits in the triggerer"))
        except LeaseHeldError as error:
            _log.info("%s", error)
            return True
        except Exception as error:  # noqa: BLE001 -- whatever it is, the task meets it and fails
            _log.warning("the lease of %s cannot be read: %s", self.checkpoint, error)
        return False
