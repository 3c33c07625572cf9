"""What a store of RocksDB knows of column families, of attempts, and of zips beside a batch."""

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from statemaint.model.chain import Chain, Unnamed
from statemaint.model.checkpoint import Store
from statemaint.model.findings import FindingCode
from statemaint.plan.findings.health import diagnose
from tests.support.checkpoints import STORE
from tests.support.rocks import rocks_checkpoint, rocks_store

ZIP, CHANGE = f"{STORE.directory}/1.zip", f"{STORE.directory}/2.changelog"


def store(families: dict[str, dict[str, int]], notation: str = "1c 1z:a 2c 3c sa") -> Store:
    """Returns a store whose second version changes the family 4."""
    found = rocks_store(notation)
    assert found.rocks is not None
    rocks = replace(found.rocks, families=families, used={CHANGE: frozenset({4})})
    return replace(found, rocks=rocks)


def test_a_version_needs_a_zip_that_names_its_families() -> None:
    versions = store({ZIP: {"default": 1}}).versions
    unnamed = versions.chain(3)
    assert isinstance(unnamed, Unnamed)
    assert unnamed.why == f"{CHANGE} uses column family 4, which {ZIP} does not name"
    assert versions.loadable(1, 3) == {1}
    assert isinstance(store({ZIP: {"default": 1, "more": 4}}).versions.chain(3), Chain)


def test_of_a_zip_that_cannot_be_read_it_is_unknown_what_it_names() -> None:
    assert store({}).versions.loadable(1, 3) == {1, 2, 3}


@pytest.mark.parametrize(
    ("notation", "rebuilt", "loadable"),
    [
        ("1c 1z:a 2c 3c sa", {1: {1, 4}}, {1}),  # that zip is still there
        ("1c 1z:a 2c 3c sa", {2: {1, 4}}, {1, 2, 3}),
        ("1c 1z:a 2c 3c sa", {3: {1, 4}}, {1}),
        ("1c 2c 3c", {1: {1, 4}}, {1, 2, 3}),
    ],
)
def test_a_zip_that_will_be_written_again_names_families_from_its_version_on(
    notation: str, rebuilt: Mapping[int, Collection[int]], loadable: set[int]
) -> None:
    found = store({ZIP: {"default": 1}}, notation)
    assert found.rocks is not None
    names = {version: frozenset(numbers) for version, numbers in rebuilt.items()}
    versions = replace(found, rocks=replace(found.rocks, rebuilt=names)).versions
    assert versions.loadable(1, 3) == loadable
    assert isinstance(versions.chain(3), Chain) is (3 in loadable)


@pytest.mark.parametrize(("version", "zip_"), [(1, 1), (2, 3), (4, 3)])
def test_a_version_has_the_families_of_the_nearest_zip_that_names_all_in_use(
    version: int, zip_: int
) -> None:
    found = rocks_store("1z:a 2c 3z:a 4c 5z:a sa")
    assert found.rocks is not None
    families = {
        1: {"default": 1},
        3: {"default": 1, "more": 4},
        5: {"default": 1, "more": 4, "other": 5},
    }
    used = {2: {1, 4}, 4: {9}}
    rocks = replace(
        found.rocks,
        families={f"{STORE.directory}/{one}.zip": named for one, named in families.items()},
        used={f"{STORE.directory}/{one}.changelog": frozenset(of) for one, of in used.items()},
    )
    named_by = replace(found, rocks=rocks).families_at(version)
    assert named_by == found.versions.snapshots[zip_]


@pytest.mark.parametrize(
    ("ids", "plain", "dead"), [({7: "y", 8: "q"}, 0, [8]), ({7: "q", 8: "z"}, 3, [3, 7])]
)
def test_an_attempt_is_dead_only_where_the_id_that_counts_is_known(
    ids: dict[int, str], plain: int, dead: list[int]
) -> None:
    found = rocks_store("3_xz:a 7_yz:a 8_zz:a sa", ids=ids, plain=plain)
    assert found.rocks is not None
    assert [one.version for one in found.theirs if found.rocks.is_dead(one)] == dead


def test_the_zip_of_the_next_batch_is_normal_once_changelogs_are_off() -> None:
    def codes(notation: str) -> set[FindingCode]:
        found = rocks_store(notation)
        return {one.code for one in diagnose(found, rocks_checkpoint(found, batches=range(3)))}

    assert FindingCode.SNAPSHOT_ABOVE_TARGET not in codes("1c 2c 3z:a 4z:a sa")
    assert FindingCode.SNAPSHOT_ABOVE_TARGET in codes("1c 2c 3c 4z:a sa")
    assert FindingCode.SNAPSHOT_ABOVE_TARGET in codes("1c 2c 3z:a 4c 4z:a sa")
