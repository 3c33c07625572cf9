"""The clean-up of executors with RocksDB, by Spark's rule."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.certify.rocks_files import tables_of

if TYPE_CHECKING:
    from tests.certify.rocks_query import RocksQuery


@dataclass(slots=True)
class Cleaner:
    """All executors' clean-up.

    Attributes:
        query: theirs.
        purged: the oldest version that it has left.
        chosen: what clean-ups that began earlier are going to delete, and would without us.
    """

    query: "RocksQuery"
    purged: int = 0
    chosen: list[tuple[str, int, list[str], frozenset[str]]] = field(default_factory=list)

    def cleanup(self, directory: str, *, late: bool = False) -> bool:
        """Mirrors `deleteOldVersions`; where it is `late`, it only chooses, and deletes later."""
        least, paths = self._old(directory)
        if not paths:
            return False
        alone = frozenset(self._old(directory, alone=True)[1])
        if late:
            self.chosen.append((directory, least, paths, alone))
            return False
        return self._clean(directory, least, paths, alone)

    def clean_late(self, number: int) -> bool:
        """Lets a clean-up that began earlier delete what it has chosen."""
        if not self.chosen:
            return False
        return self._clean(*self.chosen.pop(number % len(self.chosen)))

    def _clean(self, directory: str, least: int, paths: list[str], alone: frozenset[str]) -> bool:
        """Deletes, but for what would harm without us too: what a snapshot of theirs needs.

        Args:
            directory: of the store.
            least: the version of the oldest zip that stays.
            paths: what goes.
            alone: what would go without the zips of ours, but for those that were written before
                any executor had uploaded one: of those to come nobody knows.
        """
        harm = self._needed(directory, paths) & set(paths)
        if harm & alone or not self._counts(directory, least) or least > self.query.target:
            return False
        self.purged = max(self.purged, least)
        for path in paths:
            if path in self.query.world.files:
                self.query.world.change({path: None})
        return True

    def _needed(self, directory: str, paths: list[str]) -> set[str]:
        """Returns the tables that something of an executor's needs, uploaded or not."""
        folder = f"{directory}/SSTs/"
        bases = (one.base for one in self.query.executors.values() if one.base and one.alive)
        found = {folder + name for base in bases for name in base.stored.values()}
        for path in self.query.world.index.live[directory]:
            if self.query.is_theirs(path) and path not in paths:  # one may have been uploaded again
                content = self.query.world.files[path].content
                found |= {folder + name for name in tables_of(content)}
        found |= {path for one in self.query.waiting for path in (*one.old, *one.new)}
        return found

    def _old(self, directory: str, *, alone: bool = False) -> tuple[int, list[str]]:
        live, files = self.query.world.index.live[directory], self.query.world.files
        zips = {
            path: one.version
            for path, one in live.items()
            if one.kind == "snapshot"
            and (not alone or self.query.is_theirs(path) or self._is_blind(path))
        }
        newest = max(zips.values(), default=0)
        retained = newest - self.query.habits.retain + 1
        least = max((one for one in zips.values() if one <= retained), default=0)
        gone = sorted(path for path, one in zips.items() if one < least)
        if not gone:
            return 0, []
        folder = f"{directory}/SSTs/"
        uses = {path: {folder + one for one in tables_of(files[path].content)} for path in zips}
        kept = {one for path, few in uses.items() if path not in gone for one in few}
        tables = {one for path in gone for one in uses[path]} - kept
        tables |= set(self._orphans(folder, {one for few in uses.values() for one in few}))
        old = sorted(
            path for path, one in live.items() if one.kind == "delta" and one.version < least
        )
        return least, [*sorted(tables), *gone, *old]

    def _is_blind(self, path: str) -> bool:
        return self.query.world.blind.get(path) == self.query.world.files[path].content

    def _orphans(self, folder: str, tracked: set[str]) -> Iterator[str]:
        files = self.query.world.files
        there = [path for path in self.query.world.index.under(folder) if path.endswith(".sst")]
        oldest = min((files[one].modified for one in tracked if one in files), default=None)
        if oldest is not None and len(there) > len(tracked):
            yield from (path for path in there if files[path].modified < oldest)

    def _counts(self, directory: str, version: int) -> bool:
        unique = self.query.counted.get((directory, version))
        name = f"{version}_{unique}.zip" if unique else f"{version}.zip"
        return f"{directory}/{name}" in self.query.world.files
