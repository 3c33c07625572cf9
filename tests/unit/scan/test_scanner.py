"""From bytes to a checkpoint."""

import json
import math
from collections import Counter
from dataclasses import replace

import pytest

from statemaint.errors import NotACheckpointError, StorageError, UnsupportedError
from statemaint.model.files import UnknownFile
from statemaint.model.findings import FindingCode
from statemaint.model.ids import StoreId
from statemaint.model.proof import Attestation
from statemaint.records.attestations import (
    StoreNotes,
    attestation_path,
    parse_attestations,
    render_attestations,
)
from statemaint.recover import plan_repair
from statemaint.scan.scanner import scan
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import JOIN, ROW_CHECKSUMS, UUID, offsets_bytes, write_checkpoint
from tests.support.faults import HookedStorage
from tests.unit.codec.metadata.test_logs import OPERATOR


@pytest.fixture
def storage() -> MemoryStorage:
    return write_checkpoint(MemoryStorage(), last=5, batches=(3, 4))


def codes(storage: MemoryStorage) -> list[FindingCode]:
    return [one.code for one in scan(storage).findings]


def test_reads_a_checkpoint(storage: MemoryStorage) -> None:
    found = scan(storage)
    assert found.query_id == "11111111-2222-3333-4444-555555555555"
    assert (found.batches, found.target, found.required) == ((3, 4), 5, 4)
    assert [one.id for one in found.stores] == [StoreId(0, 0), StoreId(0, 1)]
    assert len(found.stores[0].files) == 5
    assert found.findings == ()


def test_temp_files_and_side_files_are_no_commits(storage: MemoryStorage) -> None:
    for name in (".4.crc", ".5.0f6d2b1c.tmp", "05", "5.bak", "6/7"):
        storage.write(f"commits/{name}", [b"x"])
    assert scan(storage).batches == (3, 4)


def test_finds_the_named_stores_of_a_join() -> None:
    storage = write_checkpoint(MemoryStorage(), last=2, stores=JOIN)
    assert [one.id.store for one in scan(storage).stores] == [*JOIN, *JOIN]


def test_metadata_and_schema_belong_to_no_store(storage: MemoryStorage) -> None:
    storage.write("state/0/_metadata/metadata", [OPERATOR])
    storage.write("state/0/_metadata/.metadata.crc", [b""])
    storage.write("state/0/_stateSchema/default/0_0f6d2b1c-5a3e-4c7d-9b8a-112233445566", [b""])
    found = scan(storage)
    assert found.operators[0].name == "stateStoreSave"
    assert len(found.unclassified) == 3
    assert found.findings == ()


def test_a_file_at_a_place_that_spark_does_not_use_is_named(storage: MemoryStorage) -> None:
    storage.write("state/README", [b""])
    storage.write("state/0/0/deeper/down/1.delta", [b""])
    assert codes(storage) == [FindingCode.UNKNOWN_FILE] * 2
    assert [entry.path for entry in scan(storage).unclassified] == [
        "state/0/0/deeper/down/1.delta",
        "state/README",
    ]


def test_a_partition_that_is_not_there_is_still_a_store(storage: MemoryStorage) -> None:
    storage.write("offsets/4", [offsets_bytes({"shuffle.partitions": "3"})], overwrite=True)
    assert scan(storage).stores[2].files == ()


def test_without_a_pinned_number_the_declared_partitions_count(storage: MemoryStorage) -> None:
    storage.write("state/0/_metadata/metadata", [OPERATOR.replace(b'tions":2', b'tions":3')])
    storage.write("offsets/4", [b'v1\n{"conf":{}}'], overwrite=True)
    assert [one.id.partition for one in scan(storage).stores] == [0, 1, 2]


def test_without_metadata_the_pinned_partitions_count(storage: MemoryStorage) -> None:
    content = offsets_bytes({"shuffle.partitions": "4"})
    storage.write("offsets/4", [content], overwrite=True)
    assert [one.id.partition for one in scan(storage).stores] == [0, 1, 2, 3]


