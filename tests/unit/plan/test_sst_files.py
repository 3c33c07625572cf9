"""Which zips Spark's clean-up keeps, and which one of ours would be in its way."""

import pytest

from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.model.rocks import oldest_kept
from statemaint.plan.sst_files import _is_lowest, _Zips, may_share, overtakes
from tests.support.checkpoints import store as hdfs_store
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


@pytest.mark.parametrize(
    ("store", "shares"),
    [
        (rocks_store("40z 50z 51c"), True),
        (rocks_store("40z 41c 60z"), False),  # its base is not the newest
        (rocks_store("1c 2c"), False),
        (hdfs_store("1s 2d"), False),
    ],
    ids=["the newest", "an older one", "no zip", "no zips"],
)
def test_a_zip_shares_tables_with_the_newest_zip_only(store: Store, *, shares: bool) -> None:
    newest = max(store.versions.deltas)
    chain = store.versions.chain(newest)
    assert isinstance(chain, Chain)
    assert may_share(store, chain) is shares


def test_an_upload_counts_within_the_quiet_window() -> None:
    changes = " ".join(f"{version}c" for version in range(20, 51))
    store = rocks_store(f"{changes} 20z 30z", since=1)
    assert overtakes(store, 45, window(45, 49))
    assert not overtakes(store, 45, window(45, 50))
    for newer, overtaken in ((40, False), (41, True)):  # at 60, when 38.zip would be kept
        two = rocks_store(f"{changes} 31z {newer}z", since=1)
        assert overtakes(two, 38, window(27, 38, 50)) is overtaken


def test_only_clean_ups_to_come_matter() -> None:
    """A clean-up before 14.zip existed would have kept another zip."""
    changes = " ".join(f"{version}c" for version in range(1, 15))
    store = rocks_store(f"{changes} 2z 3z 6z 7z 9z 14z", written=["3.zip", "6.zip"])
    assert not overtakes(store, 14, window(8, 14))
