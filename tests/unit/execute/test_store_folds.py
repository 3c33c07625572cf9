"""What a store's folds ask of the engine, and what is not folded twice."""

from collections.abc import Generator
from dataclasses import dataclass, field

import pytest

from statemaint.codec.integrity.digest import StateDigest
from statemaint.execute.snapshot_writer import StoreFolds
from statemaint.fold import ClearEngine, Folding, Source
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Store
from statemaint.model.files import Snapshot
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import checkpoint, store
from tests.support.rocks import rocks_checkpoint, rocks_store

DIGEST = StateDigest(1, 2, "0" * 32)
Digests = dict[int, StateDigest]


@dataclass(frozen=True, slots=True)
class Asked(ClearEngine):
    """Folds nothing, and remembers what it was asked for."""

    folds: list[tuple[Snapshot | None, Chain, tuple[int, ...], bool]] = field(default_factory=list)

    def fold(
        self, source: Source, chain: Chain, versions: tuple[int, ...], *, write: bool = True
    ) -> Folding:
        self.folds.append((source.families, chain, versions, write))
        return Folding(nothing(versions))


def nothing(versions: tuple[int, ...]) -> Generator[tuple[int, bytes], None, Digests]:
    yield from ()
    return dict.fromkeys(versions, DIGEST)


def folds(found: Store) -> tuple[StoreFolds, Asked]:
    described = (rocks_checkpoint if found.rocks else checkpoint)(found, batches=range(3))
    engine = Asked()
    return StoreFolds(found, Source.of(MemoryStorage(), found, described), engine), engine


def chain(found: Store, version: int) -> Chain:
    made = found.versions.from_log(version, proved=())
    assert made is not None
    return made


def test_a_zip_says_how_a_chain_below_the_first_one_is_folded() -> None:
    found = rocks_store("1c 2c 2z")
    one, engine = folds(found)
    below = chain(found, 2)
    assert one.state(below, found.versions.base(2)) == DIGEST
    assert engine.folds == [(found.versions.base(2), below, (2,), False)]


def test_what_is_written_is_asked_for() -> None:
    found = store("1d 2d 3d")
    one, engine = folds(found)
    assert [*one.fold(chain(found, 3), (3, 2))] == []
    assert engine.folds == [(None, chain(found, 3), (3, 2), True)]


@pytest.mark.parametrize(("version", "again"), [(2, False), (3, False), (4, True)])
def test_a_part_of_a_folded_chain_is_not_folded_again(version: int, *, again: bool) -> None:
    found = rocks_store("1c 2c 2z 3c 4c")
    one, engine = folds(found)
    one.must_give(chain(found, 3))
    assert engine.folds == [(found.versions.base(3), chain(found, 3), (3,), False)]
    one.must_give(chain(found, version))
    assert (len(engine.folds) == 2) is again
