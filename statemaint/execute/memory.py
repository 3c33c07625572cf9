"""Estimates of the memory that carrying out a store's plan takes."""

from statemaint.fold import Source
from statemaint.fold.needs import density, fold_need, read_need
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Provider
from statemaint.plan import Attest, Delete, StorePlan, WriteSnapshot


def chains_of(plan: StorePlan) -> tuple[Chain, ...]:
    chains = [one.chain for one in plan.actions if isinstance(one, WriteSnapshot)]
    chains += [one.instead for one in plan.actions if isinstance(one, Delete) and one.instead]
    chains += [one.against for one in plan.actions if isinstance(one, Attest) and one.against]
    return tuple(chains)


def bytes_read(plan: StorePlan) -> int:
    return sum(chain.size for chain in chains_of(plan))


def need_of(plan: StorePlan, source: Source, provider: Provider) -> int:
    """Returns an upper estimate of the memory that a store's plan needs, in bytes.

    The beginning of one delta is read if there are many bytes of them.
    """
    chains = chains_of(plan)
    if not chains:
        return max((read_need(path, far=source.far) for path in _compared(plan)), default=0)
    writes = sum(isinstance(one, WriteSnapshot) for one in plan.actions)
    content = density(source, max(chains, key=lambda one: one.size).deltas, provider)
    parts = plan.store.rocks.parts if plan.store.rocks else {}
    tables = [sum(parts.get(one.base.entry.path, {}).values()) if one.base else 0 for one in chains]
    return max(
        fold_need(chain, provider, content, writes=writes, tables=size, far=source.far)
        for chain, size in zip(chains, tables, strict=True)
    )


def _compared(plan: StorePlan) -> list[int]:
    return [one.snapshot.entry.size for one in plan.actions if isinstance(one, Attest)]
