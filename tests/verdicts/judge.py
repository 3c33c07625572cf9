"""What statemaint says of a damaged checkpoint, what Spark does with it, and whether they agree."""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum, unique
from pathlib import Path
from typing import Any

from statemaint.audit import Diagnosis, doctor, verify
from statemaint.errors import StatemaintError
from statemaint.maintain import maintain
from statemaint.model.findings import FindingCode, damaged
from statemaint.model.policy import Policy
from statemaint.plan.actions import Delete
from statemaint.planning import plan_checkpoint
from statemaint.recover import plan_repair, plan_rollback, repair, rollback
from statemaint.storage import Storage
from tests.verdicts.damages import History, Kind
from tests.verdicts.place import Place, maintained, trimmed
from tests.verdicts.query import Query, Run, output

MONTH = 30 * 86_400.0
_CANNOT = "cannot be repaired from the remaining files"
_ASIDE = (
    FindingCode.UNLOADABLE_NAME,
    FindingCode.BLOCKED_NAME,
    FindingCode.FOREIGN_OPERATOR,
)
POLICY = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=4, grace=0, orphan_age=0)


@unique
class Outcome(StrEnum):
    """How a restart of the query ended."""

    RIGHT = "right"
    ANEW = "begins anew"
    WRONG = "wrong rows"
    REFUSED = "refused"
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True)
class Said:
    """What one verb says.

    Attributes:
        good: nothing keeps the query from going on with right rows.
        anew: it begins with its first batch.
        unseen: what nobody can see.
        advice: what to do next.
        since: the Spark that it is said for.
        exit_code: of the program.
        codes: of the findings that are damage.
        error: what it refused with.
    """

    good: bool
    exit_code: int
    codes: tuple[str, ...] = ()
    error: str = ""
    anew: bool = False
    unseen: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    since: str = ""

    def __str__(self) -> str:
        if self.error:
            return f"error {self.exit_code}: {self.error[:90]}"
        yes = f"yes from {self.since} on" if self.since else "yes"
        return f"{yes if self.good else 'NO'} {self.exit_code} {' '.join(self.codes)}".strip()


