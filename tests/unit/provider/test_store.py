"""The provider: Spark's contract on any storage."""

import logging
from typing import Any

import pytest

from statemaint.codec.rows.unsafe_write import encode_row
from statemaint.errors import CheckpointError, ConfigError, NotFoundError, StorageError
from statemaint.model.ids import StoreId, batch_of
from statemaint.provider import (
    CannotLoadStateStoreError,
    HDFSBackedStateStoreProvider,
    StateStoreConf,
    StoreState,
)
from statemaint.records.pins import write_pin
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import delta_bytes
from tests.support.faults import Clock, HookedStorage, refuse

STORE = StoreId(0, 3)
PLACE = "memory:/state/0/3"


def word(number: int) -> bytes:
    return number.to_bytes(8)


def provider_of(
    storage: MemoryStorage | None = None, **conf: Any
) -> tuple[HDFSBackedStateStoreProvider, MemoryStorage]:
    storage = storage or MemoryStorage()
    return HDFSBackedStateStoreProvider(STORE, storage, StateStoreConf(**conf)), storage


def grown(provider: HDFSBackedStateStoreProvider, last: int, first: int = 1) -> None:
    """Commits versions, each with a key of its own."""
    for version in range(first, last + 1):
        store = provider.get_store(version - 1)
        store.put(word(version), word(100 + version))
        assert store.commit() == version


def names(storage: MemoryStorage) -> list[str]:
    return sorted(path.removeprefix("state/0/3/") for path in storage.files)


def test_its_text_is_sparks() -> None:
    provider, _ = provider_of()
    assert str(provider) == f"HDFSStateStoreProvider[id = (op=0,part=3),dir = {PLACE}]"
    assert str(provider.get_store(0)) == f"HDFSStateStore[id=(op=0,part=3),dir={PLACE}]"
    assert str(provider.get_read_store(0)) == f"HDFSReadStateStore[id=(op=0,part=3),dir={PLACE}]"


def test_a_commit_writes_a_delta_that_any_provider_loads() -> None:
    provider, storage = provider_of()
    store = provider.get_store(0)
    store.put(word(1), word(10))
    store.put(word(2), word(20))
    store.remove(word(1))
    store.remove(word(9))  # not there: nothing is written of it
    assert (store.get(word(1)), store.get(word(2))) == (None, word(20))
    assert store.commit() == 1
    assert store.has_committed
    changes = [(word(1), word(10)), (word(2), word(20)), (word(1), None)]
    assert storage.files == {"state/0/3/1.delta": delta_bytes(changes)}
    assert dict(provider_of(storage)[0].get_read_store(1).iterator()) == {word(2): word(20)}


@pytest.mark.parametrize("verb", ["commit", "abort"])
def test_nothing_is_changed_after_commit_or_abort(verb: str) -> None:
    store = provider_of()[0].get_store(0)
    getattr(store, verb)()
    with pytest.raises(ConfigError, match="Cannot put after already committed or aborted"):
        store.put(word(1), word(1))
    with pytest.raises(ConfigError, match="Cannot remove after already committed or aborted"):
        store.remove(word(1))
    with pytest.raises(ConfigError, match="Cannot commit after already committed or aborted"):
        store.commit()


def test_an_aborted_store_leaves_nothing() -> None:
    provider, storage = provider_of()
    store = provider.get_store(0)
    store.put(word(1), word(1))
    store.abort()
    assert (store.state, storage.files, provider.loaded_maps) == (StoreState.ABORTED, {}, {})
    assert not store.has_committed


def test_a_commit_that_failed_can_be_repeated() -> None:
    storage = HookedStorage(before=refuse("write", error="no space"))
    provider, _ = provider_of(storage)
    store = provider.get_store(0)
    store.put(word(1), word(1))
    with pytest.raises(StorageError, match="no space"):
        store.commit()
    assert store.state is StoreState.UPDATING
    storage.works_again()
    assert store.commit() == 1


def test_a_commit_replaces_what_an_earlier_attempt_at_its_version_left() -> None:
    provider, storage = provider_of()
    for attempt in (10, 20):
        for version in (1, 2):
            forced = attempt == 10 and version == 1
            store = provider.get_store(version - 1, force_snapshot_on_commit=forced)
            store.put(word(attempt + version), word(attempt))
            store.commit()
    assert names(storage) == ["1.delta", "2.delta"]
    for reader in (provider, provider_of(storage)[0]):
        assert dict(reader.get_read_store(2).iterator()) == {word(21): word(20), word(22): word(20)}


