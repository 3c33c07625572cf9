"""What the verbs that only look say of a checkpoint, held against what is true of it.

Every verdict is judged, or excused for a reason that is counted (`Excuse`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from statemaint.audit import doctor, verify
from statemaint.errors import CheckpointError, NotACheckpointError, StorageError
from statemaint.model.findings import Finding, FindingCode, damaged
from statemaint.model.policy import Policy
from statemaint.report.run import Report
from tests.certify.alarms import Excuse, excuse, old_log
from tests.certify.files import spot
from tests.certify.judge import Loss
from tests.certify.loading import Read
from tests.certify.maintainer import ON
from tests.certify.seat import Seat

if TYPE_CHECKING:
    from tests.certify.stage import Stage

# A notice, and yet no clean bill of health: the next maintenance takes the file away.
_POLICY = Policy()
_SAYS_SO = {"STALE_SNAPSHOT", "SNAPSHOT_ABOVE_TARGET"}
_Wrong = tuple[str, int, Read]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a verb says.

    Attributes:
        name: of the verb.
        findings: of it.
        restarts: whether the query restarts; `None` if the verb does not say.
    """

    name: str
    findings: tuple[Finding, ...]
    restarts: bool | None = None

    @property
    def healthy(self) -> bool:
        return not damaged(self.findings)


