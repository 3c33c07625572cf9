"""What a store of RocksDB knows of column families, of attempts, and of zips beside a batch."""

from dataclasses import replace

from statemaint.model.chain import Chain, Unnamed
from statemaint.model.checkpoint import Store
from statemaint.model.findings import FindingCode
from statemaint.plan.findings.health import diagnose
from tests.support.checkpoints import STORE
from tests.support.rocks import rocks_checkpoint, rocks_store

ZIP, CHANGE = f"{STORE.directory}/1.zip", f"{STORE.directory}/2.changelog"


def store(families: dict[str, dict[str, int]]) -> Store:
    """Returns a store whose second version changes the family 4."""
    found = rocks_store("1c 1z:a 2c 3c sa")
    assert found.rocks is not None
    rocks = replace(found.rocks, families=families, used={CHANGE: frozenset({4})})
    return replace(found, rocks=rocks)


def test_a_version_needs_a_zip_that_names_its_families() -> None:
    versions = store({ZIP: {"default": 1}}).versions
    assert isinstance(versions.chain(3), Unnamed)
    assert versions.loadable(1, 3) == {1}
    assert isinstance(store({ZIP: {"default": 1, "more": 4}}).versions.chain(3), Chain)


def test_of_a_zip_that_cannot_be_read_it_is_unknown_what_it_names() -> None:
    assert store({}).versions.loadable(1, 3) == {1, 2, 3}


def test_an_attempt_is_not_dead_where_no_commit_is_left_to_name_it() -> None:
    found = rocks_store("3_xz:a 7_yz:a 8_zz:a sa", ids={7: "y", 8: "q"})
    assert found.rocks is not None
    dead = [one.version for one in found.theirs if found.rocks.is_dead(one)]
    assert dead == [8]


def test_the_zip_of_the_next_batch_is_normal_once_changelogs_are_off() -> None:
    def codes(notation: str) -> set[FindingCode]:
        found = rocks_store(notation)
        return {one.code for one in diagnose(found, rocks_checkpoint(found, batches=range(3)))}

    assert FindingCode.SNAPSHOT_ABOVE_TARGET not in codes("1c 2c 3z:a 4z:a sa")
    assert FindingCode.SNAPSHOT_ABOVE_TARGET in codes("1c 2c 3c 4z:a sa")
    assert FindingCode.SNAPSHOT_ABOVE_TARGET in codes("1c 2c 3z:a 4c 4z:a sa")