@dataclass(frozen=True, slots=True)
class Verdict:
    """One kind of damage to one layout.

    Attributes:
        group, kind, history, layout: which.
        spark: how the restart ended.
        error: what Spark refused with.
        doctor, deep, verify, repair, plan: what each verb says.
        steps: what following the advice came to.
        after: how the restart ended after that.
        after_error: what Spark refused with then.
        advice: the last advice.
        hidden: what Spark refuses, and the doctor says that it cannot see.
        faults: what does not agree.
        commit: of the code that said it.
    """

    group: str
    kind: str
    history: str
    layout: str
    spark: str
    error: str
    doctor: str
    deep: str
    verify: str
    repair: str
    plan: str
    steps: tuple[str, ...]
    after: str
    after_error: str
    advice: tuple[str, ...]
    hidden: str = ""
    faults: tuple[str, ...] = ()
    commit: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Court:
    """The checkpoints of one query, and what it comes to when nothing disturbs it."""

    def __init__(self, query: Query, folder: Path) -> None:
        self._query, self._folder = (
            query,
            folder / f"{query.layout.name}-{query.shape.name}".lower(),
        )
        shutil.rmtree(self._folder, ignore_errors=True)
        self._make(History.WHOLE)
        self._truths = dict[int, Counter[str]]()

    def _truth(self, hours: int) -> Counter[str]:
        """Returns what the query has put out after some more hours when nothing disturbs it."""
        if hours not in self._truths:
            twin = self._copy(History.WHOLE, "twin")
            run = self._query.go_on(twin.root, hours)
            assert run.error is None, run.text
            self._truths[hours] = output(twin.root)
            assert sum(self._truths[hours].values()) > 0
        return self._truths[hours]

    def _make(self, history: History) -> None:
        root = self._folder / history.name.lower()
        if history is History.WHOLE:
            self._query.build(root)
            return
        shutil.copytree(self._folder / History.WHOLE.name.lower(), root)
        if history is History.TRIMMED:
            trimmed(self._place(root))
        else:
            maintained(self._place(root))

    def _copy(self, history: History, name: str) -> Place:
        root, original = self._folder / name, self._folder / history.name.lower()
        if not original.exists():
            self._make(history)
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(original, root)
        return self._place(root)

    def _place(self, root: Path) -> Place:
        return Place(root, self._query.layout, self._query.shape)

    def try_kind(self, kind: Kind) -> Verdict:
        """Damages two copies; restarts one as it is, and the other one after our advice."""
        place = self._damaged(kind, "damaged")
        said = _asked(place.storage)
        run, spark = self._go_on(place, kind.hours, exact=True)
        repaired = self._damaged(kind, "repaired")
        steps = list(_follow(repaired))
        final = _say(lambda: _doctor(repaired.storage, deep=True))
        then, after = Run(), Outcome.NOT_TRIED
        if final.good:
            exact = not any(one.startswith("rollback") for one in steps)
            then, after = self._go_on(repaired, kind.hours, exact=exact)
        verdict = Verdict(
            kind.group,
            kind.name,
            kind.history.value,
            self._query.layout.value,
            spark=spark.value,
            error=run.error or "",
            doctor=str(said["doctor"]),
            deep=str(said["deep"]),
            verify=str(said["verify"]),
            repair=str(said["repair"]),
            plan=str(said["plan"]),
            steps=tuple(steps),
            after=after.value,
            after_error=then.error or "",
            advice=final.advice,
            hidden=_hidden(kind, spark, said["deep"]),
        )
        return replace(verdict, faults=tuple(_faults(spark, said, final, after, verdict)))

    def _damaged(self, kind: Kind, name: str) -> Place:
        place = self._copy(kind.history, name)
        kind.damage(place)
        return place

    def _go_on(self, place: Place, hours: int, *, exact: bool) -> tuple[Run, Outcome]:
        truth, began = self._truth(hours), time.time_ns()
        run = self._query.go_on(place.root, hours)
        if run.error is not None:
            return run, Outcome.REFUSED
        found = output(place.root)
        if found == truth or (set(found) == set(truth) and not exact):
            return run, Outcome.RIGHT
        anew = output(place.root, since=began) == truth
        return run, Outcome.ANEW if anew else Outcome.WRONG


def _asked(storage: Storage) -> dict[str, Said]:
    return {
        "doctor": _say(lambda: _doctor(storage, deep=False)),
        "deep": _say(lambda: _doctor(storage, deep=True)),
        "verify": _say(lambda: _verify(storage)),
        "repair": _say(lambda: _repair(storage)),
        "plan": _say(lambda: _plan(storage)),
    }


def _say(ask: Callable[[], Said]) -> Said:
    try:
        return ask()
    except StatemaintError as error:
        anew = "begins with its first batch" in str(error)
        text = str(error)
        return Said(good=False, exit_code=error.exit_code, error=text, anew=anew, advice=(text,))


def _doctor(storage: Storage, *, deep: bool) -> Said:
    found = doctor(storage, deep=deep)
    good = found.restarts and not found.misplaced
    anew = good and found.checkpoint.resumes is None
    return Said(
        good,
        3 if damaged(found.findings) else 0,
        _codes(found.findings),
        anew=anew,
        unseen=found.unseen,
        advice=found.next,
        since=found.restarts_since or "",
    )


def _verify(storage: Storage) -> Said:
    found = verify(storage, deep=True)
    return Said(found.healthy, 0 if found.healthy else 3, _codes(found.findings))


def _repair(storage: Storage) -> Said:
    plan = plan_repair(storage)
    bad = damaged(plan.findings)
    return Said(not bad, 3 if bad else 0, _codes(plan.findings))


def _plan(storage: Storage) -> Said:
    plan = plan_checkpoint(storage, POLICY)[1]
    bad = damaged(plan.all_findings)
    deletes = any(isinstance(one, Delete) for one in plan.actions)
    codes = (*_codes(plan.all_findings), *(("deletes",) if deletes else ()))
    return Said(not bad, 3 if bad else 0, codes)


def _codes(findings: Any) -> tuple[str, ...]:
    return tuple(sorted({one.code.value for one in findings if one.damage}))


