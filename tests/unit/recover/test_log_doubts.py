"""Whether a log or the snapshot that differs from it is wrong, by the times of files."""

from dataclasses import replace

import pytest

from statemaint.model.chain import Chain
from statemaint.recover.proofs import doubts_of
from tests.support.checkpoints import NOW, checkpoint, store
from tests.support.rocks import rocks_checkpoint, rocks_store


@pytest.mark.parametrize(
    ("planned", "doubted"),
    [(NOW - 60, True), (NOW - 100, False), (NOW - 200, False), (None, False)],
)
def test_a_changelog_older_than_its_offsets_may_be_of_an_earlier_run(
    planned: float | None, *, doubted: bool
) -> None:
    """A query that was taken back ran batch 1 again without changelogs: the zip is right."""
    found = rocks_store("1c@100 2c@100 2z@50")
    seen = replace(rocks_checkpoint(found, batches=range(2)), planned={0: NOW - 300, 1: planned})
    chain = found.versions.from_log(2, proved=())
    assert isinstance(chain, Chain)
    doubts = [*doubts_of(found, chain, found.versions.snapshots[2].entry, seen)]
    assert any("2.changelog is older than offsets/1" in one for one in doubts) is doubted


def test_each_batch_of_the_hdfs_backed_provider_writes_its_delta() -> None:
    found = store("1d 2d 2s")
    seen = replace(checkpoint(found, batches=range(2)), planned={0: NOW, 1: NOW})
    chain = found.versions.from_log(2, proved=())
    assert isinstance(chain, Chain)
    assert not [*doubts_of(found, chain, found.versions.snapshots[2].entry, seen)]
