"""What must hold among rows, and how it is found when it does not."""

from collections.abc import Iterable
from io import BytesIO

import pytest

from statemaint.audit import verify
from statemaint.audit.row_rules import check_rows
from statemaint.codec.compression import base as compression
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.hdfs import records
from statemaint.codec.rocksdb import changelog
from statemaint.codec.rocksdb.changelog import DELETE, PUT
from statemaint.fold import Source
from statemaint.fold.state import opened_state
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.model.findings import Finding, FindingCode
from statemaint.planning import scan_checkpoint
from statemaint.storage import MemoryStorage, Storage
from tests.checkpoints.archive import contents

LZ4 = COMPRESSIONS["lz4"]
SHUFFLED = (
    ("4.3.0", "aggregation1"),
    ("4.3.0", "aggregation2"),
    ("4.3.0", "aggregation2-rowchecksum"),
    ("4.3.0", "dedup"),
    ("4.3.0", "session-window"),
    ("4.3.0", "join2"),
    ("4.3.0", "pandas-state"),
    ("3.5.9", "session-window"),
    ("3.5.9", "join1"),
    ("rocks-4.3.0", "rocks-aggregation"),
    ("rocks-4.3.0", "rocks-session-window"),
    ("rocks-4.3.0", "rocks-join2"),
    ("rocks-4.3.0", "rocks-join3"),
    ("rocks-4.3.0", "rocks-join4"),
    ("rocks-4.3.0", "rocks-rowchecksum"),
    ("rocks-4.3.0", "rocks-timed"),
    ("rocks-4.3.0", "rocks-expiring"),
    ("rocks-3.5.9", "rocks-session-window"),
)
JOINS = (
    ("4.3.0", "join1", "left-keyWithIndexToValue"),
    ("4.3.0", "join2", "left-keyWithIndexToValue"),
    ("4.3.0", "join2", "right-keyToNumValues"),
    ("3.3.4", "join2", "left-keyToNumValues"),
    ("rocks-4.3.0", "rocks-join2", "left-keyWithIndexToValue"),
    ("rocks-4.3.0", "rocks-join3", "left-keyWithIndexToValue"),
    ("rocks-4.3.0", "rocks-join3", "right-keyToNumValues"),
    ("rocks-4.3.0", "rocks-join4", "left-tsWithKey"),
    ("rocks-4.3.0", "rocks-join4", "right-keyWithTsToValues"),
)


def of_rows(storage: MemoryStorage) -> list[Finding]:
    return list(check_rows(storage, scan_checkpoint(storage)))


@pytest.mark.parametrize(("archive", "kind"), SHUFFLED)
def test_files_that_were_swapped_between_partitions_are_found(archive: str, kind: str) -> None:
    files = contents(archive)[kind]
    assert of_rows(MemoryStorage(files)) == []
    swapped = MemoryStorage({exchanged(path): content for path, content in files.items()})
    found = of_rows(swapped)
    assert {one.code for one in found} == {FindingCode.WRONG_PARTITION}
    assert {one.store.partition for one in found if one.store} == {0, 1}
    assert FindingCode.WRONG_PARTITION in {one.code for one in verify(swapped, deep=True).findings}
    assert verify(swapped).healthy, "only a deep look reads the rows"


def test_a_share_of_the_partitions_knows_how_many_there_are() -> None:
    storage = MemoryStorage(contents("4.3.0")["aggregation2"])
    for number in (1, 2):
        assert verify(storage, deep=True, sample=(number, 2)).findings == ()


def test_with_unique_ids_swapped_files_are_other_attempts() -> None:
    files = contents("rocks-4.3.0")["rocks-aggregation-ids"]
    swapped = MemoryStorage({exchanged(path): content for path, content in files.items()})
    assert {one.code for one in verify(swapped).findings} >= {FindingCode.LINEAGE_BROKEN}


def exchanged(path: str) -> str:
    """Where a file of the state of partition 0 or 1 would be, were it the other's."""
    parts = path.split("/")
    if len(parts) > 3 and parts[0] == "state" and "_metadata" not in parts:
        parts[2] = {"0": "1", "1": "0"}.get(parts[2], parts[2])
    return "/".join(parts)


