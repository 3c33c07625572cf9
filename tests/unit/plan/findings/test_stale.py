"""What the findings of replaced logs say, word by word."""

import pytest

from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.files import Snapshot
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.proof import Attestation, Outdated
from statemaint.plan.findings.health import edited_finding, replaced_finding, stale_finding
from statemaint.plan.staleness import Suspect
from tests.support.checkpoints import NOW, STORE, store

HOME = STORE.directory
SNAPSHOT = f"{HOME}/9.snapshot"
ONE = store("1d 2d 3d 4d 5d 6d 7d 8d 9d 9s")


@pytest.mark.parametrize(
    ("doubts", "names", "span"),
    [
        ((8,), "8.delta", "8"),
        ((7,), "7.delta", "7 to 8"),
        ((6, 7, 8), "6.delta, 7.delta, 8.delta", "6 to 8"),
        ((4, 5, 6, 7), "4.delta, 5.delta, 6.delta and 1 more", "4 to 8"),
        ((3, 4, 5, 6, 7), "3.delta, 4.delta, 5.delta and 2 more", "3 to 8"),
    ],
)
def test_a_replaced_log_names_three_files_and_the_versions_in_doubt(
    doubts: tuple[int, ...], names: str, span: str
) -> None:
    assert replaced_finding(ONE, SNAPSHOT, 9, doubts) == Finding(
        FindingCode.LOG_REPLACED,
        f"{HOME}: {names} replaced after {SNAPSHOT} was proved equal to the log, and not by the "
        f"query; the snapshot still agrees, but nothing shows whether version {span} is right. "
        "Restore the previous files from a copy",
        STORE,
        doubts[0],
        f"{HOME}/{doubts[0]}.delta",
    )


def test_an_edited_log_names_three_files() -> None:
    proof = Attestation(SNAPSHOT, 9, 1, NOW, digest="", rows=0, bytes=0)
    entries = tuple(Entry(f"{HOME}/{one}.delta", 1, NOW) for one in (6, 7, 8, 9))
    assert edited_finding(ONE, Outdated(proof, entries)) == Finding(
        FindingCode.LOG_REPLACED,
        f"{HOME}: 6.delta, 7.delta, 8.delta replaced after {SNAPSHOT} was proved from it, and not "
        "by the query; the snapshot counts, but the files below it are missing, and nothing shows "
        "whether other files of the log are unchanged. Restore the previous files from a copy",
        STORE,
        9,
        f"{HOME}/6.delta",
    )


@pytest.mark.parametrize(
    ("replaced", "were"),
    [
        ((7,), "version 7 was"),
        ((6, 7), "versions 6 to 7 were"),
        ((5, 6, 8), "versions 5 to 8 were"),
    ],
)
def test_a_stale_snapshot_says_from_when_on_a_restart_is_wrong(
    replaced: tuple[int, ...], were: str
) -> None:
    snapshot = Snapshot(9, Entry(SNAPSHOT, 100, NOW))
    chain = ONE.versions.chain(8)
    assert isinstance(chain, Chain)
    assert stale_finding(ONE, Suspect(snapshot, chain, replaced, by_query=True, why="")) == Finding(
        FindingCode.STALE_SNAPSHOT,
        f"{SNAPSHOT} is stale: {were} written again after it was proved, so a restart from version "
        "9 (batch 8) on loads the state from before the rewind; `statemaint maintain` moves it to "
        "the trash, the log has the state",
        STORE,
        9,
        SNAPSHOT,
    )
