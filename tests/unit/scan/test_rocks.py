"""What a scan learns of stores of RocksDB."""

import json

import pytest

from statemaint.audit import verify
from statemaint.codec.rocksdb import snapshot_zip
from statemaint.codec.rocksdb.snapshot_zip import ImmutableFile, ZipMetadata
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Provider
from statemaint.model.files import (
    ROCKS_NAMES,
    ChecksumFile,
    Delta,
    Snapshot,
    SstFile,
    TempFile,
    UnknownFile,
    checksum_file_of,
    snapshot_version,
)
from statemaint.model.findings import FindingCode
from statemaint.model.ids import StoreId
from statemaint.plan.findings.health import diagnose
from statemaint.recover import plan_repair
from statemaint.scan.scanner import scan
from statemaint.storage import MemoryStorage
from tests.checkpoints.archive import contents
from tests.support.checkpoints import UUID
from tests.support.faults import HookedStorage, on
from tests.support.rocks import (
    changelog_bytes,
    commit_bytes,
    rocks_changes,
    unique_id,
    write_rocks_checkpoint,
)

STORE = StoreId(0, 0)
SST = f"000008-{UUID}.sst"


def entry(name: str) -> Entry:
    return Entry(f"state/0/3/{name}", 1, 0.0)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("12.changelog", Delta(12, entry("12.changelog"))),
        ("12.zip", Snapshot(12, entry("12.zip"))),
        (f"7_{UUID}.zip", Snapshot(7, entry(f"7_{UUID}.zip"), UUID)),
        (f"7_{UUID}.changelog", Delta(7, entry(f"7_{UUID}.changelog"), UUID)),
        (SST, SstFile(entry(SST))),
        (f"000009-{UUID}.log", SstFile(entry(f"000009-{UUID}.log"))),
        (".7.zip.crc", ChecksumFile(7, "state/0/3/7.zip", entry(".7.zip.crc"))),
        ("7.zip.crc", ChecksumFile(7, "state/0/3/7.zip", entry("7.zip.crc"))),
        (f".{SST}.crc", ChecksumFile(0, f"state/0/3/{SST}", entry(f".{SST}.crc"))),
        (f".7.zip.{UUID}.tmp", TempFile(7, entry(f".7.zip.{UUID}.tmp"))),
        (f".{SST}.{UUID}.tmp", TempFile(0, entry(f".{SST}.{UUID}.tmp"))),
        *((name, UnknownFile(entry(name))) for name in (
            "7.delta", "7.snapshot", "7_backup.zip", "07.zip", "0.zip", "-7.zip", "7_A.zip",
            f"7_{UUID}", "000008.sst", f"x-{UUID}.sst", f"8-{UUID}.sst.bak", "7.zip\n", "CURRENT",
        )),
    ],
)  # fmt: skip
def test_files_are_told_apart_by_name(name: str, file: object) -> None:
    assert ROCKS_NAMES.classify(entry(name)) == file


def test_versions_and_checksum_files_are_known_without_the_provider() -> None:
    assert snapshot_version(f"state/0/0/7_{UUID}.zip") == snapshot_version("7.snapshot") == 7
    assert snapshot_version("7.changelog") is snapshot_version(SST) is None
    for owner in ("7.zip", "7.delta", SST):
        found = checksum_file_of(entry(f".{owner}.crc"))
        assert found is not None
        assert found.owner == f"state/0/3/{owner}"
    assert checksum_file_of(entry("7.zip")) is None


def test_tables_are_part_of_their_store_and_of_no_other() -> None:
    storage = write_rocks_checkpoint(MemoryStorage(), last=3, batches=range(3), partitions=1)
    for path in (f"SSTs/{SST}", SST, "SSTs/5.zip", f"logs/{SST}", "SSTs/foo.bar"):
        storage.write(f"state/0/0/{path}", [b"x"])
    (store,) = scan(storage).stores
    assert store.id == STORE
    shared = [one.entry.path for one in store.files if isinstance(one, SstFile)]
    assert shared == [f"state/0/0/SSTs/{SST}"]
    unknown = [one.entry.path for one in store.files if isinstance(one, UnknownFile)]
    assert unknown == [
        f"state/0/0/{SST}",
        "state/0/0/SSTs/5.zip",
        "state/0/0/SSTs/foo.bar",
        f"state/0/0/logs/{SST}",
    ]


