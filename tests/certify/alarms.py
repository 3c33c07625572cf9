"""When an alarm is false: something is called damaged, and nothing is."""

from typing import TYPE_CHECKING

from statemaint.model.findings import Finding, FindingCode

if TYPE_CHECKING:
    from tests.certify.stage import Stage

OF_DAMAGE = {
    FindingCode.BROKEN_CHAIN,
    FindingCode.CORRUPT_FILE,
    FindingCode.SNAPSHOT_MISMATCH,
    FindingCode.UNREADABLE_COMMIT,
    FindingCode.UNREADABLE_OFFSET,
    FindingCode.MISSING_SST,
    FindingCode.LINEAGE_BROKEN,
    FindingCode.UNREADABLE_METADATA,
}


def may_be_true(stage: "Stage", findings: tuple[Finding, ...]) -> bool:
    """Returns whether something was ever wrong, or looks no different from what is."""
    return stage.tainted or _undercut(stage, findings) or _late(stage, findings)


def _late(stage: "Stage", findings: tuple[Finding, ...]) -> bool:
    """Returns whether all damage is a log in doubt, and a late task may have replaced it.

    It writes the same rows in another order, which nothing tells from two files that changed places
    as long as nobody reads the rows of each version.
    """
    codes = {one.code for one in findings if one.damage}
    return bool(stage.tally["zombies"]) and codes == {FindingCode.LOG_REPLACED}


def _undercut(stage: "Stage", findings: tuple[Finding, ...]) -> bool:
    """Returns whether all damage is a log that an executor has deleted from under a snapshot.

    A run that was paused, or an upload that comes late, then puts one below the gap, and the
    versions in it do not load.
    """
    found = [one for one in findings if one.damage]
    torn = (FindingCode.BROKEN_CHAIN, FindingCode.LINEAGE_BROKEN)
    broken = (one for one in found if one.code in torn)
    gaps = [(one.store.directory, one.version) for one in broken if one.store and one.version]
    load = stage.query.loader.load
    lost = (load(store, [version])[version].state is None for store, version in gaps)
    return stage.undercut and len(gaps) == len(found) and all(lost)
