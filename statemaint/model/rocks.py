"""The facts about a RocksDB store beyond its listing: ids, references and column families. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from statemaint.model.chain import Versions
from statemaint.model.files import Delta, Snapshot, StateFile


@dataclass(frozen=True, slots=True)
class Rocks:
    """The additional facts about a RocksDB store; those of zips and changelogs are by path."""

    ids: Mapping[int, str] = field(default_factory=dict)  # those that count, as far down as known
    plain: int = 0  # the newest version below those without an id, as all below it; 0 if unknown
    parts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # of each zip, with sizes
    ours: frozenset[str] = frozenset()  # zips with our mark: an executor may write one of that name
    unsound: Mapping[str, str] = field(default_factory=dict)  # why a zip cannot be loaded
    unreadable: frozenset[str] = frozenset()  # those of them whose references are unknown
    families: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # numbers by name
    # The families that a changelog changes, of those read because a zip may be missing.
    used: Mapping[str, frozenset[int]] = field(default_factory=dict)
    # The families that zips will name once a repair has written them again, by version.
    rebuilt: Mapping[int, frozenset[int]] = field(default_factory=dict)
    evolved: frozenset[int] = frozenset()  # the first with their column families, by the schemas
    # Whether nothing but a zip shows the format of a zip's metadata that its Spark reads: with
    # unique ids, that of Spark 4.0 depends on its sessions.
    unsettled: bool = False

    def id_at(self, version: int) -> str | None:
        return self.ids.get(version)

    def counts(self, file: Delta | Snapshot) -> bool:
        """Returns whether a file belongs to the attempt that counts at its version.

        Versions without unique ids may be below those with them, and also above them.
        """
        if file.id is None:
            return file.version <= self.plain or file.version > max(self.ids, default=0)
        return self.ids.get(file.version) == file.id

    def is_dead(self, file: Delta | Snapshot) -> bool:
        """Returns whether a file is known to belong to an attempt that does not count.

        Without changelogs no lineage names the attempts whose commits are purged.
        """
        known = file.version <= self.plain or file.version >= min(self.ids, default=0)
        return known and not self.counts(file)

    def loaded(self, files: Iterable[StateFile]) -> Iterator[StateFile]:
        return (it for it in files if isinstance(it, Delta | Snapshot) and self.counts(it))

    def sound(self, files: Iterable[StateFile]) -> Iterator[StateFile]:
        """Yields the changelogs that count, and the counting zips that can be loaded."""
        return (file for file in self.loaded(files) if file.entry.path not in self.unsound)

    def versions(self, files: Iterable[StateFile]) -> Versions:
        named = {path: frozenset(numbers.values()) for path, numbers in self.families.items()}
        return replace(Versions.of(files), named=named, used=self.used, rebuilt=self.rebuilt)

    def parts_of(self, zips: Iterable[str]) -> frozenset[str]:
        return frozenset(part for path in zips for part in self.parts.get(path, ()))

    def with_parts(self, path: str, parts: Mapping[str, int]) -> "Rocks":
        return replace(self, parts={**self.parts, path: parts})


def oldest_kept(zips: Iterable[int], newest: int, retained: int) -> int:
    """Returns the version of the oldest zip that a clean-up keeps; 0 if it keeps all.

    It is the one from which the oldest of the retained versions loads. Mirrors
    `RocksDBFileManager.deleteOldVersions`.
    """
    return max((version for version in zips if version <= newest - retained + 1), default=0)


# -- the snapshots that executors uploaded (S9)


MOST_NOTED = 64


@dataclass(frozen=True, slots=True)
class Upload:
    """A snapshot of an executor, as it was when it was first seen."""

    version: int
    path: str
    modified: float | None = None


@dataclass(frozen=True, slots=True)
class Uploads:
    """The habits of a store's executors, which outlive the files that show them."""

    newest: tuple[Upload, ...] = ()
    widest_gap: int = 0  # the largest number of versions between one of them and the one before

    def before(self, version: int) -> int | None:
        below = (upload.version for upload in self.newest if upload.version < version)
        return max(below, default=None)

    def noting(self, upload: Upload, gap: int) -> "Uploads":
        """Returns the uploads with one more snapshot; the gaps of dropped ones still count."""
        noted = sorted({*self.newest, upload}, key=lambda upload: (upload.version, upload.path))
        widest = max(self.widest_gap, gap)
        return replace(self, newest=tuple(noted[-MOST_NOTED:]), widest_gap=widest)


NOTHING_SEEN = Uploads()