def test_a_version_above_one_that_is_written_again_is_loaded_again() -> None:
    provider, storage = provider_of()
    grown(provider, 2)
    store = provider.get_store(0)
    store.put(word(9), word(9))
    store.commit()
    expected = {word(9): word(9), word(2): word(102)}
    for reader in (provider, provider_of(storage)[0]):
        assert dict(reader.get_read_store(2).iterator()) == expected


def test_a_commit_needs_no_file_that_was_deleted_since_the_last_one() -> None:
    provider, storage = provider_of()
    grown(provider, 3)
    for version in (2, 3):
        storage.delete(f"state/0/3/{version}.delta")
    grown(provider, 2, first=2)
    assert names(storage) == ["1.delta", "2.delta"]


def test_versions_begin_at_0() -> None:
    provider, _ = provider_of()
    assert list(provider.get_store(0).iterator()) == []
    for get in (provider.get_store, provider.get_read_store):
        with pytest.raises(ConfigError, match="Version cannot be less than 0"):
            get(-1)


def test_a_row_takes_whole_words() -> None:
    store = provider_of()[0].get_store(0)
    with pytest.raises(ConfigError, match="not 3 and 8 bytes"):
        store.put(b"key", word(1))


def test_stores_of_one_version_do_not_see_each_other() -> None:
    provider, _ = provider_of()
    grown(provider, 2)
    one, other = provider.get_store(2), provider.get_store(2)
    one.put(word(50), word(1))
    assert other.get(word(50)) is None
    one.commit()
    assert provider.get_read_store(2).get(word(50)) is None
    assert provider.get_read_store(3).get(word(50)) == word(1)


def test_older_versions_stay_readable_from_files() -> None:
    provider, storage = provider_of(max_versions_to_retain_in_memory=0)
    grown(provider, 5)
    for version in range(6):
        keys = {key for key, _ in provider.get_read_store(version).iterator()}
        assert keys == {word(number) for number in range(1, version + 1)}
    assert provider.loaded_maps == {}
    assert names(storage) == [f"{number}.delta" for number in range(1, 6)]


def test_the_cache_holds_the_newest_versions_and_counts() -> None:
    provider, _ = provider_of()
    grown(provider, 4)
    assert list(provider.loaded_maps) == [4, 3]
    provider.get_read_store(4)
    provider.get_read_store(1)  # older than all that is held: loaded, and not kept
    assert list(provider.loaded_maps) == [4, 3]
    # Three of the four commits found the version before them, the first needed none.
    found = provider.metrics
    assert (found["loadedMapCacheHitCount"], found["loadedMapCacheMissCount"]) == (4, 1)
    assert found["memoryUsedBytes"] == (4 + 3) * 16
    provider.close()
    assert provider.loaded_maps == {}


def test_a_store_has_the_metrics_that_the_provider_supports() -> None:
    provider, storage = provider_of()
    grown(provider, 2)
    store = provider.get_store(2, force_snapshot_on_commit=True)
    store.put(word(9), word(9))
    found = store.metrics
    assert (found.num_keys, found.memory_used_bytes) == (3, 48)
    assert set(found.custom_metrics) == set(provider.supported_custom_metrics)
    assert found.custom_metrics["stateOnCurrentVersionSizeBytes"] == 48
    assert found.custom_metrics["forceSnapshotCount"] == 1
    store.commit()
    assert "3.snapshot" in names(storage)


def test_a_missing_delta_is_named_in_sparks_words() -> None:
    provider, storage = provider_of(max_versions_to_retain_in_memory=0)
    grown(provider, 3)
    storage.delete("state/0/3/2.delta")
    with pytest.raises(CannotLoadStateStoreError) as caught:
        provider.get_store(3)
    assert str(caught.value) == (
        f"Error reading delta file {PLACE}/2.delta of {provider}: {PLACE}/2.delta does not exist."
    )


@pytest.mark.parametrize(
    ("kind", "payload", "text"),
    [
        ("snapshot", b"\0\0\0\1k\xff\xff\xff\xfb", "value size cannot be -5."),
        ("snapshot", b"\xff\xff\xff\xfb", "key size cannot be -5."),
        ("delta", b"\xff\xff\xff\xfb", "key size cannot be -5."),
    ],
)
def test_lengths_that_cannot_be_are_named_in_sparks_words(
    kind: str, payload: bytes, text: str
) -> None:
    # One raw block of lz4 is the smallest stream that holds any payload.
    from statemaint.codec.compression.base import encode  # noqa: PLC0415
    from statemaint.codec.compression.registry import COMPRESSIONS  # noqa: PLC0415

    content = b"".join(encode(COMPRESSIONS["lz4"], [payload]))
    provider, _ = provider_of(
        MemoryStorage({f"state/0/3/1.{kind}": content}), auto_snapshot_repair_enabled=False
    )
    with pytest.raises(CannotLoadStateStoreError) as caught:
        provider.get_store(1)
    file = f"{PLACE}/1.{kind}"
    assert str(caught.value) == f"Error reading {kind} file {file} of {provider}: {text}"


