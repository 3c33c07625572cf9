"""What the transformWithState queries of the verdict matrix keep for each region.

What they put out at the end depends on the orders alone, and not on the batches that these came in:
after a rollback one batch has the input of several.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import Row

KEPT = "region STRING, orders LONG, cents LONG, ids STRING, hours STRING, later STRING"
LATER = 2
"""The first hour whose orders the evolved processor keeps a second time."""
_OPEN = 3
_AUTUMN_MS = 1_790_000_000_000


class Orders:
    """Keeps a value, a list, a map and a timer, and puts all of it out when the timer expires.

    Spark does not ask for its `StatefulProcessor` to be inherited from.
    """

    def init(self, handle: Any) -> None:
        """Declares the state."""
        self._handle = handle
        self._total = handle.getValueState("total", "orders LONG, cents LONG")
        self._ids = handle.getListState("ids", "order_id STRING")
        self._hours = handle.getMapState("hours", "hour LONG", "orders LONG")

    def handleInputRows(  # noqa: N802
        self, _key: tuple[Any, ...], rows: Iterator[Any], _timers: Any
    ) -> Iterator[Any]:
        """Adds the orders of a batch; the map keeps the newest hours only."""
        orders = sorted(rows, key=lambda row: str(row.order_id))
        count, cents = self._total.get() or (0, 0)
        self._total.update((count + len(orders), cents + sum(row.cents for row in orders)))
        self._ids.appendList([(row.order_id,) for row in orders])  # merges
        for row in orders:
            (before,) = self._hours.getValue((row.hour,)) or (0,)
            self._hours.updateValue((row.hour,), (before + 1,))
        for hour in sorted(hour for (hour,) in self._hours.keys())[:-_OPEN]:  # noqa: SIM118
            self._hours.removeKey((hour,))
        self._keep_more(orders)
        if not count:
            self._handle.registerTimer(_AUTUMN_MS)
        yield from ()

    def handleExpiredTimer(self, key: tuple[Any, ...], **_: Any) -> Iterator[Row]:  # noqa: N802
        """Puts out all that is kept of a region."""
        count, cents = self._total.get()
        ids = " ".join(sorted(one for (one,) in self._ids.get()))
        hours = str(sorted((hour, count) for (hour,), (count,) in self._hours.iterator()))
        yield Row(
            region=key[0], orders=count, cents=cents, ids=ids, hours=hours, later=self._later()
        )

    def close(self) -> None:
        """Has nothing to close."""

    def _keep_more(self, orders: Sequence[Any]) -> None:
        """Keeps nothing more."""

    def _later(self) -> str:
        return ""


class EvolvedOrders(Orders):
    """Keeps one more list: what a query keeps whose author added a state variable to it."""

    def init(self, handle: Any) -> None:
        """Declares the state, the new variable last."""
        super().init(handle)
        self._later_ids = handle.getListState("later", "order_id STRING")

    def _keep_more(self, orders: Sequence[Any]) -> None:
        if later := [(row.order_id,) for row in orders if row.hour >= LATER]:
            self._later_ids.appendList(later)  # merges

    def _later(self) -> str:
        return " ".join(sorted(one for (one,) in self._later_ids.get()))