@pytest.mark.parametrize("pinned", ["0", "-3", "2000000000", "many", ""])
def test_a_number_of_partitions_that_cannot_be_is_a_finding(
    storage: MemoryStorage, pinned: str
) -> None:
    content = offsets_bytes({"shuffle.partitions": pinned})
    storage.write("offsets/4", [content], overwrite=True)
    assert codes(storage) == [FindingCode.UNREADABLE_OFFSET]
    metadata = OPERATOR.replace(b'tions":2', b'tions":2000000000')
    storage.write("state/0/_metadata/metadata", [metadata])
    assert FindingCode.UNREADABLE_METADATA in codes(storage)


def test_a_stray_partition_does_not_invent_others(storage: MemoryStorage) -> None:
    storage.write("state/0/99999999/1.delta", [b""])
    found = scan(storage)
    assert [one.id.partition for one in found.stores] == [0, 1]
    assert [(one.code, one.path) for one in found.findings] == [
        (FindingCode.UNUSED_STORE, "state/0/99999999")
    ]
    assert [one.path for one in found.unclassified] == ["state/0/99999999/1.delta"]


def test_an_operator_without_a_key_has_one_partition() -> None:
    storage = write_checkpoint(MemoryStorage(), last=3, partitions=1)
    storage.write("state/0/_metadata/metadata", [OPERATOR])
    assert [one.id.partition for one in scan(storage).stores] == [0]


def test_a_store_that_a_sibling_has_is_expected_everywhere() -> None:
    storage = write_checkpoint(MemoryStorage(), last=1, stores=["one", "other"])
    storage.write("state/0/1/third/1.delta", [b""])
    assert len(scan(storage).stores) == 6


def test_a_join_has_four_stores_in_each_partition() -> None:
    storage = write_checkpoint(MemoryStorage(), last=1, stores=JOIN[1:])
    assert [one.id.store for one in scan(storage).stores if not one.files] == [JOIN[0]] * 2


@pytest.mark.parametrize("content", [b"", b"v1\n{", b"garbage", b"\xff"])
def test_a_commit_that_cannot_be_read_is_a_finding(storage: MemoryStorage, content: bytes) -> None:
    storage.write("commits/4", [content], overwrite=True)
    assert codes(storage) == [FindingCode.UNREADABLE_COMMIT]
    assert "commits/4" in scan(storage).findings[0].detail


def test_an_offset_entry_that_cannot_be_read_is_a_finding(storage: MemoryStorage) -> None:
    storage.write("offsets/4", [b"v1\n{"], overwrite=True)
    assert codes(storage) == [FindingCode.UNREADABLE_OFFSET]


def test_commits_without_offsets_leave_codec_and_provider_unknown(storage: MemoryStorage) -> None:
    for batch in (3, 4):
        storage.delete(f"offsets/{batch}")
    assert codes(storage) == [FindingCode.UNREADABLE_OFFSET]


@pytest.mark.parametrize("path", ["state/0/_metadata/metadata", "state/0/0/_metadata/schema"])
def test_metadata_that_cannot_be_read_is_a_finding(storage: MemoryStorage, path: str) -> None:
    storage.write(path, [b"v1\n{"])
    assert codes(storage) == [FindingCode.UNREADABLE_METADATA]


def test_a_schema_of_a_store_that_the_query_does_not_have_is_no_damage() -> None:
    """A real Spark 4.3 restarts such a join with right rows, HDFS-backed and with RocksDB."""
    storage = write_checkpoint(MemoryStorage(), last=5, batches=(3, 4), stores=JOIN)
    before = scan(storage)
    storage.write(path := "state/0/0/_metadata/schema", [b"left by somebody"])
    found = scan(storage)
    assert {one.id for one in found.stores} == {one.id for one in before.stores}
    assert [(one.code, one.path) for one in found.findings] == [(FindingCode.UNKNOWN_FILE, path)]
    assert not any(one.damage for one in found.findings)
    assert plan_repair(storage).repairs == ()


