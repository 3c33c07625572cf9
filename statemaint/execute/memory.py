"""Estimates of the memory that carrying out a store's plan takes."""

from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Provider
from statemaint.plan import Attest, Delete, StorePlan, WriteSnapshot
from statemaint.workers import BUFFERS

# The keys of the deltas are held, uncompressed.
_KEYS = 4
# In plain Python, which folds small states, every row is an object.
_OBJECTS = 30


def chains_of(plan: StorePlan) -> tuple[Chain, ...]:
    """Returns the chains that carrying out a store's plan reads."""
    chains = [one.chain for one in plan.actions if isinstance(one, WriteSnapshot)]
    chains += [one.instead for one in plan.actions if isinstance(one, Delete) and one.instead]
    chains += [one.against for one in plan.actions if isinstance(one, Attest) and one.against]
    return tuple(chains)


def bytes_read(plan: StorePlan) -> int:
    """Returns the stored bytes that carrying out a store's plan reads."""
    return sum(chain.size for chain in chains_of(plan))


def need_of(plan: StorePlan, provider: Provider) -> int:
    """Returns an upper estimate of the memory that a store's plan takes, in bytes."""
    needs = (_need(chain, provider) for chain in chains_of(plan))
    return max(needs, default=0)


def _need(chain: Chain, provider: Provider) -> int:
    deltas = sum(delta.entry.size for delta in chain.deltas)
    folded = BUFFERS + _KEYS * deltas
    return folded if provider is Provider.ROCKSDB else min(folded, _OBJECTS * chain.size)
