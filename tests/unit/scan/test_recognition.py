"""The provider and the codec of state whose offset log is lost, from its files."""

from collections.abc import Callable

import pytest

from statemaint.audit import doctor, verify
from statemaint.cli.doctor import lines
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.maintain import maintain
from statemaint.model.checkpoint import Provider
from statemaint.model.policy import Policy
from statemaint.planning import plan_checkpoint, scan_checkpoint
from statemaint.recover import plan_repair
from statemaint.scan.query_logs import provider_in
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import delta_bytes, drop, offsets_bytes, write_checkpoint
from tests.support.rocks import write_rocks_checkpoint

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=2, grace=0, orphan_age=0)
BOTH = "no readable entry of offsets/ names the provider, and state/ has files of both "


def lost_offsets(storage: MemoryStorage) -> MemoryStorage:
    drop(storage, "offsets")
    return storage


def with_zips() -> MemoryStorage:
    storage = write_rocks_checkpoint(MemoryStorage(), last=10, batches=range(10))
    assert maintain(storage, Policy(min_deltas_for_snapshot=3, grace=0)).exit_code == 0
    assert any("/SSTs/" in path for path in storage.files)
    return storage


def with_ids() -> MemoryStorage:
    return write_rocks_checkpoint(MemoryStorage(), with_ids=True)


@pytest.mark.parametrize("make", [with_zips, with_ids])
def test_rocksdb_whose_offsets_are_lost_is_recognized_by_its_files(
    make: Callable[[], MemoryStorage],
) -> None:
    storage = make()
    whole = scan_checkpoint(storage)
    found = scan_checkpoint(lost_offsets(storage))
    assert found.provider is Provider.ROCKSDB
    assert [one.id for one in found.stores] == [one.id for one in whole.stores]
    assert [one.files for one in found.stores] == [one.files for one in whole.stores]
    damage = [one for one in verify(storage, deep=True).findings if one.damage]
    assert [(one.code.value, one.path) for one in damage] == [("UNREADABLE_OFFSET", "offsets")]


@pytest.mark.parametrize("make", [with_zips, with_ids])
def test_only_the_logs_are_to_be_put_back(make: Callable[[], MemoryStorage]) -> None:
    storage = lost_offsets(make())
    diagnosis = doctor(storage, deep=True)
    assert not diagnosis.restarts
    assert diagnosis.goes_back_to is None
    assert diagnosis.next == (
        "put these log entries back from a copy",
        "this cannot be repaired from the remaining files: restore offsets from a copy",
    )
    before = dict(storage.files)
    assert maintain(storage, TIGHT).exit_code == 3
    assert plan_repair(storage).actions == ()
    assert {path: storage.files.get(path) for path in before} == before


def test_files_of_both_providers_leave_it_unknown_and_untouched() -> None:
    storage = lost_offsets(with_zips())
    storage.write("state/0/0/5.delta", [delta_bytes([])])
    before = dict(storage.files)
    found = scan_checkpoint(storage)
    assert (found.provider, found.stores) == (Provider.UNKNOWN, ())
    codes = {one.code.value for one in found.findings}
    assert codes == {"UNREADABLE_OFFSET"}, "no file is called one that Spark does not write"
    assert any(one.detail.startswith(BOTH) for one in found.findings)
    diagnosis = doctor(storage)
    assert (diagnosis.restarts, diagnosis.loadable) == (False, ())
    assert diagnosis.unseen == ("every store, as the provider is unknown",)
    assert plan_checkpoint(storage, TIGHT)[1].actions == ()
    assert maintain(storage, TIGHT).exit_code == 3
    assert {path: storage.files.get(path) for path in before} == before


def test_an_entry_that_names_the_provider_outweighs_the_files() -> None:
    storage = write_checkpoint(MemoryStorage())
    storage.write("state/0/0/5.changelog", [b"left"])
    assert scan_checkpoint(storage).provider is Provider.HDFS_BACKED
    storage.write("offsets/24", [b"v1\n{}"], overwrite=True)
    assert scan_checkpoint(storage).provider is Provider.UNKNOWN
    storage.write("offsets/24", [b"garbled"], overwrite=True)
    assert scan_checkpoint(storage).provider is Provider.HDFS_BACKED, "an older entry names it"


def test_no_state_file_is_of_the_default_provider() -> None:
    assert provider_in(()) is Provider.HDFS_BACKED


@pytest.mark.parametrize("codec", COMPRESSIONS)
def test_the_codec_is_the_one_that_decodes_the_changes(codec: str) -> None:
    storage = write_checkpoint(MemoryStorage(), codec=codec)
    storage.write("state/0/0/2.delta", [b"?"], overwrite=True)
    assert scan_checkpoint(lost_offsets(storage)).codec == codec


def test_a_pinned_codec_is_not_guessed() -> None:
    storage = write_checkpoint(MemoryStorage(), codec="zstd")
    storage.write("offsets/24", [offsets_bytes(codec="lzf")], overwrite=True)
    assert scan_checkpoint(storage).codec == "lzf"


def test_doctor_prints_that_no_store_was_looked_at() -> None:
    storage = lost_offsets(with_zips())
    assert "batches:  0 to 9 load in every store" in [*lines(doctor(storage))]
    storage.write("state/0/0/5.delta", [delta_bytes([])])
    printed = [*lines(doctor(storage))]
    assert "batches:  unknown, as no store was looked at" in printed
    assert "looked:   the logs; unseen: every store, as the provider is unknown" in printed
