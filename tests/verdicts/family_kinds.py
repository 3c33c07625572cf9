"""The kinds of damage to stores with column families: a zip alone says which number is whose."""

from collections.abc import Callable, Iterator
from pathlib import Path

from tests.matrix.test_damage import Spoil, cut, empty, gone
from tests.verdicts.damages import (
    ROCKS,
    TOP,
    Damage,
    History,
    Kind,
    both,
    change,
    directory,
    lost,
    removed,
    snapshot,
    spoilt,
)
from tests.verdicts.place import Place, copy, flipped, remove, spoil
from tests.verdicts.query import EVOLVES, Shape

_ROWS, _EMPTY = 1, 0
"""The partition that has all rows of transformWithState, and the one that has none."""
_EVOLVED = EVOLVES + 1
"""The version of the zip that a new state variable forces."""
_WAYS = (("missing", gone), ("cut", cut), ("empty", empty), ("flipped", flipped))


def families() -> Iterator[Kind]:
    for shape in (Shape.TRANSFORM, Shape.EVOLVED, Shape.JOIN_3, Shape.JOIN_4):
        yield from _of_every(shape)
    for shape in (Shape.TRANSFORM, Shape.EVOLVED):
        yield from _of_transform(shape)
    yield from _of_evolution()
    yield from _of_removal()


def _kind(shape: Shape, name: str, damage: Damage, history: History = History.WHOLE) -> Kind:
    return Kind(shape.value, name, damage, history, ROCKS, shape)


def _of_every(shape: Shape) -> Iterator[Kind]:
    for history in (History.WHOLE, History.MAINTAINED):
        yield _kind(shape, "as it was", lambda _: None, history)
    for name, how in _WAYS[:1] if shape is Shape.JOIN_4 else _WAYS:  # as format 3
        yield _kind(shape, f"oldest zip {name}", spoilt(_zip(1), how))
    yield _kind(shape, "SST of the oldest zip missing", _without_table(1))
    yield _kind(
        shape, "oldest zip and the change above it missing", both(lost(_zip(1)), lost(_change(2)))
    )
    yield _kind(shape, "newest change missing", lost(_change(TOP)))
    yield _kind(shape, "oldest change missing", lost(_change(1)))
    yield _kind(shape, "operator metadata missing", removed("state", "0", "_metadata"))
    yield _kind(shape, "schema missing", removed("state", "0", "_stateSchema"))
    taken = directory(lambda place: place.store() / place.name(TOP + 1, "delta"))
    yield _kind(shape, "a directory named as the next change", taken)
    yield _kind(shape, "newest zip missing", _without_zips(-1, None), History.MAINTAINED)
    yield _kind(shape, "every zip missing", _without_zips(0, None), History.MAINTAINED)


def _of_transform(shape: Shape) -> Iterator[Kind]:
    yield _kind(shape, "as it was", lambda _: None, History.TRIMMED)
    for history in (History.WHOLE, History.TRIMMED):
        for name, how in _WAYS[:3]:
            yield _kind(shape, f"newest zip {name}", _spoilt_newest(how), history)
    yield _kind(shape, "SST of the newest zip missing", _without_newest_table)
    yield _kind(shape, "SST of the newest zip missing", _without_newest_table, History.TRIMMED)
    yield _kind(shape, "all zips but the oldest missing", _without_zips(1, None))
    yield _kind(shape, "all zips but the newest missing", _without_zips(0, -1))
    yield _kind(shape, "every zip missing", _without_zips(0, None))
    yield _kind(shape, "newest zip with the content of the oldest", _older_content)
    for name, zips in (("oldest zip", slice(0, 1)), ("every zip", slice(None))):
        only = _without_zips(zips.start or 0, zips.stop, partition=_EMPTY)
        yield _kind(shape, f"{name} of a partition without rows missing", only)


def _of_evolution() -> Iterator[Kind]:
    shape, middle = Shape.EVOLVED, _zip(_EVOLVED)
    for name, how in _WAYS:
        yield _kind(shape, f"zip of the new variable {name}", spoilt(middle, how))
    newest = _spoilt_newest(gone)
    for name, how in _WAYS[:3]:
        damage = both(newest, spoilt(middle, how))
        yield _kind(shape, f"newest zip missing, that of the new variable {name}", damage)
    table = _without_table(_EVOLVED)
    yield _kind(shape, "SST of the zip of the new variable missing", table)
    yield _kind(
        shape, "newest zip missing, and an SST of that of the new variable", both(table, newest)
    )
    yield _kind(shape, "change of the new variable missing", lost(_change(_EVOLVED)))
    yield _kind(
        shape, "newest zip and a change of the new variable missing",
        both(newest, lost(_change(_EVOLVED + 1))),
    )  # fmt: skip


def _of_removal() -> Iterator[Kind]:
    shape, newest = Shape.REDUCED, _spoilt_newest(gone)
    for history in (History.WHOLE, History.MAINTAINED):
        yield _kind(shape, "as it was", lambda _: None, history)
    for name, how in (_WAYS[0], _WAYS[1]):
        middle = spoilt(_zip(_EVOLVED), how)
        yield _kind(shape, f"zip of the removal {name}", middle)
        yield _kind(shape, f"newest zip missing, that of the removal {name}", both(newest, middle))
    yield _kind(shape, "all zips but the newest missing", _without_zips(0, -1))
    yield _kind(shape, "every zip missing", _without_zips(0, None))


def _older_content(place: Place) -> None:
    zips = place.snapshots(_ROWS)
    copy(zips[min(zips)], zips[max(zips)])


def _zip(version: int) -> Callable[[Place], Path]:
    return snapshot(version, partition=_ROWS)


def _change(version: int) -> Callable[[Place], Path]:
    return change(version, partition=_ROWS)


def _without_table(version: int) -> Damage:
    return lambda place: remove(place.shared_table(version, _ROWS))


def _without_newest_table(place: Place) -> None:
    remove(place.table(max(place.snapshots(_ROWS)), _ROWS))


def _spoilt_newest(how: Spoil) -> Damage:
    return lambda place: spoil(place.snapshot(max(place.snapshots(_ROWS)), _ROWS), how)


def _without_zips(first: int, end: int | None, partition: int = _ROWS) -> Damage:
    """Deletes zips by their place among all of the partition, the oldest being 0."""

    def damage(place: Place) -> None:
        for _, path in sorted(place.snapshots(partition).items())[first:end]:
            remove(path)

    return damage
