"""Maintainers in a world with a live query: every step that a schedule may take."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random

from statemaint.execute.lease import SECONDS
from statemaint.maintain import undo
from statemaint.model.findings import FindingCode
from statemaint.model.policy import Policy
from statemaint.plan import Request
from statemaint.report import Report
from tests.certify.files import encode, split
from tests.certify.judge import Certificate, Loss, holder
from tests.certify.maintainer import HERE, ON, Halt, Maintainer
from tests.certify.query import Habits, Query
from tests.certify.world import Doer, Seat, World

# Findings that no undamaged checkpoint may ever give, however much moves meanwhile.
_FALSE = {FindingCode.BROKEN_CHAIN, FindingCode.CORRUPT_FILE, FindingCode.SNAPSHOT_MISMATCH,
          FindingCode.UNREADABLE_COMMIT, FindingCode.UNREADABLE_OFFSET,
          FindingCode.UNREADABLE_METADATA}  # fmt: skip
_EVERYTHING = Request()
_TRASH = "_statemaint/trash/"
# Where a maintainer has looked at its base for the last time before it deletes.
_RELYING = {"delete", "move", "linked"}


@dataclass(slots=True)
class Setting:
    """What differs from schedule to schedule.

    Attributes:
        local: whether files are written by temp file and rename.
        two: whether a second maintainer may start while the first is paused.
        lease: tells from the files which run holds the lease; a deletion by any other run is a
            finding (S8).
        undo: whether runs are undone, so that what maintenance deleted may come back (S17).
        slow_rename: whether a disk's files keep the time of their last byte although their writer
            was stopped before the rename; S4 does not hold then.
        rewind_beside: whether a query is rewound while maintenance is paused; S2 does not hold
            then, and `docs/safety.md` says to stop it first.
    """

    habits: Habits = field(default_factory=Habits)
    local: bool = True
    two: bool = True
    lease: Callable[[World], str | None] | None = holder
    undo: bool = True
    slow_rename: bool = False
    rewind_beside: bool = False


class Stage:
    """A world, its query, its maintainers, and the certificate that watches them."""

    def __init__(self, setting: Setting, random: Random, *, log: list[str] | None = None) -> None:
        self.setting, self.tally, self.log = setting, Counter[str](), log
        self.world = World(local=setting.local, slow_rename=setting.slow_rename, log=log)
        self.query = Query(self.world, setting.habits, random)
        self.certificate = Certificate(
            self.world, self.query, holder=setting.lease, undo=setting.undo
        )
        self.world.judge = self.certificate
        self.paused: list[Maintainer] = []
        self.runs = 0
        self.usual = 40

    @property
    def stores(self) -> tuple[str, ...]:
        return self.setting.habits.stores

    def _store(self, number: int) -> str:
        return self.stores[number % len(self.stores)]

    def _step(self, what: str) -> None:
        self.tally["steps"] += 1
        if self.log is not None:
            self.log.append(f"{self.world.clock:.0f} {what}")

    # -- the query

    def batch(self, count: int = 1) -> None:
        self._step(f"the query runs {count} batches")
        for _ in range(count):
            self.query.finish()
            self.tally["batches"] += 1

    def part(self, number: int) -> None:
        """The query goes one step on: begin, a task, its rename, commit."""
        directory = self._store(number)
        self._step(f"the query goes on, in {directory}")
        if self.query.batch is None:
            self.query.begin()
        elif self.query.commit():
            self.tally["batches"] += 1
        elif directory in self.query.tasks:
            self.query.rename(directory)
        else:
            self.query.task(directory)

    def abort(self, number: int, *, tidy: bool) -> None:
        self._step(f"a task of {self._store(number)} dies, tidy: {tidy}")
        self.query.abort(self._store(number), tidy=tidy)

    def linger(self, number: int) -> None:
        self._step(f"a task of {self._store(number)} becomes a zombie")
        self.query.linger(self._store(number))

    def land(self, number: int) -> None:
        self._step("something late is renamed")
        self.tally["zombies"] += self.query.land(number)

    def restart(self) -> None:
        self._step("the query is killed")
        self.heal()
        self.query.kill()
        self.tally["restarts"] += 1

    def rewind(self, back: int, *, tidy: bool) -> None:
        """Whoever rewinds has stopped maintenance first, as the runbook says."""
        if not self.query.commits:
            return
        version = max(self.query.required, self.query.target - back)
        self._step(f"the query is taken back to version {version}, tidy: {tidy}")
        for maintainer in list(self.paused):
            if not self.setting.rewind_beside:
                self.resume(maintainer, HERE)
        self.heal()
        self.certificate.readers.clear()
        self.query.rewind(version, tidy=tidy or self.setting.habits.in_executor)
        self.world.clock += 1
        self.tally["rewinds"] += 1

    def spark_snapshot(self, number: int) -> None:
        self._step(f"an executor snapshots {self._store(number)}")
        if self.setting.habits.in_executor:
            self.tally["snapshots of Spark"] += self.query.snapshot(self._store(number))

    def spark_cleanup(self, number: int) -> None:
        """An executor's cleanup believes any snapshot, so that none may be wrong by then."""
        self._step(f"an executor cleans {self._store(number)} up")
        if self.setting.habits.in_executor and not self.certificate.untrue:
            self.tally["cleanups of Spark"] += self.query.cleanup(self._store(number))

    # -- others

    def wait(self, seconds: float) -> None:
        self._step(f"{seconds:.0f} seconds pass")
        self.world.clock += seconds

    def read(self, number: int, back: int) -> None:
        version = max(self.query.required, self.query.target - back)
        if self.query.commits:
            self._step(f"somebody begins to read version {version} of {self._store(number)}")
            self.certificate.reads(self._store(number), version)
            self.tally["readers"] += 1

    def poison(self, number: int, *, cut: bool) -> None:
        """Makes a snapshot wrong, one that the log still disproves."""
        if any(one.at in _RELYING for one in self.paused):
            return  # between a look at a file and a deletion is a moment that nobody can close
        directory = self._store(number)
        store = self.world.store(directory)
        found = sorted(one[0] for name in store if (one := split(name)) and one[1] == "snapshot")
        proved = [one for one in found if f"{directory}/{one}.snapshot" in self.certificate.proved]
        found = proved if number % 2 and proved else found
        version = found[number % len(found)] if found else self.query.target - number % 4
        name = f"{version}.snapshot"
        if 1 <= version <= self.query.target and self._log_leads_to(store, version):
            self._step(f"{directory}/{name} goes wrong, cut: {cut}")
            content = store.get(name, b"")[:30] if cut else encode([(b"wrong", bytes([version]))])
            self._damage(f"{directory}/{name}", content + bytes(1) if cut else content)

    @staticmethod
    def _log_leads_to(store: dict[str, bytes], version: int) -> bool:
        return all(f"{one}.delta" in store for one in range(1, version + 1))

    def _damage(self, path: str, content: bytes) -> None:
        self.certificate.untrue.add(content)
        self.world.clock += 1
        gone = [side for side in _beside(path) if side in self.world.files]
        self.world.change({path: content, **dict.fromkeys(gone)})
        self.tally["wrong snapshots"] += 1

    def heal(self) -> None:
        """An operator moves away every snapshot that is wrong, as the runbook says."""
        for path, file in list(self.world.files.items()):
            if file.content in self.certificate.untrue:
                self._step(f"{path} is moved away")
                self.world.change({path: None, f"{path}.crc": None})
        if not self.paused:  # else one of them may be about to publish another
            self.certificate.untrue.clear()
        self.world.garble = None

    def garble(self) -> None:
        """The next snapshot of ours is stored wrong."""
        self._step("the storage will garble the next snapshot")
        self.world.garble = encode([(b"garbled", bytes(3))])
        self.certificate.untrue.add(self.world.garble)
        self.tally["garbled writes"] += 1

    def leftover(self, number: int, kind: str) -> None:
        """A writer that was killed left something behind."""
        directory, version = self._store(number), max(1, self.query.target - number % 3)
        names = {
            "temp": self.world.temp_of(f"{directory}/{version}.snapshot"),
            "side": f"{directory}/.{version}.snapshot.crc",
            "checksum": f"{directory}/{version}.snapshot.crc",
            "unknown": f"{directory}/notes-{number}.old.txt",
        }
        path = names[kind]
        owner = f"{directory}/{version}.snapshot"
        # Spark deletes no snapshot of these versions, so that no checksum loses it while we look.
        moves = kind == "checksum" and self.paused
        if moves or path in self.world.files or owner in self.world.files:
            return
        self._step(f"{path} is left behind")
        stale = b'{"algorithm":"CRC32C","value":1,"mainFileSize":1,"timestampMs":0}'
        if kind == "unknown":
            self.certificate.foreign.add(path)
        self.world.change({path: stale})

    # -- maintenance

    def maintain(self, policy: Policy, halt: Halt, request: Request = _EVERYTHING) -> None:
        """Starts a maintainer, unless there may not be another one now."""
        if self.paused and not self.setting.two:
            return
        self.tally["overlaps"] += bool(self.paused)
        self._step(f"maintenance {self.runs} begins, {halt}: {policy} {request}")
        doer = replace(self._doer(policy), request=request)
        found = Maintainer(self.world, doer, self.tally)
        found.start(halt)
        self._after(found)

    def _doer(self, policy: Policy) -> Doer:
        self.runs += 1
        return Doer(f"run-{self.runs - 1}", policy, self.world.clock)

    def resume(self, maintainer: Maintainer, halt: Halt) -> None:
        self._step(f"{maintainer.doer.run} goes on, {halt}")
        self.paused.remove(maintainer)
        maintainer.resume(halt)
        self._after(maintainer)

    def _after(self, maintainer: Maintainer) -> None:
        if not maintainer.done:
            self.paused.append(maintainer)
            if maintainer.at in _RELYING:
                self.world.late.add(maintainer.doer.run)
            return
        self.tally["runs"] += 1
        self.tally["points"] += maintainer.points
        self.tally["operations"] += maintainer.operations
        self.usual = max(20, maintainer.points)
        if maintainer.report:
            self._judge(maintainer.report)

    def _judge(self, report: Report) -> None:
        codes = {finding.code for finding in report.findings}
        if FindingCode.FAULT in codes:
            raise Loss(f"a fault of ours: {report.findings}")
        if codes & _FALSE and not self.tally["wrong snapshots"] + self.tally["garbled writes"]:
            raise Loss(f"S3: an alarm without damage: {report.findings}")
        if self.log is not None:
            self.log.append(f"    {report.run}: ends with {sorted(codes)}")

    def undo(self, number: int, halt: Halt) -> None:
        """An operator brings back what a run moved to the trash, where there is any."""
        in_trash = (path for path in self.world.files if path.startswith(_TRASH))
        trashed = sorted({path.split("/")[2] for path in in_trash})
        if not (self.setting.undo and trashed) or (self.paused and not self.setting.two):
            return
        run = trashed[number % len(trashed)]
        self._step(f"{run} is undone, {halt}")
        self.tally["undos"] += 1
        found = Maintainer(self.world, self._doer(Policy()), self.tally, partial(_undo, run))
        found.start(halt)
        self._after(found)

    # -- the end

    def close(self) -> None:
        """Ends every thread; what happens now no longer counts."""
        self.world.judge = None
        for maintainer in list(self.paused):
            self.paused.remove(maintainer)
            maintainer.resume(HERE)

    def settle(self, policy: Policy) -> None:
        """Lets everything come to rest; then maintenance must end, and have done its work (S15)."""
        for maintainer in list(self.paused):
            self.resume(maintainer, ON)
        self.query.late.clear()
        self.heal()
        self.query.finish()
        self._step(f"all is quiet: {policy}")
        for _ in range(3):
            self.world.clock += policy.grace + policy.orphan_age + SECONDS + 1
            last = Maintainer(self.world, self._doer(policy), self.tally)
            last.start(ON)
            self._after(last)
            if last.report is None or last.report.exit_code:
                found = last.report.findings if last.report else last.error
                raise Loss(f"S15: maintenance does not recover: {found}")
        if last.report and last.report.plan.actions:
            raise Loss(f"S15: a third run still wants to do {last.report.plan.actions}")
        for directory in self.stores:
            self._rested(directory, policy)

    def _rested(self, directory: str, policy: Policy) -> None:
        store, target = self.world.store(directory), self.query.target
        floor = max(1, min(self.query.required, target - policy.min_batches_to_retain))
        snapshots = [one[0] for name in store if (one := split(name)) and one[1] == "snapshot"]
        base = max((one for one in snapshots if one <= floor), default=0)
        left = [name for name in store if _number(name) < base and f"{directory}/{name}" not in
                self.certificate.foreign]  # fmt: skip
        if left:
            raise Loss(f"S15: {left} of {directory} stay for ever")
        newest = max((one for one in snapshots if one <= target), default=0)
        if target - newest > policy.min_deltas_for_snapshot:
            raise Loss(f"S15: version {target} of {directory} stays without a snapshot")
        self._no_temps(directory, store)

    def _no_temps(self, directory: str, store: dict[str, bytes]) -> None:
        for name in store:
            if name.endswith(".tmp") and _number(name) <= self.query.target:
                raise Loss(f"S15: {directory}/{name} stays for ever")


def _undo(run: str, storage: Seat, _: Doer) -> None:
    undo(storage, run)


def _number(name: str) -> int:
    stem = name.lstrip(".").partition(".")[0]
    return int(stem) if stem.isdecimal() else 1 << 60


def _beside(path: str) -> tuple[str, str]:
    directory, _, name = path.rpartition("/")
    return f"{path}.crc", f"{directory}/.{name}.crc"
