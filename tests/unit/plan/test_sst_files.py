"""Which zips Spark's clean-up keeps, and which one of ours would be in its way."""

import pytest

from statemaint.model.rocks import oldest_kept
from statemaint.plan.sst_files import _is_lowest, _Zips, overtakes
from tests.support.rocks import rocks_store, window


def zips(*versions: int, retained: int = 20) -> _Zips:
    return _Zips(frozenset(versions), frozenset(versions), retained)


@pytest.mark.parametrize(
    ("versions", "kept"),
    [((50, 57, 60, 64), 60), ((50, 57, 64), 57), ((59, 61, 64), 59), ((61, 64), 0), ((), 0)],
)
def test_a_clean_up_keeps_the_newest_zip_at_or_below_the_oldest_retained_version(
    versions: tuple[int, ...], kept: int
) -> None:
    assert oldest_kept(frozenset(versions), 64, 5) == kept


@pytest.mark.parametrize(("version", "lowest"), [(39, True), (40, False), (41, False)])
def test_the_lowest_zip_is_never_ours(version: int, *, lowest: bool) -> None:
    assert _is_lowest(zips(40, 50), version) is lowest
    assert not _is_lowest(zips(30, 40, 50), version)


def test_an_upload_counts_within_the_quiet_window() -> None:
    changes = " ".join(f"{version}c" for version in range(20, 51))
    store = rocks_store(f"{changes} 20z 30z", since=1)
    assert overtakes(store, 45, window(45, 49))
    assert not overtakes(store, 45, window(45, 50))


def test_only_clean_ups_to_come_matter() -> None:
    """A clean-up before 14.zip existed would have kept another zip."""
    changes = " ".join(f"{version}c" for version in range(1, 15))
    store = rocks_store(f"{changes} 2z 3z 6z 7z 9z 14z", written=["3.zip", "6.zip"])
    assert not overtakes(store, 14, window(8, 14))
