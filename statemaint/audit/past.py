"""What past restarts of a query took, compared with what would have been forecast then."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from statemaint.codec.metadata.event_log import PastRestart
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.restart_time import Forecast, Load, replay_of


def compared(
    forecast: Forecast, checkpoint: Checkpoint, past: Iterable[PastRestart]
) -> Iterator[float]:
    """Yields how many times as long as forecast each restart took whose files are still there."""
    known = (it for it in past if it.version <= (checkpoint.target or 0))
    for restart in known:
        stores = (_then(store, restart.began) for store in checkpoint.needed(restart.version))
        works = [replay_of(store, restart.version, forecast.record) for store in stores]
        read = [work for work in works if work]
        if read and len(read) == len(works) and restart.seconds:
            slots = restart.slots or forecast.slots
            then = replace(forecast, spark=restart.spark or forecast.spark, slots=slots)
            yield restart.seconds / then.seconds(Load.of(read), warm=restart.warm).middle


def _then(store: Store, time: float) -> Store:
    files = tuple(file for file in store.files if (file.entry.modified or 0.0) <= time)
    return replace(store, files=files)