def test_any_negative_length_in_a_delta_removes() -> None:
    from statemaint.codec.compression.base import encode  # noqa: PLC0415
    from statemaint.codec.compression.registry import COMPRESSIONS  # noqa: PLC0415

    payload = b"\0\0\0\1k\0\0\0\x08" + word(7) + b"\0\0\0\1k\xff\xff\xff\xfb" + b"\xff" * 4
    content = b"".join(encode(COMPRESSIONS["lz4"], [payload]))
    provider, _ = provider_of(MemoryStorage({"state/0/3/1.delta": content}))
    assert list(provider.get_read_store(1).iterator()) == []


def test_a_value_is_cut_to_whole_words_as_spark_does() -> None:
    content = delta_bytes([(word(1), word(5) + b"four")])
    provider, _ = provider_of(MemoryStorage({"state/0/3/1.delta": content}))
    assert provider.get_read_store(1).get(word(1)) == word(5)


@pytest.mark.parametrize("codec", ["lz4", "zstd", "snappy", "lzf"])
def test_row_checksums_are_in_the_file_and_not_in_the_rows(codec: str) -> None:
    conf: dict[str, Any] = {"row_checksum_enabled": True, "compression_codec": codec}
    provider, storage = provider_of(**conf)
    store = provider.get_store(0)
    store.put(word(1), word(2))
    store.commit()
    expected = delta_bytes([(word(1), word(2))], codec=codec, row_checksums=True)
    assert storage.read("state/0/3/1.delta") == expected
    again, _ = provider_of(storage, **conf)
    assert dict(again.get_read_store(1).iterator()) == {word(1): word(2)}


# -- maintenance


def test_a_snapshot_is_due_above_so_many_deltas() -> None:
    provider, storage = provider_of(min_deltas_for_snapshot=3)
    grown(provider, 3)
    provider.do_snapshot()
    assert "3.snapshot" not in names(storage)
    grown(provider, 4, first=4)
    provider.do_snapshot()
    assert "4.snapshot" in names(storage)
    assert dict(provider_of(storage)[0].get_read_store(4).iterator()) == {
        word(number): word(100 + number) for number in range(1, 5)
    }


def test_what_is_not_held_is_left_to_others() -> None:
    provider, storage = provider_of(min_deltas_for_snapshot=1)
    grown(provider, 4)
    provider.close()
    provider.do_maintenance()
    assert names(storage) == [f"{number}.delta" for number in range(1, 5)]


def test_cleanup_keeps_the_snapshot_below_the_versions_to_retain() -> None:
    provider, storage = provider_of(min_deltas_for_snapshot=2, min_versions_to_retain=2)
    for version in range(1, 9):
        grown(provider, version, first=version)
        provider.do_maintenance()
    # Snapshots came at 3 and 6; 8 - 2 is 6, where the chain of all that stays begins.
    assert names(storage) == ["3.delta", "6.delta", "6.snapshot", "7.delta", "8.delta"]
    assert len(list(provider.get_read_store(6).iterator())) == 6


@pytest.mark.parametrize(
    ("version", "later", "kept"), [(4, 59.0, 3), (9, 59.0, 9), (11, 59.0, 9), (4, 61.0, 9)]
)
def test_cleanup_keeps_what_the_versions_from_a_pin_on_need(
    version: int, later: float, kept: int
) -> None:
    clock = Clock()
    provider, storage = provider_of(
        MemoryStorage(clock=clock), min_deltas_for_snapshot=2, min_versions_to_retain=1
    )
    for number in range(1, 12):
        grown(provider, number, first=number)
        provider.do_snapshot()  # at 3, 6 and 9
    write_pin(storage, batch_of(version), by="a test", seconds=60)
    clock.now += later
    provider.cleanup()
    again, _ = provider_of(storage)
    assert min(file.version for file in again.fetch_files() if file.is_snapshot) == kept
    if later < 60:
        assert len(list(again.get_read_store(version).iterator())) == version


def test_cleanup_deletes_nothing_under_a_pin_that_cannot_be_read() -> None:
    provider, storage = provider_of(min_deltas_for_snapshot=1, min_versions_to_retain=1)
    for number in range(1, 7):
        grown(provider, number, first=number)
        provider.do_snapshot()
    storage.write("_statemaint/pins/1.json", [b"of a later version"])
    before = storage.files
    provider.cleanup()
    assert storage.files == before


