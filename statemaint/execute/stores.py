"""Carrying a plan out, store by store, one action after the other.

A crash between any two actions leaves every retained version loadable, and the next run goes on
where this one ended: a snapshot appears whole or not at all, its proof is durable before anything
below it goes (S6, S7), and deletions are in an order of which every prefix is harmless.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from statemaint.errors import (
    CheckpointError,
    LeaseLostError,
    StorageError,
    Superseded,
    UnreadableError,
    UnsupportedError,
)
from statemaint.execute.lease import Fence
from statemaint.execute.ledger import Ledger
from statemaint.execute.store_executor import StoreExecutor
from statemaint.execute.trash import Trash
from statemaint.fold import Engine, Source, engine_for
from statemaint.model.findings import Finding, FindingCode
from statemaint.plan import Attest, Delete, Plan, StorePlan, WriteSnapshot
from statemaint.report import Halted, Outcome, Skipped
from statemaint.storage import Storage

# How long a stale snapshot stays in the trash where deleted files go at once.
STALE_FOR = 7 * 86400.0


def execute(
    plan: Plan,
    storage: Storage,
    *,
    run: str,
    fence: Fence | None = None,
    elapsed: Callable[[], float] = lambda: 0.0,
    engine: Engine | None = None,
) -> Iterator[Outcome]:
    """Yields what happens while a plan is carried out; what is not consumed does not happen.

    Damage or a failing storage ends the work on its own store only (S16).

    Args:
        plan: what to do.
        storage: where the plan's checkpoint lives.
        run: the id under which the ledger notes it.
        fence: the lease that the run holds; it works without one by default.
        elapsed: seconds since the run began; no store is begun after `max_seconds_per_run`.
        engine: what to fold with; by default what suits the amount of work.

    Raises:
        LeaseLostError: when another run has taken the lease; nothing more happens.
    """
    folds = engine or engine_for(_bytes_to_fold(plan), plan.provider)
    holds = fence or Fence()
    ledger = Ledger(storage, run, holds)
    trash = Trash(storage, run, plan.policy.trash_for) if plan.policy.trash_for else None
    aside = Trash(storage, run, STALE_FOR)
    for store in plan.stores:
        if plan.halted:
            yield Halted(store.store.id)
        elif plan.target is None or _out_of_time(plan, elapsed()):
            yield Skipped(store.store.id)
        else:
            source = Source.of(storage, store.store, plan)
            one = StoreExecutor(
                store, source, folds, ledger, holds, trash, plan.target, plan.commit, aside
            )
            yield from _store(one, verify=plan.policy.verify)


def _bytes_to_fold(plan: Plan) -> int:
    chains = [one.chain for one in plan.actions if isinstance(one, WriteSnapshot)]
    chains += [one.instead for one in plan.actions if isinstance(one, Delete) and one.instead]
    chains += [one.against for one in plan.actions if isinstance(one, Attest) and one.against]
    return sum(chain.size for chain in chains)


def _out_of_time(plan: Plan, seconds: float) -> bool:
    limit = plan.policy.max_seconds_per_run
    return limit is not None and seconds >= limit


def _store(run: StoreExecutor, *, verify: bool) -> Iterator[Outcome]:
    yield from _standing_still(run.plan)
    try:
        yield from _carry_out(run, verify=verify)
    except Superseded as error:
        yield Skipped(run.plan.store.id, _finding(run, FindingCode.SUPERSEDED, error))
    except (CheckpointError, UnreadableError) as error:
        yield Halted(run.plan.store.id, _finding(run, FindingCode(error.code), error))
    except UnsupportedError as error:
        yield Halted(run.plan.store.id, _finding(run, FindingCode.UNSUPPORTED, error))
    except StorageError as error:
        yield Halted(run.plan.store.id, _finding(run, FindingCode.STORAGE_FAILED, error))
    except LeaseLostError:
        raise
    except Exception as error:  # noqa: BLE001 -- our fault in one store must not stop the others
        yield Halted(run.plan.store.id, _finding(run, FindingCode.FAULT, _named(error)))


def _standing_still(plan: StorePlan) -> Iterator[Outcome]:
    for finding in plan.findings:
        if finding.damage:
            yield Halted(plan.store.id, finding)
        elif finding.code is FindingCode.SUPERSEDED:
            yield Skipped(plan.store.id, finding)


def _carry_out(run: StoreExecutor, *, verify: bool) -> Iterator[Outcome]:
    """Carries the actions out in their order, neighbouring ones of a kind together."""
    run.note_habits()
    for _, group in groupby(run.plan.actions, key=type):
        same = tuple(group)
        for writes in _folds(one for one in same if isinstance(one, WriteSnapshot)):
            yield from run.write(writes, verify=verify)
        for attest in (one for one in same if isinstance(one, Attest)):
            yield run.attest(attest)
        yield from run.delete(tuple(one for one in same if isinstance(one, Delete)))


def _folds(writes: Iterable[WriteSnapshot]) -> Iterator[tuple[WriteSnapshot, ...]]:
    """Yields the snapshots that one fold gives; a store has two at most, target and floor."""
    found = tuple(writes)
    if len(found) == 2 and found[1].chain.begins(found[0].chain):  # noqa: PLR2004
        yield found
    else:
        yield from ((write,) for write in found)


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _finding(run: StoreExecutor, code: FindingCode, error: Exception | str) -> Finding:
    return Finding(code, str(error), run.plan.store.id)
