"""Reading everything back."""

import json

import google_crc32c
import pytest

from statemaint.audit import digest_stores, verify
from statemaint.audit.rebuild import Depth
from statemaint.audit.verify import verify_at
from statemaint.codec.integrity import checksum_file
from statemaint.errors import ConfigError, DamagedError
from statemaint.maintain import maintain
from statemaint.model.findings import FindingCode
from statemaint.model.policy import Policy
from statemaint.storage import MemoryStorage
from tests.matrix.test_damage import ROCKS, maintained, table
from tests.support.checkpoints import UUID, snapshot_bytes, state_at, write_checkpoint
from tests.support.faults import HookedStorage

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0)


@pytest.fixture
def storage() -> MemoryStorage:
    return write_checkpoint(MemoryStorage(), partitions=1)


def codes(storage: MemoryStorage, *, deep: bool = False) -> list[FindingCode]:
    return [one.code for one in verify(storage, deep=deep).findings]


def flip(storage: MemoryStorage, path: str) -> None:
    content = bytearray(storage.read(path))
    content[-30] ^= 1
    storage.write(path, [bytes(content)], overwrite=True)


def test_counts_every_retained_version(storage: MemoryStorage) -> None:
    assert verify(storage).versions_checked == 9
    maintain(storage, TIGHT)
    found = verify(storage, deep=True)
    assert (found.versions_checked, found.healthy, found.findings) == (9, True, ())


@pytest.mark.parametrize("depth", Depth)
@pytest.mark.parametrize(("snapshots", "passed"), [((), 3), ((24,), 5), ((22, 25), 7)])
def test_no_version_passes_above_a_damaged_change_up_to_the_next_snapshot(
    storage: MemoryStorage, depth: Depth, snapshots: tuple[int, ...], passed: int
) -> None:
    for version in snapshots:
        storage.write(f"state/0/0/{version}.snapshot", [snapshot_bytes(state_at(version))])
    storage.write("state/0/0/20.delta", [b"LZ4Block"], overwrite=True)
    found = verify_at(storage, depth)
    compared = bool(snapshots) and depth > Depth.HEADERS  # the one above needs the change
    assert found.versions_checked == passed - compared, "17 to 19, and from each snapshot on"
    of_change = [one for one in found.findings if one.code is FindingCode.CORRUPT_FILE]
    assert {one.path for one in of_change} == {"state/0/0/20.delta"}


def test_finds_a_snapshot_that_does_not_fit_its_deltas(storage: MemoryStorage) -> None:
    storage.write("state/0/0/20.snapshot", [snapshot_bytes(state_at(19))])
    assert codes(storage) == [], "it begins and ends well"
    assert codes(storage, deep=True) == [FindingCode.SNAPSHOT_MISMATCH]


def test_shares_are_together_all_partitions_and_each_is_whole() -> None:
    storage = write_checkpoint(MemoryStorage(), partitions=5)
    seen = [
        {one.id.partition for one in verify(storage, sample=(number, 3)).checkpoint.stores}
        for number in (1, 2, 3)
    ]
    assert seen == [{0, 3}, {1, 4}, {2}]
    for wrong in ((0, 3), (4, 3), (1, 0)):
        with pytest.raises(ConfigError, match="is not valid"):
            verify(storage, sample=wrong)


def test_a_share_finds_what_is_in_it() -> None:
    storage = write_checkpoint(MemoryStorage(), partitions=2)
    flip(storage, "state/0/1/20.delta")
    found = [[one.code for one in verify(storage, sample=(n, 2)).findings] for n in (1, 2)]
    assert found == [[], [FindingCode.CORRUPT_FILE]]


def test_a_wrong_snapshot_below_the_retained_versions_is_found_by_a_deep_look(
    storage: MemoryStorage,
) -> None:
    # Every retained version loads from it, and there is nothing above it to compare it with.
    storage.write("state/0/0/12.snapshot", [snapshot_bytes({b"poison": b""})])
    assert codes(storage) == []
    found = verify(storage, deep=True)
    assert [one.code for one in found.findings] == [FindingCode.SNAPSHOT_MISMATCH]


