"""Executors of a query with RocksDB: what each has on its disk, and has not uploaded yet."""

from collections.abc import Mapping
from dataclasses import dataclass

from tests.certify.files import Item
from tests.certify.query import Attempt
from tests.certify.rocks_files import NO_FAMILIES, Families, Zipped


@dataclass(slots=True)
class Held:
    """A snapshot that an executor has on its disk, and nobody else has seen.

    Attributes:
        directory: of its store.
        version: of which version.
        path: of its zip.
        zip: its content.
        new: the tables to upload with it, by path.
        old: the paths of the tables that it needs and that are in storage already.
        begun: the version at which its executor had loaded, or that it had last uploaded.
        zipped: what it is.
        owner: the executor.
    """

    directory: str
    version: int
    path: str
    zip: bytes
    new: Mapping[str, bytes]
    old: frozenset[str]
    begun: int
    zipped: Zipped
    owner: "Executor"


@dataclass(slots=True)
class Commit(Attempt):
    """What a task writes at its end.

    Attributes:
        held: the snapshot that it uploads before its changes, where it has to.
        logged: whether it writes changes.
    """

    held: Held | None = None
    logged: bool = True


@dataclass(slots=True)
class Executor:
    """Who has a store's database on a local disk.

    Attributes:
        base: the newest zip that it has loaded or uploaded.
        last: the version of its last snapshot, uploaded or not.
        begun: the version at which it loaded, or that it last uploaded.
        lineage: what came before, where versions have ids.
        alive: whether it may still make snapshots.
        path: of the zip that it has loaded.
        families: the column families of the store, with those that its code adds and without those
            that its code drops.
        dropped: the numbers of families whose rows its first batch removes.
        forced: whether its next commit uploads a snapshot, since the families are others.
    """

    base: Zipped | None = None
    last: int = 0
    begun: int = 0
    lineage: tuple[Item, ...] = ()
    alive: bool = True
    path: str | None = None
    families: Families = NO_FAMILIES
    dropped: frozenset[int] = frozenset()
    forced: bool = False
