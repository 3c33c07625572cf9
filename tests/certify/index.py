"""Where the files of a world are, so that nobody has to look through all of them."""

import sys
from bisect import bisect_left, insort
from collections import defaultdict

from tests.certify.files import Spot, spot


class Index:
    """All paths in their order, the state files by store, and the commits.

    Attributes:
        live: the state files of each store, by path.
        at: by store and version, those in the trash as well.
        wholes: the versions of each store's whole states, those in the trash as well, by path.
        tables: the paths of the tables of each name.
        commits: the batches in the commit log.
    """

    def __init__(self) -> None:
        self.live: dict[str, dict[str, Spot]] = defaultdict(dict)
        self.at: dict[tuple[str, int], dict[str, Spot]] = defaultdict(dict)
        self.wholes: dict[str, dict[str, int]] = defaultdict(dict)
        self.tables: dict[str, set[str]] = defaultdict(set)
        self.commits: set[int] = set()
        self._paths: list[str] = []

    def under(self, start: str) -> list[str]:
        paths = self._paths
        first = bisect_left(paths, start)
        return paths[first : bisect_left(paths, start + chr(sys.maxunicode), first)]

    def add(self, path: str) -> None:
        """Takes a new path in."""
        insort(self._paths, path)
        if found := spot(path):
            self.at[found.store, found.version][path] = found
            if found.kind == "snapshot":
                self.wholes[found.store][path] = found.version
            if not found.trashed:
                self.live[found.store][path] = found
        elif path.endswith(".sst"):
            self.tables[path.rpartition("/")[2]].add(path)
        elif path.startswith("commits/") and path[8:].isdecimal():
            self.commits.add(int(path[8:]))

    def drop(self, path: str) -> None:
        del self._paths[bisect_left(self._paths, path)]
        if found := spot(path):
            del self.at[found.store, found.version][path]
            self.wholes[found.store].pop(path, None)
            self.live[found.store].pop(path, None)
        elif path.endswith(".sst"):
            self.tables[path.rpartition("/")[2]].discard(path)
        elif path.startswith("commits/") and path[8:].isdecimal():
            self.commits.discard(int(path[8:]))
