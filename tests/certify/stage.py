"""Maintainers in a world with a live query: the steps that a schedule may take."""

import json
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from random import Random

from statemaint.errors import StorageError
from statemaint.model.findings import FindingCode, damaged
from statemaint.model.policy import Policy
from statemaint.plan.actions import Request
from statemaint.report.run import Report
from statemaint.scan.handover import Handover
from tests.certify import work
from tests.certify.alarms import OF_DAMAGE
from tests.certify.deeds import Deeds
from tests.certify.family_query import FamilyQuery
from tests.certify.files import spot
from tests.certify.judge import Certificate, Loss
from tests.certify.maintainer import HERE, Halt, Maintainer, Work
from tests.certify.operator import Operator
from tests.certify.pins import FOLDER
from tests.certify.query import Query
from tests.certify.rocks_query import RocksQuery
from tests.certify.savepoints import Savepoints
from tests.certify.seat import Seat
from tests.certify.setting import Setting
from tests.certify.verdicts import Verdicts
from tests.certify.world import Doer, World

_EVERYTHING, _TRASH = Request(), "_statemaint/trash/"


class Stage:
    """A world, its query, its maintainers, and the certificate that watches them."""

    def __init__(self, setting: Setting, random: Random, *, log: list[str] | None = None) -> None:
        self.setting, self.tally, self.log = setting, Counter[str](), log
        self.random = random
        self.world = World(
            local=setting.local, coarse=setting.coarse, skew=setting.skew,
            slow_rename=setting.slow_rename, log=log,
        )  # fmt: skip
        kind = (FamilyQuery if setting.habits.families else RocksQuery if setting.habits.rocks
                else Query)  # fmt: skip
        self.query = kind(self.world, setting.habits, random)
        self.certificate = Certificate(self.world, self.query)
        self.deeds = Deeds(self.certificate, setting.lease)
        self.certificate.deeds = self.deeds
        self.world.judge = self.certificate
        self.operator = Operator(self)
        self.savepoints = Savepoints(self)
        self.works: dict[str, ExitStack] = {}
        self.paused: list[Maintainer] = []
        self.shared: str | None = None
        self.handed: Handover | None = None
        self.sound, self.undercut, self.cleaned = True, False, False
        self.ended: set[str] = set()
        self.glimpses: dict[int, dict[str, int]] = {}
        self.runs, self.usual = 0, 40

    @property
    def stores(self) -> tuple[str, ...]:
        return self.query.habits.stores

    def store(self, number: int) -> str:
        return self.stores[number % len(self.stores)]

    def step(self, what: str) -> None:
        self.tally["steps"] += 1
        if self.log is not None:
            self.log.append(f"{self.world.clock:.0f} {what}")

    @property
    def busy(self) -> bool:
        """Returns whether a maintainer is between its last look at a file and what relies on it."""
        return any(one.relies for one in self.paused)

    # -- the query

    def begin(self, random: Random) -> None:
        """Begins with some batches, in which nobody else does anything."""
        habits = self.setting.habits
        if habits.rocks and habits.in_executor and habits.every > 20:
            self.leap(2 * habits.every + random.randint(1, 8))
        else:
            self.batch(random.randint(1, 8))

    def batch(self, count: int = 1) -> None:
        self.step(f"the query runs {count} batches")
        for _ in range(count):
            self.tally["batches"] += self.query.finish()

    def leap(self, count: int) -> None:
        """Many batches in which nobody else does anything; what was lost before stays lost."""
        self.step(f"the query runs {count} batches, and nobody looks")
        judge, self.world.judge = self.world.judge, None
        log, self.world.log = self.world.log, None
        for _ in range(count):
            self.world.clock += 1
            self.tally["batches"] += self.query.finish()
            self.query.land(-1)
        self.world.judge, self.world.log = judge, log
        self.certificate.excused = any(self.certificate.broken.values())
        self.certificate.anew()
        self.certificate.excused = False

    def part(self, number: int) -> None:
        """The query goes one step on: begin, a task, its rename, commit."""
        directory = self.store(number)
        self.step(f"the query goes on, in {directory}")
        if self.query.batch is None:
            self.tally["starts refused"] += not self.query.begin()
        elif self.query.commit():
            self.tally["batches"] += 1
        elif directory in self.query.tasks:
            self.query.rename(directory)
        else:
            self.query.task(directory)

    def abort(self, number: int, *, tidy: bool) -> None:
        self.step(f"a task of {self.store(number)} dies, tidy: {tidy}")
        self.query.abort(self.store(number), tidy=tidy)

    def linger(self, number: int) -> None:
        self.step(f"a task of {self.store(number)} becomes a zombie")
        self.query.linger(self.store(number))

    def land(self, number: int) -> None:
        self.step("something late is renamed")
        self.undercut |= self.cleaned
        self.tally["zombies"] += self.query.land(number)

    def restart(self) -> None:
        self.step("the query is killed")
        self.query.kill()
        self.tally["restarts"] += 1

    def spark_snapshot(self, number: int) -> None:
        self.step(f"an executor snapshots {self.store(number)}")
        if self.setting.habits.in_executor:
            self.tally["snapshots of Spark"] += self.query.snapshot(self.store(number))

    def spark_cleanup(self, number: int) -> None:
        """An executor's cleanup believes any snapshot, so that none may be wrong by then."""
        self.step(f"an executor cleans {self.store(number)} up")
        self.undercut |= bool(self.paused)
        if self.setting.habits.in_executor and not self._misleading:
            self.cleaned = True
            late = number % 4 > 1 and self.setting.habits.rocks
            if late and isinstance(self.query, RocksQuery):
                self.query.cleanup(self.store(number), late=True)
            else:
                self.tally["cleanups of Spark"] += self.query.cleanup(self.store(number))

    def clean_late(self, number: int) -> None:
        """An executor's clean-up that has chosen long ago deletes."""
        if isinstance(self.query, RocksQuery) and not self._misleading:
            self.step("a clean-up that began earlier deletes what it has chosen")
            self.undercut = True
            self.tally["late cleanups of Spark"] += self.query.clean_late(number)

    @property
    def _misleading(self) -> bool:
        certificate = self.certificate
        return any(certificate._is_bad(path) for path in certificate.bad)

    def again(self, number: int) -> None:
        """An executor that has just begun snapshots the version that it has loaded."""
        if isinstance(self.query, RocksQuery) and self.setting.habits.in_executor:
            self.step(f"a new executor snapshots {self.store(number)} again")
            self.tally["uploads of a version again"] += self.query.again(self.store(number))

    # -- others

    def wait(self, seconds: float) -> None:
        self.step(f"{seconds:.0f} seconds pass")
        self.world.clock += seconds

    def read(self, number: int, back: int) -> None:
        version = max(self.query.required, self.query.target - back)
        if self.query.commits:
            self.step(f"somebody begins to read version {version} of {self.store(number)}")
            self.certificate.reads(self.store(number), version)
            self.tally["readers"] += 1

    def garble(self) -> None:
        """The next snapshot of ours is stored wrong."""
        self.step("the storage will garble the next snapshot")
        self.world.garble = self.query.wrong(self.stores[0], b"garbled")
        self.certificate.garbled.add(self.world.garble)
        self.tally["garbled writes"] += 1

    # -- maintenance

    def maintain(
        self, policy: Policy, halt: Halt, request: Request = _EVERYTHING
    ) -> Maintainer | None:
        """Starts a maintainer, unless there may not be another one now."""
        if self.paused and not self.setting.two:
            return None
        self.tally["overlaps"] += bool(self.paused)
        self.step(f"maintenance {self.runs} begins, {halt}: {policy} {request}")
        return self.start(replace(self.doer(policy), request=request), halt)

    def doer(self, policy: Policy, verb: str = "maintain", run: str | None = None) -> Doer:
        """Returns who comes next."""
        self.runs += 1
        target = self.query.target
        floor = min(self.query.required, target - policy.min_batches_to_retain)
        name = run or f"run-{self.runs - 1}"
        return Doer(
            name, policy, self.world.clock, verb=verb, floor=floor, workers=self.setting.workers
        )

    def start(self, doer: Doer, halt: Halt, does: Work | None = None) -> Maintainer:
        self.query.held = self.query.held or work.stops(doer)
        found = Maintainer(self.world, replace(doer, knows=self.query.known()), self.tally, does)
        self.glimpses[id(found)] = self.query.seen()
        self.savepoints.sync()
        found.start(halt)
        self.after(found)
        return found

    def resume(self, maintainer: Maintainer, halt: Halt) -> None:
        self.step(f"{maintainer.doer.run} goes on, {halt}")
        self.paused.remove(maintainer)
        self.savepoints.sync()
        maintainer.resume(halt)
        self.after(maintainer)

    def after(self, maintainer: Maintainer) -> None:
        if not maintainer.done:
            self.paused.append(maintainer)
        self.hold()
        if not maintainer.done:
            maintainer.stands_still()
            return
        shared = maintainer.doer.run.startswith("shared")
        if maintainer.alone and not self.paused and not shared:
            self.ended.add(self.deeds.records.get(maintainer.doer.run, maintainer.doer.run))
        self.tally["runs"] += 1
        self.tally["points"] += maintainer.points
        self.tally["operations"] += maintainer.operations
        if maintainer.doer.verb == "maintain":
            self.usual = max(20, maintainer.points)
            self._noted(maintainer)
        if self.log is not None and maintainer.error:
            self.log.append(f"    {maintainer.doer.run}: {maintainer.error!r}")
        if maintainer.doer.verb == "repair" and maintainer.error is None:
            Verdicts(self).whole_again()
        if maintainer.report:
            self._judge(maintainer.report)

    def hold(self) -> None:
        """Keeps the query from starting while it must not run, or could not write."""
        trouble = self.world.trouble
        full = trouble is not None and trouble.all_writers
        if full and self.query.running:
            self.query.kill()
        self.query.held = full or any(work.stops(one.doer) for one in self.paused)

    def _noted(self, maintainer: Maintainer) -> None:
        self.sound &= maintainer.error is None or maintainer.doer.run != self.shared
        gaps = self.glimpses.pop(id(maintainer), {})
        if maintainer.report:
            self.query.noted(gaps)

    def _judge(self, report: Report) -> None:
        codes = {finding.code for finding in report.findings}
        self.sound = self.sound and not (report.run == self.shared and damaged(report.findings))
        if FindingCode.FAULT in codes:
            raise Loss(f"a fault of ours: {report.findings}")
        if codes & OF_DAMAGE:
            Verdicts(self).alarm(report)
        forced = self.query.alone and not self.tainted and not self.tally["zips lost"]
        if FindingCode.FOREIGN_MAINTAINER in codes and forced:
            raise Loss(f"S9: zips that families forced are called maintenance: {report.findings}")
        if self.log is not None:
            self.log.append(f"    {report.run}: ends with {sorted(codes)}")

    @property
    def tainted(self) -> bool:
        """Returns whether anything was ever wrong, so that an alarm may be right."""
        events = ("rewinds", "rollbacks", "restores of the checkpoint")
        harmed = self.certificate.harmed or bool(self.certificate.garbled)
        return harmed or any(self.tally[one] for one in events)

    # -- tasks that share a run

    def task(self, policy: Policy, halt: Halt, number: int) -> None:
        """A task of a run of several: it maintains one partition, and leaves the lease."""
        if self.paused and not self.setting.two:
            return
        if self.shared is None:
            self.shared, self.sound = f"shared-{self.runs}", True
            self.handed = self._planned(policy) if self.runs % 2 else None
        operator, partition = map(int, self.store(number).split("/")[1:3])
        request = Request(operators=frozenset({operator}), partitions=frozenset({partition}))
        self.step(f"a task of {self.shared} maintains partition {partition}, {halt}: {policy}")
        self.tally["tasks"] += 1
        self.tally["tasks that are handed a plan"] += self.handed is not None
        self.tally["tasks beside their like"] += any(
            one.doer.run == self.shared for one in self.paused
        )
        doer = replace(self.doer(policy, run=self.shared), request=request)
        self.start(doer, halt, partial(work.task_work, self.handed))

    def _planned(self, policy: Policy) -> Handover | None:
        """Returns what the plan of a run reads for its tasks, which begin any time later."""
        seat = Seat(self.world, self.doer(policy, "plan"), lambda _verb, _path: None)
        return work.plan_work(seat, policy)

    def end_tasks(self, halt: Halt) -> None:
        """Ends a run of several tasks, zombies of which may live on."""
        if self.shared is None:
            return
        run, self.shared = self.shared, None
        sound = self.sound and all(one.doer.run != run for one in self.paused)
        self.step(f"{run} ends, {halt}, sound: {sound}")
        self.start(self.doer(Policy(), run=run), halt, partial(work.end_work, sound))

    # -- what people ask for

    def undo(self, number: int, halt: Halt) -> None:
        """An operator brings back what a run moved to the trash, where there is any."""
        trashed = sorted({path.split("/")[2] for path in self.world.index.under(_TRASH)})
        if not trashed or (self.paused and not self.setting.two):
            return
        newest = max(trashed, key=lambda one: (one[:1].isdigit(), one))
        run = trashed[number % len(trashed)] if number >= 0 else newest
        back = self._back(run)
        left = (self.world.index.under(f"{_TRASH}{run}/{one}") for one in self.query.left)
        if back is not None or any(left):  # as the notice of such a folder says
            self.operator.move_aside()
        if back is not None:
            self.query.stop()
        self.step(f"{run} is undone, {halt}")
        self.tally.update({"undos": 1, "undos of rollbacks": back is not None})
        doer = replace(self.doer(Policy(), "undo"), back=work.NEVER if back is None else back)
        self.start(doer, halt, partial(work.undo_work, run))

    def repair(self, halt: Halt) -> None:
        """An operator repairs what can be, of a query that he has stopped."""
        if self.paused and not self.setting.two:
            return
        self.query.stop()
        self.step(f"repair, {halt}")
        self.tally["repairs"] += 1
        self.start(self.doer(Policy(), "repair"), halt, work.repair_work)

    def rollback(self, back: int, halt: Halt) -> None:
        """An operator goes back by some batches."""
        if not self.query.commits or (self.paused and not self.setting.two):
            return
        batch = max(self.query.commits[0], self.query.commits[-1] - back)
        self.operator.move_aside()
        self.query.stop()
        self.step(f"rollback to batch {batch}, {halt}")
        self.tally["rollbacks"] += 1
        doer = replace(self.doer(Policy(), "rollback"), back=batch + 1)
        target, beside = self.query.target, {one.doer.run for one in self.paused}
        self.start(doer, halt, partial(work.rollback_work, batch))
        if self.query.target < target:
            # Who stood still at a write had asked for its lease before: that write is still its.
            self.certificate.overtaken |= beside

    def _back(self, run: str) -> int | None:
        """Returns the version that a run has gone back to, where it was a rollback."""
        manifest = self.world.files.get(f"{_TRASH}{run}/manifest/rollback.jsonl")
        if manifest is None:
            return None
        lines = manifest.content.splitlines()
        paths = [json.loads(line)["path"] for line in lines if line.endswith(b"}")]
        return min((one.version for path in paths if (one := spot(path))), default=1) - 1

    # -- the end

    def end_pins(self) -> None:
        """Ends every pin, and whatever work it is for."""
        self.certificate.pins.held.clear()
        for path in list(self.works):
            with suppress(StorageError):
                self.works.pop(path).close()
        self.world.change(dict.fromkeys(self.world.index.under(FOLDER)))

    def close(self) -> None:
        """Ends every thread; what happens now no longer counts."""
        self.world.judge, self.world.lost = None, None
        for maintainer in list(self.paused):
            self.paused.remove(maintainer)
            maintainer.resume(HERE)
        self.end_pins()
