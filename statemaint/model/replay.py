"""The files that a restart reads of a store, and an estimate of the time that it takes. Pure.

The estimate is for ranking and alerting, not a promise: a file costs one request, and its bytes are
read and decoded at `BYTES_PER_SECOND`.
"""

from dataclasses import dataclass

from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store

FILE_SECONDS, BYTES_PER_SECOND = 0.01, 20e6
LONG_CHAIN, LONG_SECONDS = 200, 300
"""A restart that replays more deltas, or takes longer, is long: the alerts' thresholds."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The files that a load of one version of a store reads.

    Attributes:
        files: the files that it reads, including those that a zip refers to.
    """

    chain: int
    files: int
    bytes: int

    @property
    def seconds(self) -> float:
        return self.files * FILE_SECONDS + self.bytes / BYTES_PER_SECOND


def replay_of(store: Store, version: int | None) -> Replay | None:
    """Returns the files that a load of a version reads; `None` if it does not load."""
    chain = None if version is None else store.versions.chain(version)
    return replay_of_chain(store, chain) if isinstance(chain, Chain) else None


def replay_of_chain(store: Store, chain: Chain) -> Replay:
    rocks = store.rocks
    parts = rocks.parts.get(chain.base.entry.path, {}) if rocks and chain.base else {}
    files = len(chain.paths) + len(parts)
    return Replay(len(chain.deltas), files, chain.size + sum(parts.values()))