def test_a_query_id_that_cannot_be_read_is_a_finding(storage: MemoryStorage) -> None:
    storage.write("metadata", [b"{"], overwrite=True)
    assert codes(storage) == [FindingCode.UNREADABLE_METADATA]


def test_nothing_committed_is_said() -> None:
    storage = write_checkpoint(MemoryStorage(), last=1, batches=())
    storage.write("offsets/0", [offsets_bytes()])
    found = scan(storage)
    assert [one.code for one in found.findings] == [FindingCode.NO_COMMITTED_BATCH]
    assert found.target is None


def test_what_is_not_pinned_is_sparks_default(storage: MemoryStorage) -> None:
    storage.write("offsets/4", [b'v1\n{"conf":{}}'], overwrite=True)
    assert (scan(storage).codec, scan(storage).row_checksums) == ("lz4", False)


@pytest.mark.parametrize(
    ("pinned", "codec"),
    [
        ("lz4", "lz4"),
        ("LZF", "lzf"),
        ("snappy", "snappy"),
        ("org.apache.spark.io.ZStdCompressionCodec", "zstd"),
    ],
)
def test_the_codec_has_its_short_name(storage: MemoryStorage, pinned: str, codec: str) -> None:
    storage.write("offsets/4", [offsets_bytes(codec=pinned)], overwrite=True)
    assert scan(storage).codec == codec


@pytest.mark.parametrize(
    ("pinned", "found"), [("true", True), ("TRUE", True), (" true", True), ("False", False)]
)
def test_row_checksums_are_as_pinned(storage: MemoryStorage, pinned: str, *, found: bool) -> None:
    storage.write("offsets/4", [offsets_bytes({ROW_CHECKSUMS: pinned})], overwrite=True)
    assert scan(storage).row_checksums is found
    assert scan(storage).findings == ()


@pytest.mark.parametrize("pinned", ["", "1", "yes"])
def test_a_row_checksum_setting_that_cannot_be_is_a_finding(
    storage: MemoryStorage, pinned: str
) -> None:
    storage.write("offsets/4", [offsets_bytes({ROW_CHECKSUMS: pinned})], overwrite=True)
    assert codes(storage) == [FindingCode.UNREADABLE_OFFSET]
    assert f"rowChecksum.enabled cannot be {pinned!r}" in scan(storage).findings[0].detail


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"codec": "gzip"},
            "stateStore.compression.codec=gzip is not supported, only lz4, lzf, snappy, zstd;",
        ),
        ({"codec": "org.apache.spark.io.OtherCodec"}, "OtherCodec is not supported"),
        ({"providerClass": "a.b.OtherProvider"}, "state store provider OtherProvider"),
    ],
)
def test_what_is_not_supported_is_named(
    storage: MemoryStorage, changes: dict[str, str], text: str
) -> None:
    storage.write("offsets/4", [offsets_bytes(changes)], overwrite=True)
    with pytest.raises(UnsupportedError, match=text):
        scan(storage)


def test_the_newest_offset_entry_decides(storage: MemoryStorage) -> None:
    storage.write("offsets/10", [offsets_bytes(codec="zstd", row_checksums=True)])
    found = scan(storage)
    assert (found.codec, found.row_checksums) == ("zstd", True)


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, "it is empty or does not exist: a query that is started here begins with its first"),
        ({"data/part-0.parquet": b""}, "it has neither offsets/ nor commits/ nor state/ nor the f"),
        ({"metadata": b"no"}, "it has neither"),
    ],
)
def test_another_folder_is_no_checkpoint(files: dict[str, bytes], why: str) -> None:
    with pytest.raises(NotACheckpointError, match=why):
        scan(MemoryStorage(files))


def test_an_incomplete_listing_stops_the_scan(storage: MemoryStorage) -> None:
    class Failing(MemoryStorage):
        def list(self, prefix: str):  # type: ignore[no-untyped-def]
            if prefix == "state":
                yield from list(storage.list(prefix))[:3]
                raise StorageError(prefix, "connection reset")
            yield from storage.list(prefix)

    with pytest.raises(StorageError, match="connection reset"):
        scan(Failing(storage.files))


