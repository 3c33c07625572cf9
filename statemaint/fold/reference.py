"""The reference engine: the whole state in one dictionary, one record after the other.

It also folds small states, because it needs nothing compiled.
"""

from collections import deque
from dataclasses import dataclass

from statemaint.codec.compression.base import encode
from statemaint.codec.hdfs import records
from statemaint.codec.integrity.digest import StateDigest, digest
from statemaint.fold.source import Folding, Pieces, Source
from statemaint.model.chain import Chain
from statemaint.model.files import Delta

State = dict[bytes, bytes]


@dataclass(frozen=True, slots=True)
class ClearEngine:
    """The engine in plain Python."""

    def fold(
        self, source: Source, chain: Chain, versions: tuple[int, ...], *, write: bool = True
    ) -> Folding:
        return Folding(_pieces(source, chain, versions, write=write))

    def digest(self, source: Source, path: str) -> StateDigest:
        return digest(source.rows(path), source.key)

    def check(self, source: Source, delta: Delta) -> frozenset[int]:
        deque(source.records(delta.entry.path), maxlen=0)
        return frozenset()


def _pieces(source: Source, chain: Chain, versions: tuple[int, ...], *, write: bool) -> Pieces:
    base = (chain.base,) if chain.base else ()
    with source.fetching((*base, *chain.deltas)) as near:
        states = _states(near, chain, versions)
    if write:
        for version, state in states.items():
            for piece in encode(source.compression, records.encode(state.items())):
                yield version, piece
    return {version: digest(state.items(), source.key) for version, state in states.items()}


def _states(source: Source, chain: Chain, versions: tuple[int, ...]) -> dict[int, State]:
    state = dict(source.rows(chain.base.entry.path)) if chain.base else {}
    states = {chain.start: dict(state)} if chain.start in versions else {}
    for delta in chain.deltas:
        records.apply(state, source.records(delta.entry.path))
        if delta.version in versions:
            states[delta.version] = state if delta.version == chain.version else dict(state)
    return states