def test_a_named_store_has_tables_of_its_own() -> None:
    storage = write_rocks_checkpoint(MemoryStorage(), last=2, batches=range(2), partitions=1)
    for path, content in list(storage.files.items()):
        if path.startswith("state/0/0/"):
            storage.write(path.replace("0/0/", "0/0/special/"), [content])
            storage.delete(path)
    storage.write(f"state/0/0/special/SSTs/{SST}", [b"x"])
    (store,) = scan(storage).stores
    assert store.id == StoreId(0, 0, "special")
    assert len(store.files) == 3


# -- zips


def put_zip(storage: MemoryStorage, name: str, *tables: tuple[str, int]) -> None:
    ssts = tuple(ImmutableFile(f"{number:06}.sst", *one) for number, one in enumerate(tables))
    content = snapshot_zip.render({"CURRENT": b"x"}, ZipMetadata(ssts, keys=0))
    storage.write(f"state/0/0/{name}", [content])


@pytest.fixture
def storage() -> MemoryStorage:
    return write_rocks_checkpoint(MemoryStorage(), last=9, batches=range(5, 9), partitions=1)


def codes(found: Checkpoint) -> list[FindingCode]:
    (store,) = found.stores
    return [one.code for one in diagnose(store, found)]


def test_a_zip_is_read_for_what_it_refers_to(storage: MemoryStorage) -> None:
    put_zip(storage, "5.zip", (SST, 3))
    storage.write(f"state/0/0/SSTs/{SST}", [b"abc"])
    found = scan(storage)
    assert found.provider is Provider.ROCKSDB
    (store,) = found.stores
    assert store.rocks is not None
    assert store.rocks.parts == {"state/0/0/5.zip": {f"state/0/0/SSTs/{SST}": 3}}
    assert store.rocks.unsound == {}
    chain = store.versions.chain(9)
    assert isinstance(chain, Chain)
    assert [path.rpartition("/")[2] for path in chain.paths] == [
        "5.zip", "6.changelog", "7.changelog", "8.changelog", "9.changelog",
    ]  # fmt: skip
    assert codes(found) == []


@pytest.mark.parametrize(
    ("stored", "text"),
    [(None, "which does not exist"), (b"ab", "which has another size")],
)
def test_a_zip_without_its_table_is_missed_where_it_counts(
    storage: MemoryStorage, stored: bytes | None, text: str
) -> None:
    put_zip(storage, "6.zip", (SST, 3))
    if stored:
        storage.write(f"state/0/0/SSTs/{SST}", [stored])
    found = scan(storage)
    assert codes(found) == [FindingCode.MISSING_SST]
    (finding,) = diagnose(found.stores[0], found)
    assert f"state/0/0/6.zip needs state/0/0/SSTs/{SST}, {text}" in finding.detail
    assert finding.version == 6


SWEPT = "an executor that is killed in the middle of its clean-up leaves this"


def test_a_zip_that_spark_was_about_to_delete_is_said_to_be_one(storage: MemoryStorage) -> None:
    """The commit log has versions 6 to 9: of the zips, executors keep the newest up to 7."""
    put_zip(storage, "6.zip", (SST, 3))
    put_zip(storage, "7.zip")
    put_zip(storage, "9.zip")
    found = scan(storage)
    (finding,) = diagnose(found.stores[0], found)
    assert finding.code is FindingCode.MISSING_SST
    assert finding.damage
    assert f"Spark keeps nothing below version 7: {SWEPT}" in finding.detail


@pytest.mark.parametrize("kept", ["8.zip", "5.zip"])
def test_a_zip_that_spark_keeps_was_not_about_to_go(storage: MemoryStorage, kept: str) -> None:
    put_zip(storage, "6.zip", (SST, 3))
    put_zip(storage, kept)
    found = scan(storage)
    (finding,) = diagnose(found.stores[0], found)
    assert finding.code is FindingCode.MISSING_SST
    assert SWEPT not in finding.detail