def test_a_checksum_goes_before_its_file_and_a_stale_one_before_a_new_file() -> None:
    provider, storage = provider_of(file_checksum_enabled=True)
    grown(provider, 1)
    assert names(storage) == ["1.delta", "1.delta.crc"]
    storage.write("state/0/3/.1.delta.crc", [b"of an older file"])
    grown(provider, 1)
    assert names(storage) == ["1.delta", "1.delta.crc"]
    again, _ = provider_of(storage)
    assert len(list(again.get_read_store(1).iterator())) == 1
    storage.write("state/0/3/1.delta.crc", [storage.read("state/0/3/1.delta")], overwrite=True)
    with pytest.raises(CannotLoadStateStoreError, match=r"Error reading delta file .*1\.delta"):
        provider_of(storage)[0].get_read_store(1)


def test_a_foreign_name_stops_maintenance_as_it_stops_sparks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    provider, storage = provider_of(min_deltas_for_snapshot=1, min_versions_to_retain=1)
    grown(provider, 4)
    storage.write("state/0/3/foo.bar", [b""])
    with caplog.at_level(logging.WARNING):
        provider.do_maintenance()
    assert [message.split(" for ")[0] for message in caplog.messages] == [
        "Error doing snapshots",
        "Error cleaning up files",
    ]
    assert 'For input string: "foo"' in caplog.text
    assert "4.snapshot" not in names(storage)


def test_files_for_a_version_are_the_snapshot_and_all_that_follows() -> None:
    provider, storage = provider_of(min_deltas_for_snapshot=2)
    grown(provider, 3)
    provider.do_snapshot()
    grown(provider, 5, first=4)
    files = provider.fetch_files()
    assert [(file.version, file.is_snapshot) for file in files] == [
        (1, False), (2, False), (3, True), (4, False), (5, False),
    ]  # fmt: skip
    assert [file.version for file in provider.files_for_version(files, 5)] == [3, 4, 5]
    assert [file.version for file in provider.files_for_version(files, 2)] == [1, 2]
    with pytest.raises(ConfigError, match="requirement failed"):
        provider.files_for_version(files, 6)
    storage.delete("state/0/3/4.delta")
    with pytest.raises(CheckpointError, match="Unexpected list of delta files for version 5"):
        provider.files_for_version(provider.fetch_files(), 5)


def test_other_stores_and_schemas_below_the_directory_are_not_its_files() -> None:
    provider, storage = provider_of()
    grown(provider, 1)
    storage.write("state/0/3/left-keyToNumValues/7.delta", [b""])
    storage.write("state/0/3/_metadata/schema", [b""])
    assert [file.version for file in provider.fetch_files()] == [1]


# -- repair


def broken_snapshot(**conf: Any) -> tuple[HDFSBackedStateStoreProvider, MemoryStorage]:
    provider, storage = provider_of(min_deltas_for_snapshot=2)
    grown(provider, 4)
    provider.do_snapshot()
    storage.write("state/0/3/4.snapshot", [b"LZ4"], overwrite=True)
    return provider_of(storage, **conf)


def test_a_broken_snapshot_is_loaded_around() -> None:
    provider, _ = broken_snapshot()
    assert len(list(provider.get_read_store(4).iterator())) == 4
    assert provider.metrics["numSnapshotsAutoRepaired"] == 1
    provider.get_read_store(4)
    assert provider.metrics["numSnapshotsAutoRepaired"] == 0


def test_where_one_snapshot_is_broken_the_one_below_may_be_too() -> None:
    provider, storage = broken_snapshot()
    storage.write("state/0/3/2.snapshot", [b"LZ4"])
    assert len(list(provider.get_read_store(4).iterator())) == 4  # from the empty state
    grown(provider_of(storage)[0], 2)
    good = delta_bytes([(word(1), word(101)), (word(2), word(102))])
    storage.write("state/0/3/2.snapshot", [good], overwrite=True)
    for version in (1, 2):
        storage.delete(f"state/0/3/{version}.delta")
    again, _ = provider_of(storage)
    assert len(list(again.get_read_store(4).iterator())) == 4  # from the one below


@pytest.mark.parametrize(
    "conf",
    [{"auto_snapshot_repair_enabled": False}, {"auto_snapshot_repair_max_change_file_replay": 3}],
)
def test_a_broken_snapshot_is_an_error_where_repair_is_off_or_too_long(
    conf: dict[str, Any],
) -> None:
    provider, _ = broken_snapshot(**conf)
    with pytest.raises(CannotLoadStateStoreError, match="Error reading snapshot file"):
        provider.get_read_store(4)


