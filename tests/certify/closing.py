"""How a schedule ends: what is wrong is found and repaired, then maintenance has nothing to do."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from statemaint.model.findings import Finding, FindingCode
from statemaint.model.policy import Policy
from tests.certify.alarms import Excuse, excuse, old_log, wrong_files
from tests.certify.files import spot
from tests.certify.judge import Loss
from tests.certify.maintainer import ON, Maintainer
from tests.certify.troubles import mend
from tests.certify.verdicts import Verdicts

if TYPE_CHECKING:
    from tests.certify.stage import Stage

_LEASE = 61.0


def settle(stage: "Stage", policy: Policy, *, repairs: bool = False) -> None:
    """Lets everything come to rest; then maintenance must end, and have done its work (S15).

    Raises:
        Loss: when it does not, or when somebody calls a wrong state healthy.
    """
    for maintainer in list(stage.paused):
        stage.resume(maintainer, ON)
    stage.end_tasks(ON)
    mend(stage)
    stage.end_pins()
    stage.query.late.clear()
    stage.step(f"all is quiet: {policy}")
    stage.world.clock += 1000.0
    stage.world.skew = 0.0
    _repaired(stage, policy, repairs=repairs)
    stage.operator.heal()
    stage.query.finish()
    if any(stage.certificate.wrong()) or any(stage.certificate.broken.values()):
        stage.tally["left broken by others"] += 1
        return
    _old_logs_moved(stage)
    found = _ends(stage, policy)
    if found and FindingCode.LOG_REPLACED in found:
        for _ in range(stage.setting.habits.retain + policy.min_batches_to_retain + 1):
            stage.query.finish()  # what is in doubt stays until the log has moved past it
        _old_logs_moved(stage)  # without changelogs the query has passed more of the old ones
        found = _ends(stage, policy)
    if found is None:
        return
    for directory in stage.stores:
        _rested(stage, directory, policy)


def _old_logs_moved(stage: "Stage") -> None:
    """Moves the log of before a rewind away that lies beside zips: a halted store keeps both.

    Whoever does that moves all of it, also where a repair has moved the zips.
    """
    stores = [store for store in stage.stores if any(old_log(stage, store))]
    wrong = (path for store in stores for path in wrong_files(stage, store))
    if old := [path for path in wrong if (one := spot(path)) and one.kind == "delta"]:
        stage.step(f"{old} are moved away")
        stage.tally["left beside an old log"] += 1
        stage.world.change(dict.fromkeys(old))


def _repaired(stage: "Stage", policy: Policy, *, repairs: bool) -> None:
    """Whatever is wrong is found, or gone, once maintenance was there."""
    if not stage.certificate.harmed:
        return
    stage.world.clock += policy.grace + policy.orphan_age + _LEASE
    last = Maintainer(stage.world, stage.doer(policy), stage.tally)
    last.start(ON)
    stage.after(last)
    if repairs:
        stage.repair(ON)
    Verdicts(stage).agree(policy)
    if last.report and not last.report.exit_code and not repairs:
        _maintained(stage)


def _maintained(stage: "Stage") -> None:
    """A run that found nothing leaves no bad snapshot of ours that Spark begins with."""
    for directory, version, read in stage.certificate.wrong():
        base = read.base
        if not base or stage.operator.right(base):
            continue
        if stage.deeds.stale(base) or _garbled(stage, directory, base):
            raise Loss(
                f"S6: maintenance ends well, and version {version} of {directory} still begins "
                f"with {base}, which was stored wrong or is made of files that are others by now"
            )


def _garbled(stage: "Stage", directory: str, base: str) -> bool:
    """Returns whether the storage has garbled the newest snapshot, ours, and the log tells so."""
    live, one = stage.world.index.live[directory].values(), spot(base)
    if one is None or stage.world.files[base].content not in stage.certificate.garbled:
        return False
    if base in stage.deeds.forgotten:
        return False  # a frozen run replaced the note that the snapshot is ours with its own view
    changes = {each.version for each in live if each.kind == "delta"}
    starts = {0, *(each.version for each in live if each.kind == "snapshot")}
    if any(one.version < start <= stage.query.target for start in starts):
        return False  # the run that wrote it has said so, and a restart begins with the newest
    below = (start for start in starts if start < one.version)
    return any(changes >= set(range(start + 1, one.version + 1)) for start in below)


def _ends(stage: "Stage", policy: Policy) -> set[FindingCode] | None:
    """Runs maintenance until it has nothing more to do, and returns what it finds.

    `None` where it rightly waits for an operator.
    """
    for _ in range(3):
        stage.world.clock += policy.grace + policy.orphan_age + _LEASE
        last = Maintainer(stage.world, stage.doer(policy), stage.tally)
        last.start(ON)
        stage.after(last)
        if last.report and last.report.exit_code and _waits(stage, last.report.findings):
            return None
        if last.report is None or last.report.exit_code:
            found = last.report.findings if last.report else last.error
            raise Loss(f"S15: maintenance does not recover: {found}")
    if last.report and last.report.plan.actions:
        left = last.report.plan.actions
        raise Loss(f"S15: a third run still wants to do {len(left)}, the first is {left[0]}")
    return {one.code for one in last.report.findings} if last.report else set()


def _waits(stage: "Stage", findings: Iterable[Finding]) -> bool:
    """Returns whether maintenance rightly waits for an operator, and counts why.

    An undo of a rollback was killed, and the query was then taken back by hand; or executors have
    deleted a version that is still retained, below a snapshot that came late.
    """
    damage = tuple(one for one in findings if one.damage)
    try:
        why = excuse(stage, damage)
    except LookupError:
        return False
    unfinished = {one.code for one in damage} == {FindingCode.UNFINISHED_ROLLBACK}
    stage.tally["left with an unfinished rollback"] += unfinished
    stage.tally["left undercut by executors"] += why is Excuse.UNDERCUT
    return unfinished or why is Excuse.UNDERCUT


def _rested(stage: "Stage", directory: str, policy: Policy) -> None:
    if stage.setting.habits.rocks:
        return  # what executors may still need stays
    store, target = stage.world.store(directory), stage.query.target
    floor = max(1, min(stage.query.required, target - policy.min_batches_to_retain))
    live = stage.world.index.live[directory].values()
    snapshots = [one.version for one in live if one.kind == "snapshot"]
    base = max((one for one in snapshots if one <= floor), default=0)
    left = [name for name in store if _number(name) < base and f"{directory}/{name}" not in
            stage.deeds.foreign]  # fmt: skip
    if left:
        raise Loss(f"S15: {left} of {directory} stay for ever")
    newest = max((one for one in snapshots if one <= target), default=0)
    if target - newest > policy.min_deltas_for_snapshot:
        raise Loss(f"S15: version {target} of {directory} stays without a snapshot")
    for name in store:
        if name.endswith(".tmp") and _number(name) <= target:
            raise Loss(f"S15: {directory}/{name} stays for ever")


def _number(name: str) -> int:
    stem = name.lstrip(".").partition(".")[0]
    return int(stem) if stem.isdecimal() else 1 << 60
