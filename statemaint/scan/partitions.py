"""The number of partitions of each batch, which varies once Spark has repartitioned the state.

Mirrors `OfflineStateRepartitionRunner` (Spark 4.3, RocksDB): it adds a batch whose offsets differ
from those before in `spark.sql.shuffle.partitions`, and writes a whole zip of its version for each
new partition. Files below that version, and files of partitions that are no longer used, are needed
only by the batches before.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from statemaint.codec.metadata import logs
from statemaint.errors import CodecError, NotFoundError
from statemaint.model.chain import Versions
from statemaint.model.files import StateFile
from statemaint.model.ids import StoreId, version_of
from statemaint.storage import Storage

SETTING = "spark.sql.shuffle.partitions"


def count_in(conf: Mapping[str, str]) -> int | None:
    """Returns the number of partitions that the settings of a batch pin."""
    pinned = conf.get(SETTING)
    try:
        return None if pinned is None else logs.check_partitions(int(pinned))
    except ValueError as error:
        detail = f"{pinned!r} is not a valid number of shuffle partitions"
        raise CodecError(detail, offset=0) from error


def partition_counts(storage: Storage, batches: Iterable[int]) -> dict[int, int]:
    """Returns the number of partitions of each of some batches; reads all their offsets.

    A batch whose offsets are missing or unreadable is left out.
    """
    counts: dict[int, int] = {}
    for batch in batches:
        with suppress(CodecError, NotFoundError):
            count = count_in(logs.parse_conf(storage.read(f"offsets/{batch}")))
            counts |= {batch: count} if count else {}
    return counts


def may_have_changed(
    stores: Mapping[StoreId, Sequence[StateFile]],
    ids: Mapping[int, logs.UniqueIds],
    batches: Sequence[int],
    newest: int | None,
) -> bool:
    """Returns whether, by the listing, some batch may have another number of partitions.

    Any other number leaves a mark on the highest partition: it is one too many, or has no files of
    the batches that did not have it.
    """
    if newest is None or not batches:
        return False
    if any(store.partition >= newest for store in stores) or _differ(ids):
        return True
    high = max((store.partition for store in stores), default=0)
    first, last = version_of(batches[0]), version_of(batches[-1])
    tops = (files for store, files in stores.items() if high and store.partition == high)
    return not any(ids.values()) and any(_has_gap(files, first, last) for files in tops)


def _differ(ids: Mapping[int, logs.UniqueIds]) -> bool:
    by_operator: dict[int, set[int]] = {}
    for operator, count in _sizes(ids):
        by_operator.setdefault(operator, set()).add(count)
    return any(len(counts) > 1 for counts in by_operator.values())


def _sizes(ids: Mapping[int, logs.UniqueIds]) -> Iterator[tuple[int, int]]:
    for operators in ids.values():
        for operator, partitions in operators.items():
            yield operator, len(partitions)


def _has_gap(files: Sequence[StateFile], first: int, last: int) -> bool:
    # Spark's own clean-up may have deleted the oldest.
    return len(Versions.of(files).loadable(first + 1, last)) < last - first