@pytest.mark.parametrize(("archive", "kind", "lost"), JOINS)
def test_a_row_that_only_one_store_of_a_join_has_lost_is_found(
    archive: str, kind: str, lost: str
) -> None:
    storage = MemoryStorage(contents(archive)[kind])
    partition = remove_one(storage, lost)
    (found,) = of_rows(storage)
    assert found.code is FindingCode.JOIN_MISMATCH
    assert found.store is not None
    assert found.store.partition == partition
    assert f"{lost.partition('-')[0]} side of the join" in found.detail
    deep = verify(storage, deep=True)
    assert [one.code for one in deep.findings] == [FindingCode.JOIN_MISMATCH]


def remove_one(storage: Storage, name: str) -> int:
    """Removes the first row of a store, or of a column family, with its newest changes."""
    checkpoint = scan_checkpoint(storage)
    for store in checkpoint.stores:
        chain = store.versions.chain(checkpoint.target or 0)
        assert isinstance(chain, Chain)
        source = Source.of(storage, store, checkpoint)
        with opened_state(source, store, chain) as state:
            numbers = {family: number for number, family in state.families.items()}
            rows = [key for key, _ in state.rows if mine(key, store, name, numbers)]
        if rows:
            rewrite(storage, chain.paths[-1], rows[0])
            return store.id.partition
    raise AssertionError(f"no row of {name}")


def mine(key: bytes, store: Store, name: str, numbers: dict[str, int]) -> bool:
    if name in numbers:
        return int.from_bytes(key[:2], "little") == numbers[name]
    return store.id.store == name


def rewrite(storage: Storage, path: str, key: bytes, value: bytes | None = None) -> None:
    """Adds a row, or the removal of one, to a file of changes."""
    payload = compression.decode(LZ4, BytesIO(storage.read(path)))
    if path.endswith(".delta"):
        changed: Iterable[bytes] = records.encode([*records.decode(payload), (key, value)])
    else:
        header, found = changelog.decode(payload)
        changed = changelog.encode(header, [*found, (DELETE if value is None else PUT, key, value)])
    storage.write(path, compression.encode(LZ4, changed), overwrite=True)
    folder, _, file = path.rpartition("/")
    storage.delete(f"{folder}/.{file}.crc")


def test_queries_from_before_spark_3_3_may_be_shuffled_otherwise() -> None:
    files = contents("4.3.0")["aggregation2"]
    swapped = MemoryStorage({exchanged(path): content for path, content in files.items()})
    newest = max(
        (path for path in files if path.startswith("offsets/")), key=lambda at: int(at[8:])
    )
    strict, lax = b'useStrictDistribution":"true"', b'useStrictDistribution":"false"'
    assert strict in files[newest]
    swapped.write(newest, [files[newest].replace(strict, lax)], overwrite=True)
    assert of_rows(swapped) == []


def test_what_was_not_read_is_not_missed() -> None:
    """A damaged store of a join says so itself, and nothing of its sisters."""
    storage = MemoryStorage(contents("4.3.0")["join2"])
    path = "state/0/0/left-keyToNumValues/3.delta"
    storage.write(path, [b"nothing of the kind"], overwrite=True)
    assert of_rows(storage) == []


@pytest.mark.parametrize(
    ("archive", "kind"),
    [
        ("4.3.0", "join2"),
        ("4.3.0", "session-window"),
        ("rocks-4.3.0", "rocks-session-window"),
    ],
)
@pytest.mark.parametrize("key", [b"", b"x", bytes(7), bytes(5) + b"\xff" * 30])
def test_a_row_that_is_none_is_damage_and_no_traceback(archive: str, kind: str, key: bytes) -> None:
    storage = MemoryStorage(contents(archive)[kind])
    add(storage, key)
    codes = {one.code for one in of_rows(storage)}
    assert codes
    assert codes <= {FindingCode.CORRUPT_FILE, FindingCode.WRONG_PARTITION}
    assert not verify(storage, deep=True).healthy


def add(storage: MemoryStorage, key: bytes) -> None:
    """Puts a row of such a key into the newest changes of the first store."""
    checkpoint = scan_checkpoint(storage)
    chain = checkpoint.stores[0].versions.chain(checkpoint.target or 0)
    assert isinstance(chain, Chain)
    rewrite(storage, chain.paths[-1], key, b"some value")


def test_an_operator_whose_rule_is_not_known_is_left_alone() -> None:
    files = contents("4.3.0")["limit"]
    assert of_rows(MemoryStorage({exchanged(path): one for path, one in files.items()})) == []
