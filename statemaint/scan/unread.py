"""Partitions that could not be listed or read: their stores are halted, and the others go on.

What is not known of them never looks like "nothing there" (S10): each of their stores has a finding
in place of every other.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from statemaint.errors import IncompleteListingError, RefusedLinkError, StorageError
from statemaint.listing import Entry
from statemaint.model.checkpoint import Provider, Store
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import DEFAULT_STORE, StoreId, UnitId
from statemaint.model.rocks import Rocks
from statemaint.records.attestations import ATTESTATIONS
from statemaint.scan.layout import Layout

_NUMBER = "(0|[1-9][0-9]{0,8})"
_OF_UNIT = re.compile(rf"(?:state|{ATTESTATIONS})/{_NUMBER}/{_NUMBER}(?:/.*)?")


def unit_of(path: str) -> UnitId | None:
    """Returns the partition that a path is at or below; `None` if there is none."""
    match = _OF_UNIT.fullmatch(path)
    return UnitId(int(match[1]), int(match[2])) if match else None


def is_of_one_store(error: StorageError) -> bool:
    """Returns whether only the store that was read is refused: not the storage, nor a link."""
    refused = error.lasting or isinstance(error, IncompleteListingError)
    return refused and not isinstance(error, RefusedLinkError)


def unread(store: Store, error: StorageError) -> Store:
    detail = f"{error}; nothing is written or deleted in {store.id.directory} until it can be read"
    finding = Finding(
        FindingCode.STORAGE_FAILED, detail, store.id, path=error.path, lasting=error.lasting
    )
    return replace(store, findings=(finding,), rocks=store.rocks and Rocks())


@dataclass(slots=True)
class Refused:
    """The partitions of one scan that could not be listed; threads may share it."""

    errors: dict[UnitId, StorageError] = field(default_factory=dict)

    def listed(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Yields the entries of a listing; a partition that is refused ends only its own part."""
        try:
            yield from entries
        except StorageError as error:
            if not is_of_one_store(error):
                raise
            for one in error.refused if isinstance(error, IncompleteListingError) else (error,):
                unit = unit_of(one.path)
                if unit is None:
                    raise one from error
                self.errors.setdefault(unit, one)

    def with_stores(self, layout: Layout) -> Layout:
        """Returns a layout that has the stores of the refused partitions, as far as others show."""
        if layout.provider is Provider.UNKNOWN:
            return layout
        stores = dict(layout.stores)
        for unit in self.errors:
            names = {one.store for one in layout.stores if one.operator == unit.operator}
            if not names and unit.operator not in layout.operators:
                names = {DEFAULT_STORE}
            for name in names:
                stores.setdefault(StoreId(unit.operator, unit.partition, name), ())
        return replace(layout, stores=stores)

    def lacks(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Returns the missing files, without those that a refused partition may have."""
        return tuple(one for one in paths if unit_of(one) not in self.errors)