@dataclass(slots=True)
class Verdicts:
    """Asks every verb that only looks, and compares."""

    stage: "Stage"

    def ask(self) -> bool:
        """Asks them all; returns whether `verify --deep` calls the checkpoint healthy.

        Raises:
            Loss: when one of them calls a state healthy that is wrong, or a right one damaged.
        """
        stage = self.stage
        stage.step("somebody asks verify, verify --deep and doctor")
        seat = Seat(stage.world, stage.doer(_POLICY, "verify"), lambda _verb, _path: None)
        try:
            given = [look(seat) for look in _VERBS]
        except NotACheckpointError:
            return False
        except StorageError:
            trouble = stage.world.trouble
            if trouble is None or "read" not in trouble.verbs:
                raise
            stage.tally["verdicts that could not be given"] += 1  # and none was
            return False
        wrong, deepest = list(stage.certificate.wrong()), given[0]
        for verdict in given:
            stage.tally["verdicts"] += 1
            stage.tally["verdicts on a wrong state"] += bool(wrong)
            why = self._of(verdict, wrong, deepest)
            stage.tally[f"excused: {why}" if why else "verdicts that were judged"] += 1
        return deepest.healthy

    def agree(self, policy: Policy) -> None:
        """Asks all verbs; where `verify --deep` finds nothing, the next run must not halt."""
        stage = self.stage
        if not self.ask() or stage.paused or stage.world.garble or stage.world.trouble:
            return
        found = stage.maintain(policy, ON)
        stage.tally["runs after a healthy verdict"] += 1
        assert found
        halts = [one for one in found.report.findings if one.damage] if found.report else []
        if halts and all(map(self._by_old_log, halts)):
            stage.tally["halts at an old log"] += 1
            return
        if halts or isinstance(found.error, CheckpointError):
            raise Loss(f"verify --deep finds nothing, and maintain halts: {halts or found.error}")

    def _by_old_log(self, finding: Finding) -> bool:
        """Returns whether a run compared a zip with an old log below all retained versions."""
        if finding.code is not FindingCode.SNAPSHOT_MISMATCH or finding.store is None:
            return False
        zipped = spot(finding.detail.partition(":")[0])
        if zipped is None or zipped.version >= self.stage.query.required:
            return False
        old = map(spot, old_log(self.stage, finding.store.directory))
        return any(one and one.version <= zipped.version for one in old)

    def alarm(self, report: Report) -> None:
        """Judges the damage that a run of maintenance reports.

        Raises:
            Loss: when there is none.
        """
        stage = self.stage
        stage.tally["verdicts"] += 1
        try:
            why = excuse(stage, report.findings, late=True)
        except LookupError as false:
            raise Loss(f"S3: an alarm without damage: {false}") from None
        stage.tally[f"excused: {why}" if why else "verdicts that were judged"] += 1

    def whole_again(self) -> None:
        """Looks at what a repair that has ended had made impossible to load for a while.

        Raises:
            Loss: when it still does not load.
        """
        certificate = self.stage.certificate
        torn, certificate.torn = certificate.torn, set()
        for directory, version, read in certificate.wrong():
            is_torn = (directory, version) in torn and not certificate._garbled(read)
            if read.state is None and is_torn:
                raise Loss(f"S21: a repair has ended, and version {version} of {directory} does "
                           "not load, which did before")  # fmt: skip

    def _of(self, verdict: Verdict, wrong: list[_Wrong], deepest: Verdict) -> Excuse | None:
        if verdict.restarts:
            self._loads(verdict)
        if not verdict.healthy:
            try:
                return excuse(self.stage, verdict.findings)
            except LookupError as false:
                raise Loss(f"S3: {verdict.name} finds what is not there: {false}") from None
        if {one.code.value for one in verdict.findings} & _SAYS_SO:
            return None
        for directory, version, read in wrong:
            if why := next(self._seen(verdict, directory, version, read), None):
                how = "does not load" if read.state is None else "loads a wrong state"
                raise Loss(f"S21: {verdict.name} says that all is well, version {version} of "
                           f"{directory} {how}: {why}")  # fmt: skip
        return self._unseen(deepest) if wrong else None

    def _unseen(self, deepest: Verdict) -> Excuse:
        """Returns why nothing had to be seen of what is wrong."""
        if all(self._is_traceless(one) for one, *_ in self.stage.certificate.wrong()):
            return Excuse.TRACELESS
        return Excuse.CONSISTENT if deepest.healthy else Excuse.SHALLOW

    def _is_traceless(self, directory: str) -> bool:
        """Returns whether no file shows that there was a store: none of it, none that names it.

        Commits with unique ids name all stores; otherwise those of one operator have the same names
        in each partition, and our own record of a store names it.
        """
        under = self.stage.world.index.under
        if not under("state/"):
            return True
        operator, _, *name = directory.removeprefix("state/").split("/")
        if not name or self.stage.setting.habits.ids or under(f"state/{operator}/_metadata/"):
            return False
        alike = [
            one.removeprefix("state/") for one in self.stage.stores
            if one.startswith(f"state/{operator}/") and one.endswith(f"/{name[0]}")
        ]  # fmt: skip
        notes = "_statemaint/attestations"
        return not any(under(f"state/{one}/") or under(f"{notes}/{one}.json") for one in alike)

    def _is_said(self, verdict: Verdict, directory: str, version: int) -> bool:
        """Returns whether a verb says that a version is among the oldest, which are gone."""
        purged = (one for one in verdict.findings if one.code is FindingCode.PURGED_BY_SPARK)
        if not any(one.store and one.store.directory == directory for one in purged):
            return False
        query = self.stage.query
        reads = query.loader.load(directory, range(query.required, version + 1))
        return all(read.state is None for read in reads.values())

    def _loads(self, verdict: Verdict) -> None:
        """Raises when a restart would not load what it needs, which somebody said it would.

        Where no state is left, nothing shows that the query had any, and that must be said.
        """
        query, name = self.stage.query, verdict.name
        if query.target > 1 and not self.stage.world.index.under("state/"):
            if all(one.code is not FindingCode.NO_STATE for one in verdict.findings):
                raise Loss(f"S21: {name} says that the query restarts, and nothing of its state")
            return
        for directory in query.habits.stores if query.target else ():
            if self._is_traceless(directory):
                continue
            if query.loader.load(directory, [query.target])[query.target].state is None:
                raise Loss(f"S21: {name} says that the query restarts, and {directory} does not "
                           f"load")  # fmt: skip

    def _seen(self, verdict: Verdict, directory: str, version: int, read: Read) -> Iterator[str]:
        """Yields why a verb had to see that a version is wrong."""
        name, world = verdict.name, self.stage.world
        if self._is_traceless(directory) or self._is_said(verdict, directory, version):
            return
        if read.state is None:
            if name != "verify" or any(one not in world.files for one in read.files):
                yield "files are missing or broken"
            return
        if read.base and self.stage.deeds.stale(read.base, plainly=True):
            yield f"{read.base} was made of files that are others by now"
        if name == "verify":
            return
        yield from self._disagree(directory, version)

    def _disagree(self, directory: str, version: int) -> Iterator[str]:
        """Yields which changes and snapshots of one version say different things."""
        query, world = self.stage.query, self.stage.world
        live = world.index.live[directory]
        first = query.required
        reads = query.loader.load(directory, range(first, version + 1))
        for path, one in sorted(live.items()):
            before = reads.get(one.version - 1)
            if one.kind != "delta" or before is None or before.state is None:
                continue
            whole = reads.get(one.version)
            if (
                whole is None
                or whole.base is None
                or whole.paths
                or (one.id and one.id not in whole.base)
            ):
                continue
            made = query.states.step(before.state, world.files[path].content)
            if made is not None and made != whole.state:
                yield f"{path} and {whole.base} disagree"


def _verify(seat: Seat) -> Verdict:
    return Verdict("verify", verify(seat).findings)


def _deep(seat: Seat) -> Verdict:
    return Verdict("verify --deep", verify(seat, deep=True).findings)


def _doctor(seat: Seat) -> Verdict:
    found = doctor(seat)
    return Verdict("doctor", found.findings, found.restarts and not found.restarts_since)


_VERBS: tuple[Callable[[Seat], Verdict], ...] = (_deep, _verify, _doctor)
