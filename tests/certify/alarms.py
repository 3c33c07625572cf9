"""When an alarm is false: something is called damaged, and nothing is.

Each finding of damage is held against the files: that something was wrong once explains nothing.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

from statemaint.model.findings import Finding, FindingCode
from tests.certify.rocks_query import RocksQuery

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
_OF_OFFSETS = {FindingCode.MISSING_OFFSET, FindingCode.UNREADABLE_OFFSET}
_TORN = (FindingCode.BROKEN_CHAIN, FindingCode.LINEAGE_BROKEN)
_ROLLBACK = "/manifest/rollback.jsonl"


class Excuse(StrEnum):
    """Why a verdict is not judged: these reasons, and no others."""

    LATE_TASK = "a late task wrote the rows of a log file again in another order"
    OVERTAKEN = "a run that a rewind overtook wrote a snapshot of the log of before"
    UNDERCUT = "an executor cleaned up below a snapshot that came late"
    OVER = "what was wrong when a run of maintenance looked is wrong no more"
    SHALLOW = "the verb does not look that deep, and one that does finds it"
    CONSISTENT = "the state is wrong, and all files that are left agree with it"
    OPEN = "an operator has left the query, and what would show it is lost"
    TRACELESS = "no file of a store is left, nor anything that names it"


def excuse(stage: "Stage", findings: tuple[Finding, ...], *, late: bool = False) -> Excuse | None:
    """Returns why an alarm is not judged; `None` where all that it says is true.

    Args:
        stage: where it was raised.
        findings: what was found.
        late: whether it is of a run that has changed something since it looked.

    Raises:
        LookupError: when the alarm is false.
    """
    false = [one for one in findings if one.damage and not _is_true(stage, one)]
    if not false:
        return None
    if {one.code for one in false} == {FindingCode.LOG_REPLACED}:
        if stage.tally["zombies"]:
            return Excuse.LATE_TASK  # nothing tells it from files that changed places
        if stage.certificate.overtaken:
            return Excuse.OVERTAKEN  # which is younger than the log of now, and right
    if stage.undercut and all(_lost(stage, one) for one in false):
        return Excuse.UNDERCUT
    if all(_may_have_left(one, findings) for one in false) and any(stage.certificate.wrong()):
        return Excuse.OPEN
    if late and (stage.tainted or stage.tally["files lost"]):
        return Excuse.OVER
    raise LookupError(false)


def _may_have_left(finding: Finding, findings: tuple[Finding, ...]) -> bool:
    """Returns whether it is said beside a finding that its operator may have left the query."""
    said = {one.path for one in findings if one.code is FindingCode.UNDECLARED_OPERATOR}
    return finding.store is not None and f"state/{finding.store.operator}" in said


def _lost(stage: "Stage", finding: Finding) -> bool:
    """Returns whether a version does not load: maybe an executor deleted the log below it."""
    if finding.code not in _TORN or not finding.store or not finding.version:
        return False
    store, version = finding.store.directory, finding.version
    return stage.query.loader.load(store, [version])[version].state is None


def _is_true(stage: "Stage", finding: Finding) -> bool:
    """Returns whether what a finding names is wrong in the files as they are."""
    world, target = stage.world, stage.query.target
    if finding.code in _OF_OFFSETS:
        return _lacks_offsets(stage)
    if finding.code is FindingCode.UNFINISHED_ROLLBACK:
        return any(path.endswith(_ROLLBACK) for path in world.index.under("_statemaint/trash/"))
    if finding.store is None or finding.store.directory not in stage.stores:
        return False
    store = finding.store.directory
    if finding.code is FindingCode.SNAPSHOT_ABOVE_TARGET:
        live = world.index.live[store].values()
        return any(one.kind == "snapshot" and one.version > target for one in live)
    if finding.code is FindingCode.LOG_REPLACED and finding.path in stage.operator.originals:
        return not stage.operator._landed(finding.path) or any(wrong_files(stage, store))
    return any(wrong_files(stage, store))


def _lacks_offsets(stage: "Stage") -> bool:
    """Returns whether a committed batch has no offsets, or the newest one's predecessor.

    A restart reads both of these: who takes a query back to the oldest batch has lost the second.
    """
    files, commits = stage.world.files, stage.query.commits
    read = {one for one in (*commits, *(one - 1 for one in commits[-1:])) if one >= 0}
    there = any(path[8:].isdecimal() for path in stage.world.index.under("offsets/"))
    return not there or any(f"offsets/{one}" not in files for one in read)


def old_log(stage: "Stage", store: str) -> Iterator[str]:
    """Yields the log of before a rewind that a query has left beside zips, which it wrote instead.

    Both stay until somebody moves the log away: it cannot be told from one that is true.
    """
    query, live = stage.query, stage.world.index.live[store]
    if not isinstance(query, RocksQuery) or not stage.tally["changelogs switched"]:
        return
    zips = (path for path, one in live.items() if one.kind == "snapshot" and query.is_theirs(path))
    right = {live[path].version for path in zips if stage.operator.right(path)}
    for path in wrong_files(stage, store):
        if (one := live.get(path)) and one.kind == "delta" and one.version in right:
            yield path


def wrong_files(stage: "Stage", store: str) -> Iterator[str]:
    """Yields what is wrong in a store: a retained version, or a file that disagrees with it."""
    query, certificate = stage.query, stage.certificate
    yield from (f"version {version}" for one, version, _ in certificate.wrong() if one == store)
    truth = query.truth[store]
    for path, one in stage.world.index.live[store].items():
        if certificate._is_bad(path) or (one.kind == "snapshot" and stage.deeds.stale(path)):
            yield path
        elif (
            one.version <= query.target and one.version < len(truth) and not stage.deeds._dead(path)
        ):
            if one.kind == "snapshot":
                if not stage.operator.right(path):
                    yield path
            elif not query.loader._unspoiled(path):
                yield path
            else:
                content = stage.world.files[path].content
                if query.states.step(truth[one.version - 1], content) != truth[one.version]:
                    yield path
