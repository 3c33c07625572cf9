"""The column families that changelogs use, where a zip that names them may be missing.

Changelogs have the numbers of families, and only zips their names. Spark writes a zip with the
first version of a store that has families, and with each version that adds one, so in an intact
store no changelog needs to be read. Where such a zip is missing, the changelogs that would need it
are read up to the first one that does: a partition may never have used the new family.

    state/<op>/_stateSchema/<store>/<batch>_<uuid>   the families from that batch on

Mirrors `RocksDB.createColFamilyIfAbsent` and `RocksDB.replayChangelog` of Spark 4.3. There a load
fails with the first put or merge of an unnamed family; removals of its keys are ignored.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from statemaint.codec.compression.base import Compression, decode
from statemaint.codec.metadata import schema
from statemaint.codec.rocksdb import changelog
from statemaint.errors import CodecError, NotFoundError
from statemaint.listing import Entry
from statemaint.model.chain import DEFAULT_FAMILY
from statemaint.model.checkpoint import Store
from statemaint.model.files import UUID, Delta
from statemaint.model.ids import version_of
from statemaint.storage import Storage

_SCHEMA = re.compile(rf"(0|[1-9][0-9]{{0,17}})_{UUID}")


@dataclass(slots=True)
class FamilySchemas:
    """The schema files of one store name of an operator, each read at most once a scan."""

    storage: Storage
    entries: tuple[Entry, ...] = ()
    _names: dict[str, frozenset[str] | None] = field(default_factory=dict)

    @property
    def versions(self) -> Mapping[int, Entry]:
        """Returns the file of each version that was the first with its families."""
        found = ((_SCHEMA.fullmatch(one.name), one) for one in self.entries)
        return {version_of(int(match[1])): entry for match, entry in found if match}

    def are_named(self, version: int, families: Mapping[str, int]) -> bool:
        """Returns whether all families from a version of `versions` on are certainly among some."""
        names = self._names_at(version)
        return names is not None and names <= families.keys()

    def _names_at(self, version: int) -> frozenset[str] | None:
        """Returns the families from a version on; `None` if they cannot be read."""
        path = self.versions[version].path
        if path not in self._names:
            try:
                families = schema.parse_families(self.storage.read(path))
                self._names[path] = frozenset(one.name for one in families)
            except (CodecError, NotFoundError):
                self._names[path] = None
        return self._names[path]


def with_used_families(
    store: Store,
    schemas: FamilySchemas,
    compression: Compression,
    *,
    required: int,
    row_checksums: bool,
) -> Store:
    """Returns a RocksDB store with the families that changelogs use and that a zip may not name."""
    if store.rocks is None:
        return store
    used: dict[str, frozenset[int]] = {}
    for named, deltas in _unsure(store, schemas, required):
        for delta in deltas:
            used[delta.entry.path] = _used_by(
                schemas.storage, delta, compression, row_checksums=row_checksums
            )
            if not used[delta.entry.path] <= named:
                break
    return replace(store, rocks=replace(store.rocks, used=used)) if used else store


def _unsure(
    store: Store, schemas: FamilySchemas, required: int
) -> Iterator[tuple[frozenset[int], Iterable[Delta]]]:
    """Yields changelogs whose base may lack a family, ascending, with the families of the base."""
    versions = store.versions
    end = max(versions.deltas, default=0) + 1
    for start, stop in pairwise([0, *sorted(versions.snapshots), end]):
        base = versions.snapshots.get(start)
        families = store.rocks.families.get(base.entry.path, {}) if store.rocks and base else {}
        if stop <= required:
            continue
        first = _first_unsure(start, stop, families, schemas) if base else 1
        if first is not None:
            named = frozenset(families.values()) if base else DEFAULT_FAMILY
            between = (one for one in sorted(versions.deltas) if first <= one < stop)
            yield named, (versions.deltas[one] for one in between)


def _first_unsure(
    start: int, stop: int, families: Mapping[str, int], schemas: FamilySchemas
) -> int | None:
    """Returns the first version above a zip, and below the next one, whose families it may lack.

    The schema of the zip's own version is compared only if there are several: any zip has the first
    families, unless it is another's.
    """
    own = max((one for one in schemas.versions if one <= start), default=None)
    if own and len(schemas.versions) > 1 and not schemas.are_named(own, families):
        return start + 1
    evolved = sorted(one for one in schemas.versions if start < one < stop)
    return next((one for one in evolved if not schemas.are_named(one, families)), None)


def _used_by(
    storage: Storage, delta: Delta, compression: Compression, *, row_checksums: bool
) -> frozenset[int]:
    """Returns the families that a changelog needs by name; none if it cannot be read."""
    try:
        with storage.open(delta.entry.path) as stream:
            payload = decode(compression, stream)
            return changelog.families_used(*changelog.decode(payload, row_checksums=row_checksums))
    except (CodecError, NotFoundError):
        return frozenset()  # `verify` reports what cannot be read