def _follow(place: Place) -> Iterator[str]:
    """Follows the doctor's advice to its end, and says what was done."""
    storage = place.storage
    for _ in range(3):
        try:
            found = doctor(storage, deep=True)
        except StatemaintError as error:
            yield f"doctor: {error.code}"
            return
        if not damaged(found.findings):
            break
        step = _repaired(storage) or _moved(place, found) or _gone_back(storage, found)
        if step is None:
            break
        yield step
    try:
        found = doctor(storage, deep=True)
        if found.restarts and not found.misplaced:
            report = maintain(storage, POLICY)
            yield f"maintain ({report.exit_code})"
    except StatemaintError as error:
        yield f"maintain: {error.code}"


def _repaired(storage: Storage) -> str | None:
    try:
        if not plan_repair(storage).actions:
            return None
        repair(storage, trash_for=MONTH)
    except StatemaintError as error:
        return f"repair: {error.code}"
    return "repair"


def _moved(place: Place, found: Diagnosis) -> str | None:
    """Moves out of the stores' directories what the doctor names."""
    named = [one.path for one in found.findings if one.code in _ASIDE and one.path]
    for path in named:
        shutil.move(place.checkpoint / path, place.root / "aside")
    return "move aside" if named else None


def _gone_back(storage: Storage, found: Diagnosis) -> str | None:
    if found.restarts and not found.misplaced:
        return None
    batch = found.goes_back_to
    if batch is None:
        return None
    try:
        if not plan_rollback(storage, batch).actions:
            return None
        rollback(storage, batch, trash_for=MONTH)
    except StatemaintError as error:
        return f"rollback {batch}: {error.code}"
    return f"rollback {batch}"


def _hidden(kind: Kind, spark: Outcome, deep: Said) -> str:
    """Returns what nothing in the checkpoint tells, and the doctor says so itself."""
    told = kind.unseen and any(one.startswith(kind.unseen) for one in deep.unseen)
    return kind.unseen if told and spark is Outcome.REFUSED and deep.good else ""


def _faults(
    spark: Outcome, said: dict[str, Said], final: Said, after: Outcome, verdict: Verdict
) -> Iterator[str]:
    if not verdict.hidden:
        yield from _of_the_restart(spark, said)
        if after in (Outcome.WRONG, Outcome.REFUSED):
            yield f"after our advice: {after}"
    yield from _of_the_verbs(said)
    yield from _of_maintenance(said, final, verdict.steps)
    if not (final.good or final.anew) and not any(_CANNOT in one for one in final.advice):
        yield "it is not said that it cannot be repaired"


def _of_the_restart(spark: Outcome, said: dict[str, Said]) -> Iterator[str]:
    deep = said["deep"]
    for name, one in (("doctor", said["doctor"]), ("doctor --deep", deep)):
        if spark is Outcome.REFUSED and (one.good or not one.exit_code):
            yield f"{name} calls good what Spark refuses"
        if spark is Outcome.RIGHT and not one.good:
            yield f"{name} calls broken what Spark loads"
        if (spark is Outcome.ANEW) != one.anew:
            yield f"{name} does not say rightly whether the query begins anew"
    if spark is Outcome.WRONG and (deep.good or not deep.exit_code):
        yield "doctor --deep calls good what is wrong"


def _of_the_verbs(said: dict[str, Said]) -> Iterator[str]:
    deep = said["deep"]
    if any(one.exit_code == 1 for one in said.values()):
        yield "a fault of ours"
    if deep.codes != said["verify"].codes:
        yield "doctor --deep and verify --deep disagree"
    if deep.codes and "deletes" in said["plan"].codes and not deep.good:
        yield "plan deletes from what is broken"


def _of_maintenance(said: dict[str, Said], final: Said, steps: tuple[str, ...]) -> Iterator[str]:
    halts = any(step.startswith("maintain") and step != "maintain (0)" for step in steps)
    if said["verify"].good and halts:
        yield "maintain halts what verify --deep calls healthy"
    if not said["deep"].exit_code and final.exit_code:
        yield "after maintain, doctor --deep finds damage in what it called good"