def test_a_commit_that_was_purged_meanwhile_is_no_finding(storage: MemoryStorage) -> None:
    def purge(verb: str, _path: str) -> None:
        if verb == "read":
            storage.delete("commits/3")

    assert scan(HookedStorage(storage, before=purge)).findings == ()


ATTESTATION = Attestation("state/0/0/5.snapshot", 5, 10, 1.5, "ab", 2, 30, 6, 0)


def test_reads_the_attestations_of_a_store(storage: MemoryStorage) -> None:
    entry = storage.write("state/0/0/5.snapshot", [b"snapshot"])
    proof = replace(ATTESTATION, size=entry.size, modified=entry.modified, tag=entry.tag)
    storage.write(attestation_path(StoreId(0, 0)), [render_attestations(StoreNotes((proof,)))])
    assert scan(storage).stores[0].attestations == (proof,)
    assert scan(storage).stores[1].attestations == ()


def test_reads_no_attestations_of_stores_that_nobody_asked_for(storage: MemoryStorage) -> None:
    for partition in (0, 1):
        content = render_attestations(StoreNotes((ATTESTATION,)))
        storage.write(attestation_path(StoreId(0, partition)), [content])
    before = Counter(storage.requests)
    whole = scan(storage)
    mine, theirs = (one.id for one in whole.stores[:2])
    both = Counter(storage.requests)
    found = scan(storage, lambda store: store == mine)
    one = Counter(storage.requests) - both
    assert found.stores == whole.stores[:1]
    assert (whole.left_out, found.left_out) == (0, len(whole.stores) - 1)
    assert (both - before)["read"] - one["read"] == 1
    assert theirs != mine


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"format": 2, "attestations": [{}]}',
        b"[]",
        b'{"format":1,"attestations":[{"path":1}]}',
        b"[" * 100_000,
    ],
)
def test_attestations_that_cannot_be_read_do_not_exist(content: bytes) -> None:
    assert parse_attestations(content) == StoreNotes()


@pytest.mark.parametrize(
    "change",
    [
        {"path": 1},
        {"version": "5"},
        {"version": None},
        {"size": 1.5},
        {"modified": "1"},
        {"digest": None},
        {"more": 1},
    ],
)
def test_an_attestation_of_other_types_does_not_exist(change: dict[str, object]) -> None:
    stored = json.loads(render_attestations(StoreNotes((ATTESTATION,))))
    stored["attestations"][0] |= change
    assert parse_attestations(json.dumps(stored).encode()) == StoreNotes()


@pytest.mark.parametrize("modified", [None, 1.5, 7, math.inf])
def test_an_attestation_is_read_as_it_was_written(modified: float | None) -> None:
    attestation = replace(ATTESTATION, modified=modified)
    assert parse_attestations(render_attestations(StoreNotes((attestation,)))) == StoreNotes(
        (attestation,)
    )


def test_what_we_wrote_and_since_when_is_read_as_it_was_written() -> None:
    paths = ("state/0/0/9.snapshot", "state/0/0/10.zip", f"state/0/0/11_{UUID}.zip")
    assert parse_attestations(render_attestations(StoreNotes((), paths, 9))) == StoreNotes(
        (), paths, 9
    )
    stored = json.loads(render_attestations(StoreNotes((), paths, 9)))
    for since in ("9", 9.0, True):
        assert parse_attestations(json.dumps({**stored, "since": since}).encode()) == StoreNotes()
    del stored["since"]
    assert parse_attestations(json.dumps(stored).encode()) == StoreNotes((), paths)


def test_an_unknown_file_in_a_store_is_kept_in_its_store(storage: MemoryStorage) -> None:
    storage.write("state/0/0/foo.bar", [b""])
    assert any(isinstance(one, UnknownFile) for one in scan(storage).stores[0].files)
