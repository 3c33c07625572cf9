"""Estimates of the memory that carrying out a store's plan takes."""

from statemaint.fold import Source
from statemaint.fold.needs import chains_need, read_need
from statemaint.model.chain import Chain
from statemaint.plan.actions import Attest, Delete, StorePlan, WriteSnapshot


def chains_of(plan: StorePlan) -> tuple[Chain, ...]:
    chains = [action.chain for action in plan.actions if isinstance(action, WriteSnapshot)]
    chains += [one.instead for one in plan.actions if isinstance(one, Delete) and one.instead]
    chains += [one.against for one in plan.actions if isinstance(one, Attest) and one.against]
    return tuple(chains)


def bytes_read(plan: StorePlan) -> int:
    return sum(chain.size for chain in chains_of(plan))


def need_of(plan: StorePlan, source: Source) -> int:
    """Returns an upper estimate of the memory that a store's plan needs, in bytes."""
    if chains := chains_of(plan):
        writes = sum(isinstance(action, WriteSnapshot) for action in plan.actions)
        return chains_need(chains, source, plan.store, writes=writes)
    sizes = (action.snapshot.entry.size for action in plan.actions if isinstance(action, Attest))
    return max((read_need(size, far=source.far) for size in sizes), default=0)
