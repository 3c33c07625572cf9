"""What another shape asks of Spark, and the stores that are written row by row for it.

Spark takes a shape's settings from the newest entry of the offset log, whatever a session has. An
entry has all of them that the Spark that wrote it knows: one that it lacks is not changed. Unique
ids have no setting there; the entry of the commit log has them, with Spark 4.0 and later.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.rows.state_row import PrefixScan
from statemaint.codec.rows.types import AtomicType
from statemaint.errors import ConfigError, UnsupportedError
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import MAINTAINED, Checkpoint, Provider, Store
from statemaint.model.ids import StoreId, version_of
from statemaint.plan.actions import WriteSnapshot
from statemaint.records.savepoints import Shape
from statemaint.savepoint.shuffle import Change, Shuffle
from statemaint.scan.query_logs import (
    COMPRESSION,
    PROVIDER_CLASS,
    ROW_CHECKSUMS,
    SETTING,
    SINCE_3_5,
    count_in,
)
from statemaint.state.shuffle_key import ShuffleKey, shuffle_key, shuffles_by_all_keys
from statemaint.state.versions import Layouts, Stored, are_sessions, layouts_of, schemas_of
from statemaint.storage import Storage

_CLASSES = "org.apache.spark.sql.execution.streaming.state"
_MOST = 100_000
_FAMILY = 2  # bytes
_VOID = AtomicType("void")
Planned = tuple[Store, WriteSnapshot]


def check_chosen(shape: Shape) -> None:
    """Checks each choice by itself; raises `ConfigError` when it is none of Spark's."""
    if shape.partitions is not None and not 1 <= shape.partitions <= _MOST:
        raise ConfigError(f"{shape.partitions} partitions are not from 1 to {_MOST:,}")
    if shape.provider not in (None, *MAINTAINED):
        raise ConfigError(f"provider {shape.provider} is not one of {' and '.join(MAINTAINED)}")
    if shape.codec not in (None, *COMPRESSIONS):
        codecs = ", ".join(COMPRESSIONS)
        raise ConfigError(f"codec {str(shape.codec)[:80]!r} is not one of {codecs}")


def check_changes(before: Shape, after: Shape, root: str, *, stateful: bool) -> None:
    """Raises `ConfigError` when a savepoint in another shape would be one in the same."""
    if not stateful:
        raise ConfigError(f"{root}: the query has no state, which is all that can have a shape")
    if after == before:
        shape = ", ".join(f"{name} {value}" for name, value in before.chosen.items())
        what = f"the checkpoint has this shape already ({shape})"
        raise ConfigError(f"{root}: {what}; choose another, or none for a savepoint as it is")


def settings_of(before: Shape, after: Shape, conf: Mapping[str, str], root: str) -> dict[str, str]:
    """Returns the settings that a savepoint pins other than its source does, with its `conf`."""
    if after.ids == "v2" and after.provider is Provider.HDFS_BACKED:
        what = f"{Provider.HDFS_BACKED} with unique ids (v2)"
        raise UnsupportedError(root, what, "v1")
    was = _pinned(before)
    changed = {name: value for name, value in _pinned(after).items() if value != was[name]}
    needed = {name: f"another {name}" for name in changed}
    if after != before and "v2" in (before.ids, after.ids):
        needed[ROW_CHECKSUMS] = "another shape with or without unique ids (v2)"  # 4.2, see docs
    if after != before and after.provider is Provider.ROCKSDB:
        needed[SINCE_3_5] = "another shape in RocksDB"
    for name, choice in needed.items():
        if name not in conf:
            what = f"{choice}, after a batch of a Spark that is too old for it,"
            raise UnsupportedError(root, what, f"an offset log with {name}")
    return changed


def _pinned(shape: Shape) -> Mapping[str, str]:
    return {
        SETTING: str(shape.partitions),
        PROVIDER_CLASS: f"{_CLASSES}.{shape.provider}",
        COMPRESSION: str(shape.codec),
        ROW_CHECKSUMS: str(shape.row_checksums).lower(),
    }