# -- prefix scans


def test_a_prefix_scan_finds_the_rows_of_a_prefix() -> None:
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("k", "string"), ("start", "timestamp"))
    ]
    key = {"type": "struct", "fields": fields}
    prefix = {"type": "struct", "fields": fields[:1]}
    provider = HDFSBackedStateStoreProvider(
        STORE, MemoryStorage(), key_schema=key, num_cols_prefix_key=1
    )
    store = provider.get_store(0)
    for name, start in (("a", 1), ("a", 2), ("ab", 1)):
        store.put(encode_row((name, start), key), word(start))
    found = {value for _, value in store.prefix_scan(encode_row(("a",), prefix))}
    assert found == {word(1), word(2)}


def test_a_store_without_prefix_has_no_prefix_scan() -> None:
    with pytest.raises(ConfigError, match="Prefix scan is not supported!"):
        list(provider_of()[0].get_store(0).prefix_scan(word(1)))
    with pytest.raises(ConfigError, match="needs the schema"):
        HDFSBackedStateStoreProvider(STORE, MemoryStorage(), num_cols_prefix_key=1)


# -- settings


def test_settings_are_named_by_sparks_keys() -> None:
    key = "spark.sql.streaming"
    conf = StateStoreConf.of(
        {
            f"{key}.stateStore.compression.codec": "org.apache.spark.io.ZStdCompressionCodec",
            f"{key}.stateStore.rowChecksum.enabled": "true",
            f"{key}.stateStore.minDeltasForSnapshot": "5",
            f"{key}.minBatchesToRetain": "7",
            f"{key}.maxBatchesToRetainInMemory": "0",
            "spark.sql.shuffle.partitions": "200",
        }
    )
    expected = StateStoreConf(
        compression_codec="zstd",
        row_checksum_enabled=True,
        min_deltas_for_snapshot=5,
        min_versions_to_retain=7,
        max_versions_to_retain_in_memory=0,
    )
    assert conf == expected
    assert StateStoreConf.of({}) == StateStoreConf()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stateStore.compression.codec", "brotli"),
        ("stateStore.minDeltasForSnapshot", "many"),
        ("stateStore.rowChecksum.enabled", "yes"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=value):
        StateStoreConf.of({f"spark.sql.streaming.{name}": value})


def test_a_storage_that_fails_is_an_error_of_its_own() -> None:
    provider, storage = provider_of(max_versions_to_retain_in_memory=0)
    grown(provider, 1)
    unreachable = refuse("read", error="unreachable")
    provider, _ = provider_of(HookedStorage(storage, before=unreachable))
    with pytest.raises(StorageError, match="unreachable") as caught:
        provider.get_store(1)
    assert not isinstance(caught.value, NotFoundError)


# -- memory


def test_a_version_that_is_larger_than_allowed_is_refused_with_what_to_do() -> None:
    provider, storage = provider_of()
    grown(provider, 9)
    small, _ = provider_of(storage, max_bytes_in_memory=9 * 166 - 1)
    assert len(list(small.get_read_store(8).iterator())) == 8
    with pytest.raises(
        ConfigError, match=r"part=3.*version 9 takes more than 1493 bytes of memory"
    ):
        small.get_read_store(9)
    exact, _ = provider_of(storage, max_bytes_in_memory=9 * 166)
    assert len(list(exact.get_store(9).iterator())) == 9


def test_a_snapshot_that_is_too_large_is_refused_as_well() -> None:
    provider, storage = provider_of()
    store = provider.get_store(0, force_snapshot_on_commit=True)
    for number in range(9):
        store.put(word(number), word(1))
    store.commit()
    small, _ = provider_of(storage, max_bytes_in_memory=9 * 166 - 1)
    with pytest.raises(ConfigError, match=r"read it with `statemaint\.state\.read_state`"):
        small.get_read_store(1)


def test_values_that_replace_each_other_do_not_add_up() -> None:
    provider, storage = provider_of()
    for version in range(50):
        store = provider.get_store(version)
        store.put(word(1), word(version))
        store.put(word(version % 2 + 2), word(version))
        store.commit()
    small, _ = provider_of(storage, max_bytes_in_memory=3 * 166)
    assert len(list(small.get_read_store(50).iterator())) == 3


def test_rows_may_change_while_a_store_that_is_updated_is_read() -> None:
    provider, _ = provider_of()
    grown(provider, 3)
    store = provider.get_store(3)
    for key, _value in store.iterator():
        store.remove(key)
    assert list(store.iterator()) == []
