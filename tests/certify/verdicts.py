"""What the verbs that only look say of a checkpoint, held against what is true of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from statemaint.audit import doctor, verify
from statemaint.errors import NotACheckpointError
from statemaint.model.findings import Finding, damaged
from statemaint.model.policy import Policy
from tests.certify.alarms import may_be_true
from tests.certify.judge import Loss
from tests.certify.loading import Read
from tests.certify.seat import Seat

if TYPE_CHECKING:
    from tests.certify.stage import Stage

# A notice, and yet no clean bill of health: the next maintenance takes the file away.
_POLICY = Policy()
_SAYS_SO = {"STALE_SNAPSHOT", "SNAPSHOT_ABOVE_TARGET"}


@dataclass(slots=True)
class Verdicts:
    """Asks every verb that only looks, and compares."""

    stage: "Stage"

    def ask(self) -> None:
        """Asks them all.

        Raises:
            Loss: when one of them calls a state healthy that is wrong, or a right one damaged.
        """
        stage = self.stage
        stage.step("somebody asks verify, verify --deep and doctor")
        seat = Seat(stage.world, stage.doer(_POLICY, "verify"), lambda _verb, _path: None)
        for name, look in _VERBS:
            try:
                findings = look(seat)
            except NotACheckpointError:
                continue
            stage.tally["verdicts"] += 1
            self._compare(name, findings)

    def _compare(self, name: str, findings: tuple[Finding, ...]) -> None:
        stage = self.stage
        wrong = list(stage.certificate.wrong())
        stage.tally["verdicts on a wrong state"] += bool(wrong)
        if damaged(findings):
            if not may_be_true(stage, findings):
                raise Loss(f"S3: {name} finds what is not there: {findings}")
            return
        if {one.code.value for one in findings} & _SAYS_SO:
            return
        for directory, version, read in wrong:
            if why := next(self._seen(name, directory, version, read), None):
                how = "does not load" if read.state is None else "loads a wrong state"
                raise Loss(f"S21: {name} says that all is well, version {version} of {directory} "
                           f"{how}: {why}")  # fmt: skip

    def _seen(self, name: str, directory: str, version: int, read: Read) -> Iterator[str]:
        """Yields why a verb had to see that a version is wrong."""
        world = self.stage.world
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


def _verify(seat: Seat) -> tuple[Finding, ...]:
    return verify(seat).findings


def _deep(seat: Seat) -> tuple[Finding, ...]:
    return verify(seat, deep=True).findings


def _doctor(seat: Seat) -> tuple[Finding, ...]:
    return doctor(seat).findings


_VERBS: tuple[tuple[str, Callable[[Seat], tuple[Finding, ...]]], ...] = (
    ("verify", _verify),
    ("verify --deep", _deep),
    ("doctor", _doctor),
)
