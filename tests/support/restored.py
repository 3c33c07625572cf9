"""Takes all rows of an operator out of a checkpoint, and puts them back, as a caller would."""

from collections import defaultdict
from typing import Any

from statemaint.codec.metadata import logs
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.files import Delta
from statemaint.model.ids import StoreId, version_of
from statemaint.planning import scan_checkpoint
from statemaint.provider import (
    HDFSBackedStateStoreProvider,
    RocksDBStateStoreProvider,
    StateStoreConf,
    bootstrap,
)
from statemaint.state import select_state
from statemaint.state.versions import schemas_of
from statemaint.storage import Storage

_TIMERS = "Timers_keyToTimestamp"


def given_rows(storage: Storage, operator: int) -> Any:
    """Returns the rows of an operator's newest state in the form that `bootstrap` takes."""
    rows: dict[str, list[tuple[Any, Any]]] = defaultdict(list)
    for row in select_state(storage, operator).decoded():
        name = row.family or row.store.store
        side, _, kind = name.partition("-")
        if kind == "keyWithIndexToValue":
            rows[side].append((row.key[:-1], row.entries[0]))
        elif kind == "keyWithTsToValues":
            rows[side] += [(row.key, entry) for entry in row.entries]
        elif not kind and (not name.startswith("$") or name.endswith(_TIMERS)):
            value = list(row.entries) if row.layout.many else row.entries[0]
            rows[name].append((row.key, value))
    return rows["default"] if [*rows] == ["default"] else rows


def operators_of(storage: Storage) -> list[int]:
    return sorted({store.id.operator for store in scan_checkpoint(storage).stores})


def removed(rows: Any) -> Any:
    """Returns the removal of all keys of some rows."""
    if isinstance(rows, dict):
        return {name: removed(some) for name, some in rows.items()}
    return [(key, None) for key, _ in rows]


def take_out_and_put_back(storage: Storage) -> int:
    """Removes all rows of each operator in one batch, puts them back in another; counts both."""
    for operator in (operators := operators_of(storage)):
        rows = given_rows(storage, operator)
        assert rows, operator
        bootstrap(storage, removed(rows), operator=operator)
        assert not [*select_state(storage, operator).decoded()]
        bootstrap(storage, rows, operator=operator)
    return 2 * len(operators)


# -- the same by the providers, without `bootstrap`


_STORES = "spark.sql.streaming.stateStore"
Taken = dict[tuple[StoreId, str], list[tuple[bytes, list[bytes]]]]


def put_back_by_providers(storage: Storage) -> int:
    """Removes all rows in one batch and puts them back in another, by each store's provider."""
    rows: Taken = {}
    for removes in (True, False):
        checkpoint = scan_checkpoint(storage)
        batch = checkpoint.committed or 0
        commit = storage.read(f"commits/{batch}").decode()
        for store in checkpoint.needed(version_of(batch)):
            opened, many = _opened(storage, checkpoint, store)
            for name in many:
                place = store.id, name
                if removes:
                    rows[place] = [
                        (key, [*opened.values_iterator(key, name)] if many[name] else [value])
                        for key, value in opened.iterator(*([name] if store.rocks else []))
                    ]
                _change(opened, rows[place], [name] if store.rocks else [], removes=removes)
            opened.commit()
            if store.rocks and (unique := store.rocks.id_at(version_of(batch))):
                info = opened.state_store_checkpoint_info
                commit = commit.replace(unique, info.state_store_ckpt_id)
        storage.write(f"offsets/{batch + 1}", [storage.read(f"offsets/{batch}")])
        storage.write(f"commits/{batch + 1}", [commit.encode()])
    return 2


def _opened(storage: Storage, checkpoint: Checkpoint, store: Store) -> tuple[Any, dict[str, bool]]:
    """Opens a store for the next version; its families, by name whether they have lists."""
    version = checkpoint.target or 0
    conf = logs.parse_conf(storage.read(f"offsets/{checkpoint.committed}"))
    if store.rocks is None:
        plain = HDFSBackedStateStoreProvider(store.id, storage, StateStoreConf.of(conf))
        return plain.get_store(version), {"": False}
    schemas = schemas_of(storage, checkpoint, store, version)
    unique = store.rocks.id_at(version)
    logged = any(isinstance(file, Delta) for file in store.files)
    more = {
        f"{_STORES}.rocksdb.changelogCheckpointing.enabled": str(logged).lower(),
        f"{_STORES}.checkpointFormatVersion": "2" if unique else "1",
    }
    first = schemas.get(None)
    provider = RocksDBStateStoreProvider(
        store.id,
        storage,
        StateStoreConf.of({**conf, **more}),
        key_schema=first.key if first else None,
        key_encoder=first.layout.encoder if first else None,
        use_column_families=first is None,
    )
    opened = provider.get_store(version, unique)
    for name, stored in schemas.items():
        if name is not None:
            opened.create_col_family_if_absent(
                name,
                stored.key,
                stored.layout.encoder,
                use_multiple_values_per_key=stored.layout.many,
                is_internal=name.startswith("$"),
            )
    return opened, {name or "default": stored.layout.many for name, stored in schemas.items()}


def _change(
    opened: Any, rows: list[tuple[bytes, list[bytes]]], family: list[str], *, removes: bool
) -> None:
    for key, (value, *others) in rows:
        if removes:
            opened.remove(key, *family)
        else:
            opened.put(key, value, *family)
        for other in () if removes else others:
            opened.merge(key, other, *family)
