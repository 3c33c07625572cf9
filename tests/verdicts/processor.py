"""What the transformWithState queries of the verdict matrix keep for each region.

What they put out at the end depends on the orders alone, and not on the batches that these came in:
after a rollback one batch has the input of several.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import Row

KEPT = "region STRING, orders LONG, cents LONG, ids STRING, more STRING"
LATER = 2
"""The first hour whose orders the evolved processor keeps a second time."""
_OPEN = 3
_AUTUMN_MS = 1_790_000_000_000


class Orders:
    """Keeps a value, a list, a map and a timer, and puts all of it out when the timer expires.

    Spark does not ask for its `StatefulProcessor` to be inherited from.
    """

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._total = handle.getValueState("total", "orders LONG, cents LONG")
        self._ids = handle.getListState("ids", "order_id STRING")
        self._init_more(handle)

    def handleInputRows(  # noqa: N802
        self, _key: tuple[Any, ...], rows: Iterator[Any], _timers: Any
    ) -> Iterator[Any]:
        """Adds the orders of a batch to all that is kept; the map has the newest hours only."""
        orders = sorted(rows, key=lambda row: str(row.order_id))
        count, cents = self._total.get() or (0, 0)
        self._total.update((count + len(orders), cents + sum(row.cents for row in orders)))
        self._ids.appendList([(row.order_id,) for row in orders])  # merges
        self._keep_more(orders)
        if not count:
            self._handle.registerTimer(_AUTUMN_MS)
        yield from ()

    def handleExpiredTimer(self, key: tuple[Any, ...], **_: Any) -> Iterator[Row]:  # noqa: N802
        count, cents = self._total.get()
        ids = " ".join(sorted(one for (one,) in self._ids.get()))
        yield Row(region=key[0], orders=count, cents=cents, ids=ids, more=self._more())

    def close(self) -> None:
        """Has nothing to close."""

    def _init_more(self, handle: Any) -> None:
        self._hours = handle.getMapState("hours", "hour LONG", "orders LONG")

    def _keep_more(self, orders: Sequence[Any]) -> None:
        for row in orders:
            (before,) = self._hours.getValue((row.hour,)) or (0,)
            self._hours.updateValue((row.hour,), (before + 1,))
        for hour in sorted(hour for (hour,) in self._hours.keys())[:-_OPEN]:  # noqa: SIM118
            self._hours.removeKey((hour,))

    def _more(self) -> str:
        return str(sorted((hour, count) for (hour,), (count,) in self._hours.iterator()))


class ReducedOrders(Orders):
    """Keeps no map any more: its author removed the state variable."""

    def _init_more(self, handle: Any) -> None:
        handle.deleteIfExists("hours")

    def _keep_more(self, orders: Sequence[Any]) -> None:
        """Keeps nothing more."""

    def _more(self) -> str:
        return ""


class EvolvedOrders(Orders):
    """Keeps one more list: its author added a state variable."""

    def _init_more(self, handle: Any) -> None:
        super()._init_more(handle)
        self._later_ids = handle.getListState("later", "order_id STRING")

    def _keep_more(self, orders: Sequence[Any]) -> None:
        super()._keep_more(orders)
        if later := [(row.order_id,) for row in orders if row.hour >= LATER]:
            self._later_ids.appendList(later)  # merges

    def _more(self) -> str:
        later = sorted(one for (one,) in self._later_ids.get())
        return " ".join((super()._more(), *later))
