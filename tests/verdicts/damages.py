"""What a kind of damage is, and the damages of which most kinds are made."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum, unique
from pathlib import Path

from tests.matrix.test_damage import Spoil
from tests.verdicts.place import Place, remove, spoil
from tests.verdicts.query import BATCHES, Layout, Shape

Damage = Callable[[Place], object]
LAST = BATCHES - 1
"""The newest batch."""
TOP = BATCHES
"""The newest version."""
BASE = 8
"""The version of the newest snapshot."""
UUID = "0f6d2b1c-5a3e-4c7d-9b8a-112233445566"
ALL = tuple(Layout)
WITHOUT_IDS = (Layout.HDFS_BACKED, Layout.ROCKS_V1)
ROCKS = (Layout.ROCKS_V1, Layout.ROCKS_V2)


@unique
class History(StrEnum):
    """What happened to a checkpoint before it was damaged."""

    WHOLE = "whole log"
    """Nothing was ever deleted: the log is whole, an aggregation has snapshots at 4 and 8."""
    TRIMMED = "trimmed log"
    """Spark's own clean-up ran: nothing lies below the newest snapshot."""
    MAINTAINED = "maintained"
    """`statemaint maintain` ran at version 8: its ledger and snapshots of its own are there."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of damage.

    Attributes:
        group: the heading that it stands under.
        name: what was done, in a few words.
        damage: does it.
        history: what happened before.
        layouts: what kinds of state it can be done to.
        shape: what kind of query it is done to.
        hours: how many more files of input the restarted query reads.
        unseen: what the doctor has to call unseen where nothing in the checkpoint tells.
    """

    group: str
    name: str
    damage: Damage
    history: History = History.WHOLE
    layouts: tuple[Layout, ...] = ALL
    shape: Shape = Shape.DEDUPLICATION
    hours: int = 1
    unseen: str = ""

    @property
    def title(self) -> str:
        where = "" if self.history is History.WHOLE else f", {self.history}"
        return f"{self.group}: {self.name}{where}"


def spoilt(at: Callable[[Place], Path], how: Spoil) -> Damage:
    return lambda place: spoil(at(place), how)


def removed(*parts: str) -> Damage:
    return lambda place: remove(place.checkpoint.joinpath(*parts))


def in_checkpoint(*parts: str) -> Callable[[Place], Path]:
    return lambda place: place.checkpoint.joinpath(*parts)


def change(version: int, operator: int = 0, partition: int = 0) -> Callable[[Place], Path]:
    return lambda place: place.change(version, partition, operator)


def snapshot(version: int, operator: int = 0, partition: int = 0) -> Callable[[Place], Path]:
    return lambda place: place.snapshot(version, partition, operator)


def lost(at: Callable[[Place], Path]) -> Damage:
    """Deletes a file with its checksums."""
    return lambda place: remove(at(place))


def stray(name: str, content: bytes = b"left here by somebody") -> Damage:
    return lambda place: (place.store() / name).write_bytes(content)


def directory(name: Callable[[Place], Path], *, with_file: bool = False) -> Damage:

    def damage(place: Place) -> None:
        path = name(place)
        if path.exists():
            remove(path)
        path.mkdir()
        if with_file:
            (path / "file").write_bytes(b"left here by somebody")

    return damage


def file_instead(*parts: str) -> Damage:

    def damage(place: Place) -> None:
        path = place.checkpoint.joinpath(*parts)
        remove(path)
        path.write_bytes(b"left here by somebody")

    return damage


def both(*damages: Damage) -> Damage:

    def damage(place: Place) -> None:
        for one in damages:
            one(place)

    return damage
