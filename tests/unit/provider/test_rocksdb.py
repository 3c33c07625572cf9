"""The RocksDB provider: Spark's contract on any storage."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from statemaint.codec.compression.base import decode
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.rocksdb import changelog
from statemaint.codec.rocksdb.changelog import DELETE, PUT, Header
from statemaint.codec.rocksdb.snapshot_zip import parse_metadata
from statemaint.codec.rows.rocks_row import key_codec
from statemaint.codec.rows.state_row import (
    KeyEncoder,
    NoPrefix,
    PrefixScan,
    RangeScan,
    RowLayout,
    TimestampFirst,
    Wrapping,
    key_reader,
)
from statemaint.codec.rows.types import parse_struct
from statemaint.codec.rows.unsafe_write import encode_row
from statemaint.errors import ConfigError, StorageError, UnsupportedError
from statemaint.model.ids import StoreId
from statemaint.provider import (
    CannotLoadStateStoreError,
    RocksDBStateStoreProvider,
    StateStoreCheckpointInfo,
    StateStoreConf,
    StoreState,
)
from statemaint.records.pins import end_pin, write_pin
from statemaint.storage import MemoryStorage, Storage
from tests.support.encoded import schema
from tests.support.faults import Clock, HookedStorage, each_crash, refuse

STORE = StoreId(0, 3)
KEY, VALUE = schema(["string", "long", "double"]), schema(["long"])


def key(name: str, at: int | None = 0, x: float | None = 0.0) -> bytes:
    return encode_row((name, at, x), KEY)


def value(number: int) -> bytes:
    return encode_row((number,), VALUE)


def provider_of(
    storage: Storage | None = None,
    *,
    families: bool = False,
    encoder: KeyEncoder | None = None,
    **conf: Any,
) -> RocksDBStateStoreProvider:
    settings = {"changelog_checkpointing": True, **conf}
    return RocksDBStateStoreProvider(
        STORE,
        storage or MemoryStorage(),
        StateStoreConf(**settings),
        key_schema=KEY,
        key_encoder=encoder,
        use_column_families=families,
    )


def attempt(
    provider: RocksDBStateStoreProvider, version: int, base: str | None = None, name: str = "k"
) -> str | None:
    """Commits a version with one more key, and returns its unique id."""
    store = provider.get_store(version - 1, base)
    store.put(key(name, version), value(version))
    assert store.commit() == version
    return store.state_store_checkpoint_info.state_store_ckpt_id


def names(storage: MemoryStorage) -> list[str]:
    paths = (path.removeprefix("state/0/3/") for path in storage.files)
    return sorted(path for path in paths if "/" not in path)


def rows_of(storage: Storage, version: int, unique: str | None = None, **conf: Any) -> list[Any]:
    return [*provider_of(storage, **conf).get_read_store(version, unique).iterator()]


# -- versions


def test_a_commit_writes_a_changelog_of_its_changes() -> None:
    storage = MemoryStorage()
    store = provider_of(storage).get_store(0)
    store.put(key("a"), value(1))
    store.remove(key("b"))  # as in Spark, it is written for a missing key
    assert (store.get(key("a")), store.get(key("b"))) == (value(1), None)
    assert store.commit() == 1
    assert store.has_committed
    assert store.state_store_checkpoint_info == StateStoreCheckpointInfo(3, 1, None, None, 1)
    assert names(storage) == ["1.changelog"]
    with storage.open("state/0/3/1.changelog") as stream:
        header, changes = changelog.decode(decode(COMPRESSIONS["lz4"], stream))
        changed = [*changes]
    assert header == Header(1)
    assert changed == [(PUT, b"\0" + key("a"), b"\0" + value(1)), (DELETE, b"\0" + key("b"), None)]
    assert rows_of(storage, 1) == [(key("a"), value(1))]


@pytest.mark.parametrize("verb", ["commit", "abort"])
def test_nothing_is_changed_after_commit_or_abort(verb: str) -> None:
    store = provider_of(families=True).get_store(0)
    store.create_col_family_if_absent("list", use_multiple_values_per_key=True)
    getattr(store, verb)()
    calls: dict[str, Callable[[], object]] = {
        "put": lambda: store.put(key("a"), value(1)),
        "remove": lambda: store.remove(key("a")),
        "merge": lambda: store.merge(key("a"), value(1), "list"),
        "commit": store.commit,
        "update": lambda: store.remove_col_family_if_exists("list"),
    }
    for change, call in calls.items():
        with pytest.raises(ConfigError, match=f"Cannot {change} after already committed or abo"):
            call()


def test_an_aborted_store_leaves_nothing_and_a_committed_one_is_not_aborted() -> None:
    storage = MemoryStorage()
    store = provider_of(storage).get_store(0)
    store.put(key("a"), value(1))
    store.abort()
    store.abort()
    assert (store.state, storage.files) == (StoreState.ABORTED, {})
    with pytest.raises(ConfigError, match="Cannot get checkpointInfo without committing"):
        _ = store.state_store_checkpoint_info
    committed = provider_of().get_store(0)
    committed.commit()
    with pytest.raises(ConfigError, match="Cannot abort after already committed"):
        committed.abort()


def test_versions_of_one_store_do_not_see_each_other() -> None:
    provider = provider_of()
    attempt(provider, 1)
    one, other = provider.get_store(1), provider.get_store(1)
    one.put(key("new"), value(1))
    assert other.get(key("new")) is None
    one.commit()
    assert provider.get_read_store(1).get(key("new")) is None
    assert provider.get_read_store(2).get(key("new")) == value(1)


def test_texts_are_sparks() -> None:
    provider = provider_of()
    assert str(provider) == "StateStoreId(opId=0,partId=3,name=default)"
    text = "RocksDBStateStore[id=(op=0,part=3),dir=memory:/state/0/3]"
    assert str(provider.get_store(0)) == str(provider.get_read_store(0)) == text
    with pytest.raises(ConfigError, match="Version cannot be less than 0: -1"):
        provider.get_store(-1)
    with pytest.raises(ConfigError, match="rows take whole words of 8 bytes, not 3 and 16 bytes"):
        provider.get_store(0).put(b"key", value(1))
    with pytest.raises(CannotLoadStateStoreError) as caught:
        provider.get_store(1)
    assert str(caught.value) == (
        "Error reading streaming state file of memory:/state/0/3/1.changelog does not exist. If "
        "the stream job is restarted with a new or updated state operation, please create a new "
        "checkpoint location or clear the existing checkpoint location."
    )


@pytest.mark.parametrize("damage", ["cut", "families"])
def test_a_broken_changelog_is_named(damage: str) -> None:
    storage = MemoryStorage()
    attempt(provider_of(storage, families=damage == "families"), 1)
    if damage == "cut":
        content = storage.read("state/0/3/1.changelog")[:30]
        storage.write("state/0/3/1.changelog", [content], overwrite=True)
    else:
        storage.delete("state/0/3/1.zip")
    place = "Error reading changelog file memory:/state/0/3/1.changelog of StateStoreId"
    with pytest.raises(CannotLoadStateStoreError, match=place):
        provider_of(storage).get_store(1)


def test_a_version_larger_than_its_limit_is_refused() -> None:
    storage = MemoryStorage()
    store = provider_of(storage).get_store(0)
    for number in range(100):
        store.put(key(f"k{number}"), value(1))
    store.commit()
    with pytest.raises(ConfigError, match=r"StateStoreId.*: version 1 takes more than 9999 bytes"):
        provider_of(storage, max_bytes_in_memory=9_999).get_store(1)


@pytest.mark.parametrize("name", ["checkpoint_format_version", "merge_operator_version"])
def test_a_setting_of_another_spark_is_refused(name: str) -> None:
    conf: dict[str, Any] = {name: 3}
    with pytest.raises(ConfigError, match=f"{name} must be 1 or 2, not 3"):
        StateStoreConf(**conf)


# -- snapshots


def test_maintenance_uploads_the_snapshot_that_is_due_and_no_other() -> None:
    storage = MemoryStorage()
    provider = provider_of(storage, min_deltas_for_snapshot=2)
    for version in range(1, 6):
        attempt(provider, version)
    provider.do_maintenance()
    changelogs = [f"{version}.changelog" for version in range(1, 6)]
    assert names(storage) == sorted([*changelogs, "4.zip"])
    provider.do_maintenance()  # nothing is due
    for version in range(1, 5):
        storage.delete(f"state/0/3/{version}.changelog")
    assert len(rows_of(storage, 5)) == 5
    assert provider_of(storage).get_store(4).metrics.num_keys == 4


def test_maintenance_that_failed_is_logged_and_tries_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage = HookedStorage(before=refuse("write", "*.zip", "no space"))
    provider = provider_of(storage, min_deltas_for_snapshot=1)
    attempt(provider, 1)
    with caplog.at_level(logging.WARNING):
        provider.do_maintenance()
    assert "Ignoring error while performing maintenance for StateStoreId" in caplog.text
    assert names(storage) == ["1.changelog"]
    storage.works_again()
    provider.do_maintenance()
    assert names(storage) == ["1.changelog", "1.zip"]


def test_a_forced_snapshot_is_there_at_once() -> None:
    storage = MemoryStorage()
    store = provider_of(storage).get_store(0, force_snapshot_on_commit=True)
    store.put(key("a"), value(1))
    assert store.metrics.custom_metrics["rocksdbForceSnapshotCount"] == 1
    store.commit()
    assert names(storage) == ["1.changelog", "1.zip"]


def test_without_changelogs_each_commit_writes_a_zip() -> None:
    storage = MemoryStorage()
    provider = provider_of(storage, changelog_checkpointing=False)
    for version in range(1, 4):
        attempt(provider, version)
    provider.do_maintenance()
    assert names(storage) == ["1.zip", "2.zip", "3.zip"]
    assert len(rows_of(storage, 3)) == 3


def test_a_zip_of_an_earlier_attempt_does_not_hide_a_new_changelog() -> None:
    storage = MemoryStorage()
    provider = provider_of(storage, min_deltas_for_snapshot=1)
    attempt(provider, 1, name="old")
    provider.do_maintenance()
    attempt(provider, 1, name="new")
    assert names(storage) == ["1.changelog"]
    assert rows_of(storage, 1) == [(key("new", 1), value(1))]
    assert [*provider.get_read_store(1).iterator()] == rows_of(storage, 1)


def test_a_snapshot_waits_no_longer_once_its_version_is_written_again() -> None:
    storage = MemoryStorage()
    provider = provider_of(storage, min_deltas_for_snapshot=2)
    attempt(provider, 1, name="old")
    attempt(provider, 2, name="old")
    attempt(provider, 1, name="new")
    provider.do_maintenance()
    assert names(storage) == ["1.changelog", "2.changelog"]


def test_a_broken_zip_is_repaired_from_older_files(caplog: pytest.LogCaptureFixture) -> None:
    storage = MemoryStorage()
    provider = provider_of(storage, min_deltas_for_snapshot=2)
    for version in range(1, 5):
        attempt(provider, version)
        provider.do_maintenance()
    storage.write("state/0/3/4.zip", [b"damaged"], overwrite=True)
    with caplog.at_level(logging.WARNING):
        store = provider_of(storage).get_store(4)
    assert store.metrics.custom_metrics["rocksdbNumSnapshotsAutoRepaired"] == 1
    assert store.metrics.num_keys == 4
    assert "loaded version 4 from 2 instead" in caplog.text
    place = "Error reading snapshot file memory:/state/0/3/4.zip of StateStoreId"
    with pytest.raises(CannotLoadStateStoreError, match=place):
        provider_of(storage, auto_snapshot_repair_enabled=False).get_store(4)
    with pytest.raises(CannotLoadStateStoreError, match=place):
        provider_of(storage, changelog_checkpointing=False).get_store(4)


# -- deletion of old versions


def maintained(storage: MemoryStorage, *versions: int, **conf: Any) -> RocksDBStateStoreProvider:
    """A provider that has committed and maintained these versions."""
    more = {"min_deltas_for_snapshot": 2, "ratio_extra_space_allowed_in_checkpoint": 0.0, **conf}
    provider = provider_of(storage, **more)
    for version in versions:
        attempt(provider, version)
        provider.do_maintenance()
    return provider


def parts(storage: MemoryStorage) -> set[str]:
    return {path.removeprefix("state/0/3/") for path in storage.files if "SSTs/" in path}


def named_by(storage: MemoryStorage, *zips: str) -> set[str]:
    contents = (storage.read(f"state/0/3/{name}") for name in zips)
    tables = (table for content in contents for table in parse_metadata(content).ssts)
    return {f"SSTs/{table.stored}" for table in tables}


def test_maintenance_deletes_what_no_retained_version_needs() -> None:
    storage = MemoryStorage()
    maintained(storage, *range(1, 9), min_versions_to_retain=2, file_checksum_enabled=True)
    assert names(storage) == [
        name
        for version in ("6.changelog", "6.zip", "7.changelog", "8.changelog", "8.zip")
        for name in (version, f"{version}.crc")
    ]
    assert parts(storage) == named_by(storage, "6.zip", "8.zip")
    for version in (6, 7, 8):
        assert len(rows_of(storage, version)) == version
    with pytest.raises(CannotLoadStateStoreError):
        rows_of(storage, 5)


def test_the_only_snapshot_keeps_everything() -> None:
    storage = MemoryStorage()
    maintained(storage, *range(1, 6), min_versions_to_retain=1, min_deltas_for_snapshot=4)
    assert {"1.changelog", "4.zip"} < {*names(storage)}


def test_a_pinned_version_stays_with_its_base() -> None:
    storage = MemoryStorage()
    pin = write_pin(storage, 4, by="a copy", seconds=60)  # version 5
    provider = maintained(storage, *range(1, 11), min_versions_to_retain=1)
    assert names(storage)[0] == "10.changelog"
    assert {"4.zip", "5.changelog"} < {*names(storage)}
    assert "3.changelog" not in names(storage)
    assert len(rows_of(storage, 5)) == 5
    end_pin(storage, pin)
    provider.do_maintenance()
    assert names(storage) == ["10.changelog", "10.zip"]


def test_a_maintenance_deletes_no_more_versions_than_its_limit() -> None:
    storage = MemoryStorage()
    maintained(storage, *range(1, 11), min_versions_to_retain=100)
    more: dict[str, Any] = {"ratio_extra_space_allowed_in_checkpoint": 0.0}
    limited = provider_of(
        storage, min_versions_to_retain=1, max_versions_to_delete_per_maintenance=2, **more
    )
    limited.do_maintenance()
    left = [name for name in names(storage) if name.endswith(".zip")]
    assert left == ["10.zip", "4.zip", "6.zip", "8.zip"]
    assert "3.changelog" not in names(storage)


def test_old_versions_gather_before_they_are_deleted() -> None:
    storage = MemoryStorage()
    conf: dict[str, Any] = {
        "min_versions_to_retain": 5,
        "ratio_extra_space_allowed_in_checkpoint": 0.5,
    }
    assert StateStoreConf(**conf).min_versions_to_delete == 3
    provider = maintained(storage, *range(1, 8), **conf)
    assert "1.changelog" in names(storage)
    attempt(provider, 8)
    provider.do_maintenance()
    assert {"4.zip", "6.zip", "8.zip"} < {*names(storage)}
    assert "3.changelog" not in names(storage)


def test_a_snapshot_of_an_attempt_outside_the_lineage_is_no_base() -> None:
    storage = MemoryStorage()
    conf: dict[str, Any] = {
        "min_versions_to_retain": 1,
        "ratio_extra_space_allowed_in_checkpoint": 0.0,
    }
    provider = of_ids(storage, **conf)

    def forced(version: int, base: str | None) -> str | None:
        store = provider.get_store(version - 1, base, force_snapshot_on_commit=True)
        store.put(key("forced", version), value(version))
        store.commit()
        return store.state_store_checkpoint_info.state_store_ckpt_id

    third = attempt(provider, 3, attempt(provider, 2, forced(1, None)))
    forced(4, third)  # it has a zip, and does not count
    fifth = attempt(provider, 5, attempt(provider, 4, third))
    before = names(storage)
    provider.do_maintenance()
    assert names(storage) == before
    assert len(reloaded(storage, 5, fifth)) == 5
    sixth = forced(6, fifth)
    provider.do_maintenance()
    assert names(storage) == [f"6_{sixth}.changelog", f"6_{sixth}.zip"]
    assert parts(storage) == named_by(storage, f"6_{sixth}.zip")
    assert len(reloaded(storage, 6, sixth)) == 6


def test_a_snapshot_without_its_sst_files_is_no_base() -> None:
    storage = MemoryStorage()
    maintained(storage, *range(1, 9), min_versions_to_retain=100)
    (table,) = named_by(storage, "6.zip") - named_by(storage, "4.zip", "8.zip")
    storage.delete(f"state/0/3/{table}")
    maintained(storage, min_versions_to_retain=2).do_maintenance()
    assert {"4.zip", "5.changelog"} < {*names(storage)}
    assert "3.changelog" not in names(storage)
    assert len(rows_of(storage, 7)) == 7


def test_nothing_is_deleted_beside_a_zip_that_cannot_be_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage = MemoryStorage()
    maintained(storage, *range(1, 9), min_versions_to_retain=100)
    storage.write("state/0/3/2.zip", [b"damaged"], overwrite=True)
    before = {*storage.files}
    with caplog.at_level(logging.WARNING):
        maintained(storage, min_versions_to_retain=1).do_maintenance()
    assert {*storage.files} == before
    assert (
        "maintenance for StateStoreId(opId=0,partId=3,name=default): state/0/3/2.z" in caplog.text
    )


def test_a_version_that_was_deleted_is_not_in_memory() -> None:
    storage = MemoryStorage()
    conf = {"min_versions_to_retain": 1, "max_versions_to_retain_in_memory": 9}
    provider = maintained(storage, *range(1, 5), **conf)
    assert names(storage) == ["4.changelog", "4.zip"]
    with pytest.raises(CannotLoadStateStoreError):
        provider.get_store(3)


@pytest.mark.parametrize("ratio", ["-0.1", "much", "inf", "nan"])
def test_a_share_of_versions_is_not_negative(ratio: str) -> None:
    name = "spark.sql.streaming.ratioExtraSpaceAllowedInCheckpoint"
    with pytest.raises(ConfigError, match=f"{name} cannot be '{ratio}'"):
        StateStoreConf.of({name: ratio})


# -- unique ids: the cases of SPARK-49374


def of_ids(storage: Storage, **conf: Any) -> RocksDBStateStoreProvider:
    return provider_of(storage, checkpoint_format_version=2, **conf)


def reloaded(storage: Storage, version: int, unique: str | None) -> list[bytes]:
    return [row for row, _ in of_ids(storage).get_read_store(version, unique).iterator()]


def test_a_version_with_its_own_snapshot_loads_without_its_changelog() -> None:
    storage = MemoryStorage()
    provider = of_ids(storage, min_deltas_for_snapshot=1)
    first = attempt(provider, 1)
    second = attempt(provider, 2, first)
    provider.do_maintenance()
    for name in names(storage):
        if name.endswith("changelog"):
            storage.delete(f"state/0/3/{name}")
    assert len(reloaded(storage, 2, second)) == 2


def test_a_version_loads_from_the_newest_snapshot_in_its_lineage() -> None:
    storage = MemoryStorage()
    provider = of_ids(storage, min_deltas_for_snapshot=2)
    first = attempt(provider, 1)
    other = attempt(provider, 2, first, "other")
    provider.do_maintenance()  # of an attempt that does not count
    ours = attempt(provider, 2, first, "ours")
    third = attempt(provider, 3, ours, "third")
    assert {f"2_{other}.zip", f"2_{other}.changelog", f"2_{ours}.changelog"} < {*names(storage)}
    assert reloaded(storage, 3, third) == [key("k", 1), key("ours", 2), key("third", 3)]
    assert reloaded(storage, 2, other) == [key("k", 1), key("other", 2)]


def test_a_version_without_a_snapshot_loads_from_version_1() -> None:
    storage = MemoryStorage()
    unique = None
    for version in range(1, 5):  # each time a new process
        unique = attempt(of_ids(storage), version, unique)
    assert len(reloaded(storage, 4, unique)) == 4
    assert not any(name.endswith(".zip") for name in names(storage))


def test_a_lineage_begins_with_the_snapshot_that_was_uploaded() -> None:
    storage = MemoryStorage()
    provider = of_ids(storage, min_deltas_for_snapshot=3)
    ids: list[str | None] = [None]
    for version in range(1, 6):
        ids.append(attempt(provider, version, ids[-1]))
        if version == 4:
            provider.do_maintenance()  # of version 3
    with storage.open(f"state/0/3/5_{ids[5]}.changelog") as stream:
        header = changelog.read_header(decode(COMPRESSIONS["lz4"], stream))
    assert header == Header(3, ((3, str(ids[3])), (4, str(ids[4]))))


def test_a_lineage_begins_with_the_snapshot_that_was_forced() -> None:
    storage = MemoryStorage()
    provider = of_ids(storage)
    forced = provider.get_store(1, attempt(provider, 1), force_snapshot_on_commit=True)
    forced.commit()
    second = forced.state_store_checkpoint_info.state_store_ckpt_id
    third = attempt(provider, 3, second)
    with storage.open(f"state/0/3/3_{third}.changelog") as stream:
        header = changelog.read_header(decode(COMPRESSIONS["lz4"], stream))
    assert header == Header(3, ((2, str(second)),))


def test_a_commit_names_the_attempt_that_it_is_based_on() -> None:
    provider = of_ids(MemoryStorage())
    first = attempt(provider, 1)
    stores = [provider.get_store(1, first) for _ in range(2)]
    for store in stores:
        store.commit()
    infos = [store.state_store_checkpoint_info for store in stores]
    assert {info.base_state_store_ckpt_id for info in infos} == {first}
    assert len({first, *(info.state_store_ckpt_id for info in infos)}) == 3
    assert [info.batch_version for info in infos] == [2, 2]


def test_a_failed_upload_leaves_the_version_before_and_can_be_repeated() -> None:
    storage = HookedStorage()
    first = attempt(of_ids(storage), 1)
    storage.before = refuse("write", "*2_*", "no space")
    store = of_ids(storage).get_store(1, first)
    store.put(key("k", 2), value(2))
    with pytest.raises(StorageError, match="no space"):
        store.commit()
    assert store.state is StoreState.UPDATING
    assert reloaded(storage, 1, first) == [key("k", 1)]
    storage.works_again()
    assert store.commit() == 2
    unique = store.state_store_checkpoint_info.state_store_ckpt_id
    assert reloaded(storage, 2, unique) == [key("k", 1), key("k", 2)]


@pytest.mark.parametrize(
    ("lost", "text"),
    [
        ("3.zip", r"Cannot find a base snapshot checkpoint with lineage: 3:\S+ 4:\S+\."),
        ("4.changelog", "Error reading streaming state file of memory:/state/0/3/4_"),
    ],
)
def test_a_lineage_that_is_cut_does_not_load(lost: str, text: str) -> None:
    storage = MemoryStorage()
    provider = of_ids(storage, min_deltas_for_snapshot=3)
    ids: list[str | None] = [None]
    for version in range(1, 5):
        ids.append(attempt(provider, version, ids[-1]))
        if version == 3:
            provider.do_maintenance()
    number, kind = lost.split(".")
    storage.delete(f"state/0/3/{number}_{ids[int(number)]}.{kind}")
    with pytest.raises(CannotLoadStateStoreError, match=text):
        of_ids(storage).get_store(4, ids[4])


def test_a_broken_zip_is_repaired_by_the_whole_lineage() -> None:
    storage = MemoryStorage()
    provider = of_ids(storage, min_deltas_for_snapshot=2)
    ids: list[str | None] = [None]
    for version in range(1, 6):
        ids.append(attempt(provider, version, ids[-1]))
        provider.do_maintenance()
    storage.write(f"state/0/3/4_{ids[4]}.zip", [b"damaged"], overwrite=True)
    for version in (4, 5):
        store = of_ids(storage).get_store(version, ids[version])
        assert store.metrics.num_keys == version
        assert store.metrics.custom_metrics["rocksdbNumSnapshotsAutoRepaired"] == 1
    store.commit()
    sixth = store.state_store_checkpoint_info.state_store_ckpt_id
    with storage.open(f"state/0/3/6_{sixth}.changelog") as stream:
        header = changelog.read_header(decode(COMPRESSIONS["lz4"], stream))
    assert header == Header(3, tuple((version, str(ids[version])) for version in (2, 3, 4, 5)))
    place = "Error reading snapshot file memory:/state/0/3/4_"
    for conf in ({"changelog_checkpointing": False}, {"auto_snapshot_repair_enabled": False}):
        with pytest.raises(CannotLoadStateStoreError, match=place):
            of_ids(storage, **conf).get_store(5, ids[5])


@pytest.mark.parametrize("cut", ["missing", "header"])
def test_a_broken_zip_is_not_repaired_by_a_lineage_that_is_cut(cut: str) -> None:
    storage = MemoryStorage()
    provider = of_ids(storage, min_deltas_for_snapshot=2)
    ids: list[str | None] = [None]
    for version in range(1, 5):
        ids.append(attempt(provider, version, ids[-1]))
        provider.do_maintenance()
    storage.write(f"state/0/3/4_{ids[4]}.zip", [b"damaged"], overwrite=True)
    if cut == "missing":
        storage.delete(f"state/0/3/2_{ids[2]}.changelog")
    else:
        provider._files.write_changelog(2, (), ids[2], ())
    with pytest.raises(CannotLoadStateStoreError, match=r"Error reading snapshot file .*/4_"):
        of_ids(storage).get_store(4, ids[4])


def test_a_lineage_with_a_gap_is_refused() -> None:
    storage = MemoryStorage()
    provider = of_ids(storage)
    first = attempt(provider, 1)
    second = attempt(provider, 2, first)
    third = attempt(provider, 3, second)
    provider._files.write_changelog(3, (), third, ((1, str(first)),))
    with pytest.raises(CannotLoadStateStoreError) as caught:
        of_ids(storage).get_store(3, third)
    assert str(caught.value) == (
        f"Invalid checkpoint lineage: 1:{first} 3:{third}. Lineage versions are not increasing by "
        "one."
    )


def test_ids_are_needed_with_them_and_ignored_without() -> None:
    storage = MemoryStorage()
    attempt(provider_of(storage), 1)
    assert provider_of(storage).get_store(1, "ignored").version == 1
    with pytest.raises(ConfigError, match="version 1 needs its unique id"):
        of_ids(storage).get_store(1)
    with pytest.raises(ConfigError, match="version 0 has no unique id"):
        of_ids(storage).get_store(0, "id")


def test_a_long_lineage_ends_in_a_snapshot() -> None:
    storage = MemoryStorage()
    provider, unique = of_ids(storage, min_deltas_for_snapshot=10**6), None
    for version in range(1, 503):
        unique = attempt(provider, version, unique)
    assert [name for name in names(storage) if name.endswith(".zip")] == [f"502_{unique}.zip"]


# -- column families


def test_families_are_named_by_a_zip_beside_the_changelog() -> None:
    storage = MemoryStorage()
    store = provider_of(storage, families=True).get_store(0)
    store.create_col_family_if_absent("list", use_multiple_values_per_key=True)
    store.create_col_family_if_absent("$count", is_internal=True)
    for number in range(3):
        store.merge(key("a"), value(number), "list")
    store.put(key("a"), value(7), "$count")
    store.put(key("a"), value(9))
    custom = store.metrics.custom_metrics
    assert store.metrics.num_keys == 2
    assert custom["rocksdbNumInternalColFamiliesKeys"] == 1
    assert custom["rocksdbNumExternalColumnFamilies"] == 2
    assert custom["rocksdbNumInternalColumnFamilies"] == 1
    store.commit()
    assert names(storage) == ["1.changelog", "1.zip"]

    again = provider_of(storage, families=True).get_store(1)
    with pytest.raises(ConfigError, match="'list' needs register_col_family first"):
        again.get(key("a"), "list")
    again.create_col_family_if_absent("list", use_multiple_values_per_key=True)
    again.create_col_family_if_absent("$count", is_internal=True)
    assert [*again.values_iterator(key("a"), "list")] == [value(0), value(1), value(2)]
    assert again.get(key("a"), "list") == value(0)
    assert [*again.iterator("$count")] == [(key("a"), value(7))]
    again.put(key("a"), value(5), "list")  # in place of all values
    assert again.commit() == 2
    assert names(storage) == ["1.changelog", "1.zip", "2.changelog"]
    read = provider_of(storage, families=True).get_read_store(2)
    read.register_col_family("list", use_multiple_values_per_key=True)
    assert [*read.values_iterator(key("a"), "list")] == [value(5)]
    assert [*read.values_iterator(key("b"), "list")] == []


def test_a_removed_family_is_gone_with_its_rows() -> None:
    storage = MemoryStorage()
    provider = provider_of(storage, families=True)
    store = provider.get_store(0)
    store.create_col_family_if_absent("other")
    store.put(key("a"), value(1), "other")
    store.put(key("a"), value(2))
    store.commit()
    store = provider.get_store(1)
    assert not store.remove_col_family_if_exists("absent")
    assert store.remove_col_family_if_exists("other")
    store.create_col_family_if_absent("third")
    store.put(key("a"), value(3), "third")
    store.commit()
    read = provider_of(storage, families=True).get_read_store(2)
    read.register_col_family("third")
    assert [*read.iterator("third")] == [(key("a"), value(3))]
    assert [*read.iterator()] == [(key("a"), value(2))]
    with pytest.raises(ConfigError, match="operation=get not supported on missing column family=o"):
        read.get(key("a"), "other")


def test_what_spark_refuses_of_families_is_refused() -> None:
    plain, store = provider_of().get_store(0), provider_of(families=True).get_store(0)
    disabled = "not supported with multiple column families is disabled in RocksDBStateStoreProv"
    with pytest.raises(ConfigError, match=f"put operation {disabled}"):
        plain.put(key("a"), value(1), "other")
    with pytest.raises(ConfigError, match=f"create_col_family operation {disabled}"):
        plain.create_col_family_if_absent("other")
    for name in ("", " other", "default"):
        with pytest.raises(ConfigError, match=f"create_col_family with invalid name={name}\\. "):
            store.create_col_family_if_absent(name)
    with pytest.raises(ConfigError, match=r"unsupported starting character and name=\$other\."):
        store.create_col_family_if_absent("$other")
    with pytest.raises(ConfigError, match="Merge operation requires an encoder which supports"):
        store.merge(key("a"), value(1))
    with pytest.raises(ConfigError, match="valuesIterator requires a encoder that supports"):
        next(store.values_iterator(key("a")))
    with pytest.raises(ConfigError, match="Multiple values per key support requires column fam"):
        RocksDBStateStoreProvider(STORE, MemoryStorage(), use_multiple_values_per_key=True)


def test_a_zip_must_have_families_as_the_provider_has() -> None:
    storage = MemoryStorage()
    attempt(provider_of(storage, families=True), 1)
    with pytest.raises(CannotLoadStateStoreError, match="do not both have column families"):
        provider_of(storage, auto_snapshot_repair_enabled=False).get_store(1)


# -- keys


def test_scans_are_for_keys_that_are_in_order() -> None:
    store = provider_of().get_store(0)
    with pytest.raises(ConfigError, match="Prefix scan requires setting prefix key!"):
        store.prefix_scan(value(1))
    with pytest.raises(ConfigError, match="Range scan requires an encoder that supports range"):
        store.range_scan()


@pytest.mark.parametrize(
    ("encoder", "text"),
    [
        (PrefixScan(0), "Incorrect number of prefix columns=0 for prefix scan encoder"),
        (PrefixScan(3), "Incorrect number of prefix columns=3"),
        (RangeScan(()), "Incorrect number of ordering ordinals=0 for range scan encoder"),
        (RangeScan((1, 0)), "Variable size ordering column with name=c0 at index=0 is not"),
    ],
)
def test_an_encoder_must_fit_its_schema(encoder: KeyEncoder, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        provider_of(encoder=encoder)


def test_an_encoder_of_columns_needs_their_schema() -> None:
    with pytest.raises(ConfigError, match="need the schema of the key"):
        RocksDBStateStoreProvider(STORE, MemoryStorage(), key_encoder=PrefixScan(1))
    with pytest.raises(UnsupportedError, match="keys in TimestampFirst"):
        provider_of(encoder=TimestampFirst())


NAMES = st.text(max_size=9)
LONGS = st.none() | st.integers(-(2**63), 2**63 - 1)
DOUBLES = st.none() | st.floats(allow_nan=False)


@given(NAMES, LONGS, DOUBLES, st.sampled_from([NoPrefix(), PrefixScan(1), RangeScan((2, 1))]))
def test_an_encoded_key_is_read_back(
    name: str, at: int | None, x: float | None, encoder: KeyEncoder
) -> None:
    kind, row = parse_struct(KEY), key(name, at, x)
    codec = key_codec(kind, encoder)
    encoded = codec.encode(row)
    assert codec.decode(encoded) == row
    layout = RowLayout(kind, parse_struct(VALUE), encoder)
    assert key_reader(layout, Wrapping())(encoded) == (name, at, x)


@given(st.lists(st.tuples(st.integers(-5, 5), st.floats(allow_nan=False)), unique=True))
def test_a_range_is_in_the_order_of_its_columns(found: list[tuple[int, float]]) -> None:
    store = provider_of(encoder=RangeScan((1, 2))).get_store(0)
    for at, x in found:
        store.put(key("", at, x), value(at))
    in_order = sorted({(at, x) for at, x in found}, key=lambda row: (row[0], row[1]))
    rows = [(at, x) for at, x in in_order if at >= -2 and at < 3]
    scanned = [*store.range_scan(key("", -2, float("-inf")), key("", 3, float("-inf")))]
    wanted = [key("", at, x) for at, x in rows]
    assert sorted(row for row, _ in scanned) == sorted(wanted)
    assert [*store.range_scan()] == [*store.iterator()]
    prefix = encode_row((1, 0.5), schema(["long", "double"]))
    assert {row for row, _ in store.prefix_scan(prefix)} == {
        key("", at, x) for at, x in found if (at, x) == (1, 0.5)
    }
    numbers = [int.from_bytes(row[16:24], "little", signed=True) for row, _ in store.iterator()]
    assert numbers == sorted(numbers)


# -- killed anywhere


@pytest.mark.parametrize("ids", [1, 2])
@pytest.mark.parametrize("changelogs", [True, False])
@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("renamed", [True, False], ids=["snapshot", "changelog"])
def test_killed_anywhere_the_version_before_loads(
    *, ids: int, after: bool, changelogs: bool, renamed: bool
) -> None:
    """A commit, the upload of its snapshot, and the deletion of the oldest version."""
    conf: dict[str, Any] = {
        "families": True,
        "checkpoint_format_version": ids,
        "changelog_checkpointing": changelogs,
        "min_deltas_for_snapshot": 1,
        "min_versions_to_retain": 2,
        "ratio_extra_space_allowed_in_checkpoint": 0.0,
        "file_checksum_enabled": True,
    }
    clock, whole, base = Clock(), MemoryStorage(), None
    for version in range(1, 3):
        provider = provider_of(whole, **conf)
        base = attempt(provider, version, base)
        provider.do_maintenance()

    def act(storage: MemoryStorage) -> str | None:
        provider = provider_of(storage, **conf)
        store = provider.get_store(2, base)
        if renamed:
            store.create_col_family_if_absent("new")
            store.put(key("a"), value(1), "new")
        store.put(key("k", 3), value(3))
        store.commit()
        provider.do_maintenance()
        return attempt(provider, 4, store.state_store_checkpoint_info.state_store_ckpt_id)

    before = rows_of(whole, 2, base, **conf)
    assert len(before) == 2
    points = 0
    for _, left in each_crash(whole, clock, act, after=after):
        points += 1
        assert rows_of(left, 2, base, **conf) == before
        done = act(left)  # and the version can be written again
        store = provider_of(left, **conf).get_store(4, done)
        store.create_col_family_if_absent("new")
        assert [*store.iterator("new")] == [(key("a"), value(1))] * renamed
        assert len([*store.iterator()]) == 4
        assert not any(name.startswith("1") for name in names(left))
    assert points > 8


# -- beside a dictionary

SOME = st.sampled_from([key(name, at) for name in "abc" for at in (-1, 0, 1)])
NUMBERS = st.integers(0, 9).map(value)


class BesideDictionaries(RuleBasedStateMachine):
    """A provider, its versions, and what each of them holds; a version may have many attempts."""

    @initialize(
        ids=st.sampled_from([1, 2]),
        changelogs=st.booleans(),
        checksums=st.booleans(),
        operator=st.sampled_from([1, 2]),
    )
    def begin(self, *, ids: int, changelogs: bool, checksums: bool, operator: int) -> None:
        self.storage = MemoryStorage()
        self.conf: dict[str, Any] = {
            "checkpoint_format_version": ids,
            "changelog_checkpointing": changelogs,
            "row_checksum_enabled": checksums,
            "merge_operator_version": operator,
            "min_deltas_for_snapshot": 3,
            "max_versions_to_retain_in_memory": 1,
        }
        self.committed: dict[tuple[int, str | None], Any] = {(0, None): ({}, {})}
        self.restart()
        self.at: tuple[int, str | None] = (0, None)
        self.open()

    @rule()
    def restart(self) -> None:
        self.provider = provider_of(self.storage, families=True, encoder=PrefixScan(1), **self.conf)

    def open(self) -> None:
        rows, lists = self.committed[self.at]
        self.rows, self.lists = dict(rows), {row: [*some] for row, some in lists.items()}
        self.store = self.provider.get_store(*self.at)
        self.store.create_col_family_if_absent("list", use_multiple_values_per_key=True)

    @rule(row=SOME, number=NUMBERS)
    def put(self, row: bytes, number: bytes) -> None:
        self.store.put(row, number)
        self.rows[row] = number

    @rule(row=SOME)
    def remove(self, row: bytes) -> None:
        self.store.remove(row)
        self.rows.pop(row, None)

    @rule(row=SOME, number=NUMBERS)
    def merge(self, row: bytes, number: bytes) -> None:
        self.store.merge(row, number, "list")
        self.lists.setdefault(row, []).append(number)

    @rule(row=SOME)
    def clear(self, row: bytes) -> None:
        self.store.remove(row, "list")
        self.lists.pop(row, None)

    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        self.store.abort()
        self.at = data.draw(st.sampled_from(sorted(self.committed, key=str)))
        self.open()

    @rule()
    def commit(self) -> None:
        version = self.store.commit()
        info = self.store.state_store_checkpoint_info
        assert (info.batch_version, info.base_state_store_ckpt_id) == (version, self.at[1])
        assert info.rows == len(self.rows) + len(self.lists)
        if info.state_store_ckpt_id is None:  # it has replaced what was above
            self.committed = {at: was for at, was in self.committed.items() if at[0] < version}
        self.at = version, info.state_store_ckpt_id
        self.committed[self.at] = self.rows, self.lists
        self.open()

    @precondition(lambda self: len(self.committed) > 1)
    @rule()
    def maintain(self) -> None:
        self.provider.do_maintenance()

    @invariant()
    def both_are_the_same(self) -> None:
        if hasattr(self, "store"):
            self.must_hold(self.store, self.rows, self.lists)

    def must_hold(self, store: Any, rows: Any, lists: Any) -> None:
        assert dict(store.iterator()) == rows
        assert {row: [*store.values_iterator(row, "list")] for row in lists} == lists
        assert dict(store.iterator("list")) == {row: some[0] for row, some in lists.items()}
        prefix = encode_row(("b",), schema(["string"]))
        wanted = {key("b", at) for at in (-1, 0, 1)} & rows.keys()
        assert {row for row, _ in store.prefix_scan(prefix)} == wanted

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        self.restart()
        for at, (rows, lists) in self.committed.items():
            store = self.provider.get_store(*at)
            store.create_col_family_if_absent("list", use_multiple_values_per_key=True)
            self.must_hold(store, rows, lists)


TestBesideDictionaries = BesideDictionaries.TestCase
# Each zip is a database that RocksDB makes, and each load of one opens it.
TestBesideDictionaries.settings = settings(max_examples=12, stateful_step_count=20, deadline=None)