def test_a_zip_that_cannot_be_read_is_damage_where_it_counts(storage: MemoryStorage) -> None:
    storage.write("state/0/0/7.zip", [b"PK"])
    found = scan(storage)
    assert codes(found) == [FindingCode.CORRUPT_FILE]
    assert found.stores[0].rocks is not None
    assert found.stores[0].rocks.unreadable == {"state/0/0/7.zip"}


@pytest.mark.parametrize("name", ["5.zip", "6_x.changelog"])
def test_what_goes_while_we_look_is_not_there(name: str) -> None:
    storage = write_rocks_checkpoint(HookedStorage(), last=9, partitions=1, with_ids=True)
    if name == "5.zip":
        put_zip(storage, name)
    gone = f"state/0/0/{name}".replace("6_x", f"9_{unique_id(STORE, 9)}")
    storage.before = on("read", gone, lambda: storage.delete(gone))
    (store,) = scan(storage).stores
    assert gone not in storage.files
    assert gone not in [file.entry.path for file in store.files]


# -- unique ids


@pytest.fixture
def with_ids() -> MemoryStorage:
    found = MemoryStorage()
    write_rocks_checkpoint(found, last=9, batches=range(5, 9), partitions=1, with_ids=True)
    return found


def lineage(first: int, last: int) -> tuple[tuple[int, str], ...]:
    return tuple((version, unique_id(STORE, version)) for version in range(first, last + 1))


def path(version: int, attempt: int = 0, kind: str = "changelog") -> str:
    return f"state/0/0/{version}_{unique_id(STORE, version, attempt)}.{kind}"


def test_one_changelog_says_which_attempts_count(with_ids: MemoryStorage) -> None:
    with_ids.write(path(4, 1), [b"of an attempt that failed"])
    found = scan(with_ids)
    (store,) = found.stores
    assert store.rocks is not None
    assert store.rocks.ids == dict(lineage(1, 9))
    assert sorted(store.versions.deltas) == list(range(1, 10))
    assert store.versions.deltas[4].id == unique_id(STORE, 4)
    assert codes(found) == []
    # The newest alone was read: its lineage goes back to the first.
    assert with_ids.requests["read"] == 1 + 4 + 1 + 1  # metadata, commits, newest offset


def test_a_lineage_is_followed_from_changelog_to_changelog(with_ids: MemoryStorage) -> None:
    for version in (7, 8, 9):
        content = changelog_bytes(rocks_changes(version), lineage=lineage(6, version - 1))
        with_ids.write(path(version), [content], overwrite=True)
    (store,) = scan(with_ids).stores
    assert store.rocks is not None
    assert store.rocks.ids == dict(lineage(1, 9))


@pytest.mark.parametrize("deep", [False, True])
def test_a_changelog_under_the_name_of_another_one_does_not_load(
    with_ids: MemoryStorage, *, deep: bool
) -> None:
    """The newest says what came before all of them; Spark asks each version's own."""
    first, second = (with_ids.files[path(version)] for version in (6, 7))
    with_ids.write(path(6), [second], overwrite=True)
    with_ids.write(path(7), [first], overwrite=True)
    found = verify(with_ids, deep=deep)
    assert {one.path for one in found.findings if one.damage} == {path(6), path(7)}
    assert {one.code for one in found.findings} == {FindingCode.LINEAGE_BROKEN}
    plan = plan_repair(with_ids)
    assert plan.actions == ()
    assert {one.path for one in plan.findings if one.damage} == {path(6), path(7)}
    with_ids.write(path(6), [first], overwrite=True)
    with_ids.write(path(7), [second], overwrite=True)
    assert verify(with_ids, deep=deep).healthy


def test_an_id_that_no_file_has_breaks_the_lineage(with_ids: MemoryStorage) -> None:
    with_ids.delete(path(9))
    found = scan(with_ids)
    assert FindingCode.LINEAGE_BROKEN in codes(found)
    (finding,) = found.stores[0].findings
    assert "it has neither a zip nor a changelog" in finding.detail


def test_a_changelog_that_is_gone_breaks_the_lineage(with_ids: MemoryStorage) -> None:
    with_ids.delete(path(7))
    found = scan(with_ids)
    assert set(codes(found)) == {FindingCode.LINEAGE_BROKEN}


