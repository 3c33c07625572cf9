"""The truth table of deletion, row by row: the table in `fate` is what the function does.

The tables are read from the docstring, and every combination of traits is put to both. What cannot
occur is left out, with the reason why.
"""

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import fields
from enum import Enum
from itertools import product
from typing import Any

import pytest

from statemaint.plan import DeleteReason, KeepReason
from statemaint.plan.fates import (
    ChecksumTraits,
    Executors,
    Fate,
    Kind,
    Owner,
    SharedTraits,
    Standing,
    StateTraits,
    TempTraits,
    Traits,
    UnknownTraits,
    Users,
    VersionPlace,
    fate,
)

GUARDS = (KeepReason.CLOCK_SKEW, KeepReason.VERIFY_OFF, KeepReason.YOUNG, None)
VALUES: dict[str, tuple[Any, ...]] = {
    "kind": tuple(Kind),
    "place": tuple(VersionPlace),
    "standing": tuple(Standing),
    "executors": tuple(Executors),
    "users": tuple(Users),
    "owner": tuple(Owner),
    "above_target": (True, False),
    "uploading": (True, False),
    "guard": GUARDS,
}
TABLES = (StateTraits, SharedTraits, ChecksumTraits, TempTraits, UnknownTraits)
# A hold keeps everything, so no file is deleted beside a checksum that one holds.
HELD = (KeepReason.CLOCK_SKEW, KeepReason.VERIFY_OFF)
DELETED = (Owner.STALE, Owner.BELOW_BASE, Owner.ORPHAN)


def impossible(file: Traits) -> str | None:
    """Returns why no file has these traits; `None` where one may."""
    match file:
        case StateTraits(kind=Kind.DELTA, standing=Standing.STALE):
            return "a change is the truth, and never stale (S1)"
        case StateTraits(kind=Kind.DELTA, executors=Executors.LOADED | Executors.UPLOADING):
            return "no zip names a changelog, so no executor needs one"
        case ChecksumTraits(above_target=True, owner=owner) if owner in DELETED:
            return "a checksum is of its file's version, and nothing above the target is deleted"
        case ChecksumTraits(owner=owner, guard=guard) if owner in DELETED and guard in HELD:
            return "a hold keeps every file"
        case _:
            return None


def combinations(kind: type) -> Iterator[Traits]:
    names = [one.name for one in fields(kind)]
    for values in product(*(VALUES[name] for name in names)):
        file: Traits = kind(*values)
        if impossible(file) is None:
            yield file


# -- the tables of the docstring

Row = tuple[dict[str, str], str]


def read(kind: type) -> list[Row]:
    """Returns the rows of one table: the cells by column, and the fate."""
    lines = inspect.cleandoc(fate.__doc__ or "").splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"{kind.__name__}:"))
    table = []
    for line in lines[start + 2 :]:
        if not line:
            break
        table.append(line)
    head, *rows = [line.split("|") for line in table]
    names = head[0].split()
    starts = [head[0].index(name) for name in names]
    ends = [*starts, None][1:]
    return [
        ({name: cells[a:b].strip() for name, a, b in zip(names, starts, ends, strict=True)},
         says.strip())
        for cells, says in rows
    ]  # fmt: skip


READ: Mapping[type, list[Row]] = {kind: read(kind) for kind in TABLES}


def fits(row: Row, file: Traits) -> bool:
    return all(cell in {".", *words(getattr(file, name), name)} for name, cell in row[0].items())


def words(value: object, name: str) -> tuple[str, ...]:
    """Returns the cells that a trait fits."""
    if isinstance(value, bool):
        return ("yes" if value else "no",)
    if name == "guard":
        guard = "hold" if value in HELD else "young" if value else "none"
        return (guard,)
    assert isinstance(value, Enum)
    return (str(value.value),)


def meant(row: Row, file: Traits) -> Fate:
    verb, _, reason = row[1].partition(" ")
    if reason == "the guard":
        guard = getattr(file, "guard", None)
        assert isinstance(guard, KeepReason)
        return guard
    return KeepReason(reason) if verb == "keep" else DeleteReason(reason)