def test_a_wrong_snapshot_below_a_gap_in_the_log_is_found_by_a_deep_look(
    storage: MemoryStorage,
) -> None:
    storage.write("state/0/0/12.snapshot", [snapshot_bytes(state_at(12))])
    storage.delete("state/0/0/10.delta")
    storage.write("state/0/0/8.snapshot", [snapshot_bytes(state_at(7))])
    assert codes(storage) == []
    (found,) = verify(storage, deep=True).findings
    assert found.code is FindingCode.SNAPSHOT_MISMATCH
    assert found.batches == (), "no retained version loads from it"


def test_a_deep_look_counts_the_retained_versions_only(storage: MemoryStorage) -> None:
    storage.write("state/0/0/12.snapshot", [snapshot_bytes(state_at(12))])
    assert verify(storage, deep=True).versions_checked == 9
    storage.delete("state/0/0/1.delta")
    assert verify(storage, deep=True).versions_checked == 9


def test_finds_a_damaged_delta_of_a_retained_chain(storage: MemoryStorage) -> None:
    flip(storage, "state/0/0/3.delta")
    assert codes(storage) == [FindingCode.CORRUPT_FILE]


def test_a_damaged_file_that_nothing_needs_is_found_by_a_deep_look(storage: MemoryStorage) -> None:
    storage.write("state/0/0/12.snapshot", [snapshot_bytes(state_at(12))])
    flip(storage, "state/0/0/3.delta")
    assert codes(storage) == []
    assert codes(storage, deep=True) == [FindingCode.CORRUPT_FILE]
    flip(storage, "state/0/0/12.snapshot")
    assert set(codes(storage, deep=True)) == {FindingCode.CORRUPT_FILE}


def test_a_missing_delta_is_found_once(storage: MemoryStorage) -> None:
    storage.delete("state/0/0/20.delta")
    found = verify(storage)
    assert [one.code for one in found.findings] == [FindingCode.BROKEN_CHAIN]
    assert found.versions_checked == 3


def test_an_upload_that_was_cut_short_is_an_orphan_and_no_damage() -> None:
    """An executor that is killed leaves an empty table, and beside it Hadoop's empty checksum."""
    storage = MemoryStorage(dict(maintained(ROCKS)))
    folder = table(dict(storage.files)).rpartition("/")[0]
    name = "000529-ec2ff8d6-a61f-4dd3-86cb-375bbc65e4a5.sst"
    for path in (f"{folder}/{name}", f"{folder}/.{name}.crc"):
        storage.write(path, [b""])
    for deep in (False, True):
        found = verify(storage, deep=deep)
        assert found.healthy
        assert {one.code for one in found.findings} == {FindingCode.ORPHAN_FILE}


def test_names_orphans_without_calling_them_damage(storage: MemoryStorage) -> None:
    storage.write(f"state/0/0/.26.delta.{UUID}.tmp", [b""])
    storage.write("state/0/0/.7.snapshot.crc", [b""])
    found = verify(storage)
    assert [one.code for one in found.findings] == [FindingCode.ORPHAN_FILE] * 2
    assert found.healthy


def side_file(content: bytes) -> bytes:
    value = int.from_bytes(google_crc32c.value(content).to_bytes(4), signed=True)
    return json.dumps(
        {"algorithm": "CRC32C", "value": value, "mainFileSize": len(content)}
    ).encode()