def test_a_lineage_that_cannot_be_read_breaks_it(with_ids: MemoryStorage) -> None:
    with_ids.write(path(9), [b"LZ4Block"], overwrite=True)
    found = scan(with_ids)
    assert FindingCode.LINEAGE_BROKEN in codes(found)
    assert path(9) in found.stores[0].findings[0].detail


def test_commits_and_lineage_must_agree(with_ids: MemoryStorage) -> None:
    ids = {"0": [[unique_id(STORE, 8, 1)]]}
    with_ids.write("commits/7", [commit_bytes(ids)], overwrite=True)
    with_ids.write(path(8, 1), [changelog_bytes([], lineage=lineage(1, 7))])
    found = scan(with_ids)
    (finding,) = found.stores[0].findings
    assert finding.code is FindingCode.LINEAGE_BROKEN
    assert finding.version == 8
    assert "the newest commit's lineage names" in finding.detail


def test_a_commit_without_the_ids_of_a_store_names_what_nobody_has(
    with_ids: MemoryStorage,
) -> None:
    with_ids.write("commits/8", [commit_bytes({"0": []})], overwrite=True)
    assert FindingCode.LINEAGE_BROKEN in codes(scan(with_ids))


def switched(storage: MemoryStorage, since: int) -> None:
    """Makes the versions before `since` ones without ids, as Spark's older structure has them."""
    for version in range(1, since):
        storage.write(f"state/0/0/{version}.changelog", [changelog_bytes(rocks_changes(version))])
        storage.delete(path(version))
        if f"commits/{version - 1}" in storage.files:
            storage.write(f"commits/{version - 1}", [commit_bytes()], overwrite=True)
    for version in range(since, 10):
        content = changelog_bytes(rocks_changes(version), lineage=lineage(since, version - 1))
        storage.write(path(version), [content], overwrite=True)


def test_after_a_switch_to_unique_ids_older_versions_have_none(with_ids: MemoryStorage) -> None:
    switched(with_ids, 8)
    put_name = path(8, kind="zip").removeprefix("state/0/0/")
    put_zip(with_ids, put_name)
    found = scan(with_ids)
    (store,) = found.stores
    assert store.rocks is not None
    assert (store.rocks.ids, store.rocks.plain) == (dict(lineage(8, 9)), 7)
    assert codes(found) == []
    chain = store.versions.chain(7)
    assert isinstance(chain, Chain)
    assert [delta.id for delta in chain.deltas] == [None] * 7


def test_without_a_commit_from_before_the_switch_nothing_is_believed_of_it(
    with_ids: MemoryStorage,
) -> None:
    switched(with_ids, 6)
    put_zip(with_ids, path(6, kind="zip").removeprefix("state/0/0/"))
    (store,) = scan(with_ids).stores
    assert store.rocks is not None
    assert (store.rocks.ids, store.rocks.plain) == (dict(lineage(6, 9)), 0)


def test_operator_metadata_is_the_newest_that_a_batch_wrote(storage: MemoryStorage) -> None:
    def metadata(partitions: int) -> bytes:
        stores = [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": partitions}]
        info = {"operatorId": 0, "operatorName": "transformWithStateExec"}
        return f"v2\n{json.dumps({'operatorInfo': info, 'stateStoreInfo': stores})}".encode()

    storage.write("state/0/_metadata/v2/0", [metadata(1)])
    storage.write("state/0/_metadata/v2/10", [metadata(3)])
    storage.write("state/0/_metadata/v2/9", [metadata(2)])
    assert [one.partitions for one in scan(storage).operators] == [3]


@pytest.mark.parametrize("kind", ["rocks-timed", "rocks-timed-ids", "rocks-join4"])
def test_a_scan_knows_the_versions_that_were_the_first_with_their_families(kind: str) -> None:
    for store in scan(MemoryStorage(contents("rocks-4.3.0")[kind])).stores:
        assert store.rocks is not None
        assert store.rocks.evolved == {1}
        (first,) = (path for path in store.rocks.parts if snapshot_version(path) == 1)
        assert len(store.rocks.families[first]) > 1


def test_a_store_without_families_has_no_such_version() -> None:
    for store in scan(MemoryStorage(contents("rocks-4.3.0")["rocks-aggregation"])).stores:
        assert store.rocks is not None
        assert store.rocks.evolved == frozenset()