def shuffles_of(
    storage: Storage,
    checkpoint: Checkpoint,
    stores: Iterable[Planned],
    shapes: tuple[Shape, Shape],
    conf: Mapping[str, str],
    id_of: Callable[[str, int], str],
) -> Iterator[Shuffle]:
    """Yields the stores that are written row by row; refuses what cannot have the shape.

    Those that get another number of partitions come together with all others of their name, those
    that are to be stored differently by themselves. `id_of` gives the unique id of a partition's
    file from that of the file of partition 0.
    """
    before, after = (shape.partitions for shape in shapes)
    partitions = None if before == after else after
    version = version_of(checkpoint.committed or 0)
    by_name: dict[tuple[int, str], list[Planned]] = defaultdict(list)
    for planned in stores:
        by_name[planned[0].id.operator, planned[0].id.store].append(planned)
    for _, group in sorted(by_name.items()):
        group.sort(key=lambda planned: planned[0].id)
        store, _ = group[0]
        change = _change(storage, checkpoint, store, shapes)
        schemas = schemas_of(storage, checkpoint, store, version) if partitions else {}
        if partitions and not (len(group) == 1 and _are_single(schemas)):
            keys = _keys(storage, checkpoint, conf, group, schemas)
            yield _shuffle(group, keys, change, partitions, id_of)
        elif change:
            for source, write in group:
                yield Shuffle(((source, write.chain),), (write,), {}, change)


def _keys(
    storage: Storage,
    checkpoint: Checkpoint,
    conf: Mapping[str, str],
    group: list[Planned],
    schemas: Mapping[str | None, Stored],
) -> Mapping[str | None, ShuffleKey]:
    """Returns the shuffle keys of stores if all that shows how rows are shuffled is known."""
    store, before = group[0][0].id, count_in(conf)
    named = _named(checkpoint, store)
    if not shuffles_by_all_keys(conf):
        what = f"other partitions of {named} in a query that began before Spark 3.3"
        raise UnsupportedError(storage.root, what, "one that began since, as its shuffle is known")
    if [member.id.partition for member, _ in group] != [*range(before or 0)]:
        what = f"{named} with {len(group)} partitions, where {SETTING} is {before},"
        raise UnsupportedError(storage.root, what, "the same number in both")
    operator = {operator.id: operator for operator in checkpoint.operators}.get(store.operator)
    keys = {
        name: shuffle_key(
            operator, name or store.store, stored.layout, 0 if name is None else _FAMILY
        )
        for name, stored in schemas.items()
    }
    known = {name: key for name, key in keys.items() if key}
    if len(known) < len(keys):
        what = f"other partitions of {named}, as its shuffle key is not known,"
        raise UnsupportedError(storage.root, what, "the same number of partitions")
    return known


def _named(checkpoint: Checkpoint, store: StoreId) -> str:
    names = {operator.id: operator.name for operator in checkpoint.operators}
    return f"operator {store.operator} ({names.get(store.operator, store.store)})"


def _change(
    storage: Storage, checkpoint: Checkpoint, store: Store, shapes: tuple[Shape, Shape]
) -> Change | None:
    """Returns how the rows of an operator's store change; `None` if files stay as they are."""
    old, new = shapes
    if (old.provider, old.row_checksums) == (new.provider, new.row_checksums):
        # A zip has no codec.
        same_files = old.codec == new.codec or new.provider is Provider.ROCKSDB
        return None if same_files else Change(old, new, {})
    version = version_of(checkpoint.committed or 0)
    layouts = layouts_of(storage, checkpoint, store, version, Provider.ROCKSDB)
    if old.provider is not new.provider and (why := _bound(layouts)):
        what = f"{_named(checkpoint, store.id)} with {new.provider}, as {why},"
        raise UnsupportedError(storage.root, what, str(old.provider))
    return Change(old, new, layouts)


def _bound(layouts: Layouts) -> str | None:
    """Returns why a store's rows cannot move to another provider."""
    if None not in layouts:
        return "its state has column families"
    layout = layouts[None]
    match layout.encoder:
        case PrefixScan(columns):
            known = 0 < columns < len(layout.key.fields)
        case _:
            known = not are_sessions(layout.key, layout.value)
    return None if known else "the encoding of its keys in RocksDB is not known"


def _are_single(schemas: Mapping[str | None, Stored]) -> bool:
    """Returns whether an operator always has one partition: a limit, a total or session alone."""
    layouts = [stored.layout for stored in schemas.values()]
    keys = (
        layout.key.fields[: -1 if are_sessions(layout.key, layout.value) else None]
        for layout in layouts
    )
    return all(field.type == _VOID for fields in keys for field in fields)


def _shuffle(
    group: list[Planned],
    keys: Mapping[str | None, ShuffleKey],
    change: Change | None,
    partitions: int,
    id_of: Callable[[str, int], str],
) -> Shuffle:
    store, like = group[0]
    kind, chain = like.path.rpartition(".")[2], Chain(like.version, None, ())
    targets = []
    for number in range(partitions):
        target = replace(store.id, partition=number)
        unique = like.id and id_of(like.id, number)
        name = f"{like.version}_{unique}" if unique else str(like.version)
        path = f"{target.directory}/{name}.{kind}"
        targets.append(replace(like, store=target, path=path, chain=chain, id=unique))
    sources = tuple((source, write.chain) for source, write in group)
    return Shuffle(sources, tuple(targets), keys, change)