def test_compares_both_kinds_of_checksum_files(storage: MemoryStorage) -> None:
    content = storage.read("state/0/0/20.delta")
    sparks = side_file(content)
    storage.write("state/0/0/.20.delta.crc", [checksum_file.hadoop(content)])
    storage.write("state/0/0/20.delta.crc", [sparks])
    storage.write("state/0/0/.20.delta.crc.crc", [checksum_file.hadoop(sparks)])
    assert codes(storage, deep=True) == []
    other = storage.read("state/0/0/21.delta")
    storage.write("state/0/0/.20.delta.crc", [checksum_file.hadoop(other)], overwrite=True)
    storage.write("state/0/0/20.delta.crc", [side_file(other)], overwrite=True)
    assert codes(storage) == [], "nothing is read whole that could be compared"
    assert codes(storage, deep=True) == [FindingCode.STALE_CHECKSUM] * 3


def test_a_malformed_checksum_file_is_damage(storage: MemoryStorage) -> None:
    storage.write("state/0/0/20.delta.crc", [b"{"])
    (found,) = verify(storage, deep=True).findings
    assert (found.code, found.path) == (FindingCode.STALE_CHECKSUM, "state/0/0/20.delta.crc")
    assert "cannot be read (not a Spark checksum file: " in found.detail
    assert found.batches[0] == 19


def test_a_file_that_goes_while_it_is_read_is_superseded(storage: MemoryStorage) -> None:
    def clean_up(verb: str, _path: str) -> None:
        if verb == "open":
            storage.delete("state/0/0/3.delta")

    cleaning = HookedStorage(storage, before=clean_up)
    assert codes(cleaning, deep=True) == [FindingCode.SUPERSEDED]


def test_before_the_first_commit_there_is_nothing_to_verify() -> None:
    storage = write_checkpoint(MemoryStorage(), last=1, batches=[0])
    storage.delete("commits/0")
    found = verify(storage)
    assert (found.versions_checked, found.healthy) == (0, True)
    assert [one.code for one in found.findings] == ["NO_COMMITTED_BATCH"]


def test_where_all_commits_are_gone_the_version_is_verified_that_a_restart_reads(
    storage: MemoryStorage,
) -> None:
    for batch in range(16, 25):
        storage.delete(f"commits/{batch}")
    found = verify(storage)
    assert (found.versions_checked, found.healthy) == (1, False)
    assert "MISSING_COMMIT" in {one.code for one in found.findings}
    with pytest.raises(ConfigError, match="no batch is committed"):
        digest_stores(storage)


def test_no_digest_of_a_damaged_checkpoint(storage: MemoryStorage) -> None:
    storage.write("commits/24", [b""], overwrite=True)
    with pytest.raises(DamagedError) as caught:
        digest_stores(storage)
    assert caught.value.code == "UNREADABLE_COMMIT"


def test_the_digest_is_of_the_version_that_is_asked_for(storage: MemoryStorage) -> None:
    version, [(_, found)] = digest_stores(storage, version=9)
    assert (version, found.rows) == (9, len(state_at(9)))
    with pytest.raises(ConfigError, match=r"version 26 is not committed; the newest is 25"):
        digest_stores(storage, version=26)


def looks(storage: MemoryStorage, folder: str) -> int:
    """Returns how often a verification lists a folder."""
    watched = HookedStorage(storage)
    verify(watched)
    return watched.paths("list").count(folder)


def test_a_healthy_checkpoint_is_scanned_once(storage: MemoryStorage) -> None:
    assert {looks(storage, folder) for folder in ("offsets", "commits", "state")} == {1}


@pytest.mark.parametrize("lost", ["state/0/0/20.delta", "commits/20", "offsets/24", "offsets/23"])
def test_a_damaged_checkpoint_is_scanned_twice_and_no_more(
    storage: MemoryStorage, lost: str
) -> None:
    if lost == "offsets/23":
        storage.replace(lost, [b"v1\n"])
    else:
        storage.delete(lost)
    assert not verify(storage).healthy
    assert looks(storage, "state") == 2
    logs = {looks(storage, folder) for folder in ("offsets", "commits")}
    assert logs == {4 if lost.startswith("state/") else 2}  # the query may have gone on meanwhile
