"""Carrying a plan out, store by store, one action after the other.

A crash between any two actions leaves every retained version loadable, and the next run goes on
where this one ended: a snapshot appears whole or not at all, its proof is durable before anything
below it goes (S6, S7), and deletions are in an order of which every prefix is harmless.
"""

from collections.abc import Callable, Iterable, Iterator

from statemaint.errors import CheckpointError, StorageError, Superseded
from statemaint.execute.ledger import Ledger
from statemaint.execute.steps import StoreRun
from statemaint.model.findings import Finding, FindingCode
from statemaint.plan import Action, Attest, Delete, Plan, StorePlan, WriteSnapshot
from statemaint.report import Halted, Outcome, Skipped
from statemaint.storage import Storage


def execute(
    plan: Plan, storage: Storage, *, run: str, elapsed: Callable[[], float] = lambda: 0.0
) -> Iterator[Outcome]:
    """Yields what happens while a plan is carried out; what is not consumed does not happen.

    Damage or a failing storage ends the work on its own store only (S16).

    Args:
        plan: what to do.
        storage: where the plan's checkpoint lives.
        run: the id under which the ledger notes it.
        elapsed: seconds since the run began; no store is begun after `max_seconds_per_run`.
    """
    ledger = Ledger(storage, run)
    for store in plan.stores:
        if plan.halted:
            yield Halted(store.store.id)
        elif plan.target is None or _out_of_time(plan, elapsed()):
            yield Skipped(store.store.id)
        else:
            yield from _store(StoreRun(store, storage, ledger), verify=plan.policy.verify)


def _out_of_time(plan: Plan, seconds: float) -> bool:
    limit = plan.policy.max_seconds_per_run
    return limit is not None and seconds >= limit


def _store(run: StoreRun, *, verify: bool) -> Iterator[Outcome]:
    yield from _standing_still(run.plan)
    try:
        for step in _steps(run.plan.actions):
            match step:
                case WriteSnapshot():
                    yield run.write(step, verify=verify)
                case Attest():
                    yield run.attest(step)
                case _:
                    yield from run.delete(step)
    except Superseded as error:
        yield Skipped(run.plan.store.id, _finding(run, FindingCode.SUPERSEDED, error))
    except CheckpointError as error:
        yield Halted(run.plan.store.id, _finding(run, FindingCode(error.code), error))
    except StorageError as error:
        yield Halted(run.plan.store.id, _finding(run, FindingCode.STORAGE_FAILED, error))
    except Exception as error:  # noqa: BLE001 -- our fault in one store must not stop the others
        yield Halted(run.plan.store.id, _finding(run, FindingCode.FAULT, _named(error)))


def _standing_still(plan: StorePlan) -> Iterator[Outcome]:
    for finding in plan.findings:
        if finding.damage:
            yield Halted(plan.store.id, finding)
        elif finding.code is FindingCode.SUPERSEDED:
            yield Skipped(plan.store.id, finding)


def _steps(actions: Iterable[Action]) -> Iterator[WriteSnapshot | Attest | tuple[Delete, ...]]:
    """Yields the actions in their order, neighbouring deletions together."""
    deletes: list[Delete] = []
    for action in actions:
        if isinstance(action, Delete):
            deletes.append(action)
            continue
        if deletes:
            yield tuple(deletes)
            deletes = []
        yield action
    if deletes:
        yield tuple(deletes)


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _finding(run: StoreRun, code: FindingCode, error: Exception | str) -> Finding:
    return Finding(code, str(error), run.plan.store.id)
