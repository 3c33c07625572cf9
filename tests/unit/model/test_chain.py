"""Chains: what Spark would read for a version."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.model.chain import Chain, Gap, Versions, lone_checksum_files
from tests.support.checkpoints import files, names


def of(notation: str) -> Versions:
    return Versions.of(files(notation))


def read(notation: str, version: int) -> list[str]:
    chain = of(notation).chain(version)
    assert isinstance(chain, Chain)
    return names(chain.paths)


def test_starts_at_the_newest_snapshot() -> None:
    assert read("1d 2d 2s 3d 3s 4d 5d", 5) == ["3.snapshot", "4.delta", "5.delta"]


def test_starts_at_the_empty_state_without_a_snapshot() -> None:
    assert read("1d 2d 3d", 2) == ["1.delta", "2.delta"]


def test_a_snapshot_of_the_version_itself_is_all() -> None:
    assert read("1d 2d 3d 3s", 3) == ["3.snapshot"]


def test_a_snapshot_above_is_not_used() -> None:
    assert read("1d 2d 3d 3s", 2) == ["1.delta", "2.delta"]


def test_names_the_first_missing_delta() -> None:
    assert of("1d 2s 3d 6d").chain(6) == Gap(6, start=2, first=4, count=2)


@pytest.mark.parametrize(
    ("notation", "proved", "start"),
    [
        ("1d 2d 3d 3s 4d 5d", set(), 0),
        ("1d 2d 3d 3s 4d 5d", {3}, 3),
        ("1d 2d 2s 3d 3s 4d 5d", {2}, 2),
        ("1d 2d 2s 3d 3s 4d 4s 5d", {2, 3}, 3),
        ("2d 2s 3d 4d 4s 5d", set(), 2),
        ("2d 2s 4d 4s 5d", set(), 4),
        ("2d 2s 3d 5d 5s", {2}, None),
        ("5d 5s", set(), None),
        ("1d 2d 3d 4d 5d 5s", {5}, 0),
    ],
)
def test_a_fold_from_the_log_believes_as_little_as_possible(
    notation: str, proved: set[int], start: int | None
) -> None:
    found = of(notation).from_log(5, proved=proved)
    assert (found.start if found else None) == start
    if found:
        assert [delta.version for delta in found.deltas] == list(range(found.start + 1, 6))


def test_a_wild_version_costs_no_more_than_the_files() -> None:
    assert of("1d").chain(10**17) == Gap(10**17, start=0, first=2, count=10**17 - 1)
    assert of("1d").loadable(1, 10**17) == {1}


def test_a_hole_below_a_snapshot_does_no_harm() -> None:
    assert of("1d 3d 4s 5d").loadable(1, 9) == {1, 4, 5}


@given(
    st.sets(st.integers(1, 12)), st.sets(st.integers(1, 12)), st.integers(1, 12), st.integers(1, 12)
)
def test_loadable_says_what_chain_says(
    deltas: set[int], snapshots: set[int], first: int, last: int
) -> None:
    notation = " ".join([*(f"{one}d" for one in deltas), *(f"{one}s" for one in snapshots)])
    versions = of(notation)
    chains = {one for one in range(first, last + 1) if isinstance(versions.chain(one), Chain)}
    assert versions.loadable(first, last) == chains


def test_finds_side_files_whose_file_is_gone() -> None:
    assert names(side.entry.path for side in lone_checksum_files(files("1d 1c 2c 3k 3d"))) == [
        ".2.delta.crc",
        ".3.snapshot.crc",
    ]


def test_a_delta_of_the_base_s_own_version_closes_no_gap() -> None:
    assert of("1d 2d 2s 4d").chain(5) == Gap(5, start=2, first=3, count=2)


def test_a_chain_begins_a_longer_one_only() -> None:
    versions = of("1d 2d 2s 3d")
    two, three = versions.chain(2), versions.chain(3)
    assert isinstance(two, Chain)
    assert isinstance(three, Chain)
    assert [two.begins(two), two.begins(three), three.begins(two)] == [False, True, False]
