"""Where the state files of a world are, so that nobody has to look through all of them."""

from collections import defaultdict

from tests.certify.files import Spot, spot


class Index:
    """The state files by store, and the commits.

    Attributes:
        live: of each store, by path.
        at: by store and version, those in the trash as well.
        tables: the paths of the tables of each name.
        commits: the batches in the commit log.
    """

    def __init__(self) -> None:
        self.live: dict[str, dict[str, Spot]] = defaultdict(dict)
        self.at: dict[tuple[str, int], dict[str, Spot]] = defaultdict(dict)
        self.tables: dict[str, set[str]] = defaultdict(set)
        self.commits: set[int] = set()

    def add(self, path: str) -> None:
        """Takes a path in."""
        if found := spot(path):
            self.at[found.store, found.version][path] = found
            if not found.trashed:
                self.live[found.store][path] = found
        elif path.endswith(".sst"):
            self.tables[path.rpartition("/")[2]].add(path)
        elif path.startswith("commits/") and path[8:].isdecimal():
            self.commits.add(int(path[8:]))

    def drop(self, path: str) -> None:
        """Forgets a path."""
        if found := spot(path):
            self.at[found.store, found.version].pop(path, None)
            self.live[found.store].pop(path, None)
        elif path.endswith(".sst"):
            self.tables[path.rpartition("/")[2]].discard(path)
        elif path.startswith("commits/") and path[8:].isdecimal():
            self.commits.discard(int(path[8:]))