@pytest.mark.parametrize("kind", TABLES)
def test_the_first_row_that_fits_says_what_becomes_of_a_file(kind: type) -> None:
    for file in combinations(kind):
        row = next(row for row in READ[kind] if fits(row, file))
        assert fate(file) is meant(row, file), (file, row)


@pytest.mark.parametrize("kind", TABLES)
def test_every_row_decides_over_some_file(kind: type) -> None:
    decided = [
        next(n for n, row in enumerate(READ[kind]) if fits(row, file))
        for file in combinations(kind)
    ]
    assert sorted(set(decided)) == list(range(len(READ[kind])))


def test_every_column_is_a_trait() -> None:
    for kind in TABLES:
        assert all(list(row[0]) == [one.name for one in fields(kind)] for row in READ[kind])


def test_as_many_combinations_are_looked_at_as_can_occur() -> None:
    assert {kind.__name__: sum(1 for _ in combinations(kind)) for kind in TABLES} == {
        "StateTraits": 6 * 3 * 3 * 4 + 6 * 2 * 1 * 4,  # of snapshots, and of deltas
        "SharedTraits": 4 * 2 * 4,
        "ChecksumTraits": 2 * 4 + 2 * 4 + 3 * 2,  # above the target, kept or missing, deleted
        "TempTraits": 2 * 4,
        "UnknownTraits": 1,
    }


# -- what no change of the table may change


def every() -> Iterator[Traits]:
    for kind in TABLES:
        yield from combinations(kind)


def test_nothing_is_deleted_under_a_hold() -> None:
    held = [one for one in every() if getattr(one, "guard", None) in HELD]
    assert held
    assert all(isinstance(fate(one), KeepReason) for one in held)


def test_no_young_orphan_is_deleted() -> None:
    orphans = {
        DeleteReason.ORPHAN_TEMP,
        DeleteReason.DEAD_ATTEMPT,
        DeleteReason.UNUSED_SST,
        DeleteReason.ORPHAN_SST,
    }
    young = [one for one in every() if getattr(one, "guard", None) is KeepReason.YOUNG]
    assert not orphans & {fate(one) for one in young}


def test_what_is_above_the_target_is_never_touched() -> None:
    above = [
        one
        for one in every()
        if getattr(one, "above_target", False)
        or getattr(one, "place", None) is VersionPlace.ABOVE_TARGET
    ]
    assert {fate(one) for one in above} == {KeepReason.ABOVE_TARGET}


def test_a_change_is_deleted_below_the_base_alone_or_where_no_commit_names_it() -> None:
    changes = [one for one in every() if isinstance(one, StateTraits) and one.kind is Kind.DELTA]
    gone = [one for one in changes if isinstance(fate(one), DeleteReason)]
    assert all(
        one.place is VersionPlace.BELOW_BASE or one.standing is Standing.DEAD for one in gone
    )


def test_while_executors_upload_no_zip_and_no_table_goes_but_a_stale_one() -> None:
    uploading = [
        one
        for one in every()
        if getattr(one, "uploading", False)
        or getattr(one, "executors", None) is Executors.UPLOADING
    ]
    gone = {found for one in uploading if isinstance(found := fate(one), DeleteReason)}
    assert gone == {DeleteReason.STALE_SNAPSHOT}


def test_no_table_goes_while_a_snapshot_that_stays_refers_to_it() -> None:
    used = [SharedTraits(Users.KEPT, uploading, guard)
            for uploading, guard in product((True, False), GUARDS)]  # fmt: skip
    assert {fate(one) for one in used} == {KeepReason.USED}


def test_a_checksum_is_deleted_wherever_its_file_is() -> None:
    of_deleted = [
        one for one in every() if isinstance(one, ChecksumTraits) and one.owner in DELETED
    ]
    assert of_deleted
    assert all(isinstance(fate(one), DeleteReason) for one in of_deleted)
