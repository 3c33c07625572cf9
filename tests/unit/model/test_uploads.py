"""What is noted of the snapshots that executors write."""

from statemaint.model.rocks import Upload, Uploads

NOTED = Uploads((Upload(3, "3.zip"), Upload(7, "7.zip")), 4)


def test_the_newest_below_a_version() -> None:
    assert [NOTED.before(version) for version in (3, 4, 7, 8)] == [None, 3, 3, 7]


def test_the_widest_gap_outlives_what_showed_it() -> None:
    later = NOTED.noting(Upload(9, "9.zip"), 2)
    assert (later.newest[-1], later.widest_gap) == (Upload(9, "9.zip"), 4)
    assert NOTED.noting(Upload(12, "12.zip"), 5).widest_gap == 5
