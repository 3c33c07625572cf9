"""The record of the snapshots that executors uploaded (S9)."""

from dataclasses import dataclass, replace

MOST_NOTED = 64


@dataclass(frozen=True, slots=True)
class Upload:
    """A snapshot of an executor, as it was when it was first seen.

    Attributes:
        version: the state version that it holds.
        path: the path of the snapshot, relative to the checkpoint.
        modified: the storage's time of the snapshot.
    """

    version: int
    path: str
    modified: float | None = None


@dataclass(frozen=True, slots=True)
class Uploads:
    """The habits of a store's executors, which outlive the files that show them.

    Attributes:
        newest: the newest of their snapshots, ascending by version.
        widest_gap: the largest number of versions between one of them and the one before.
    """

    newest: tuple[Upload, ...] = ()
    widest_gap: int = 0

    def before(self, version: int) -> int | None:
        below = (one.version for one in self.newest if one.version < version)
        return max(below, default=None)

    def noting(self, upload: Upload, gap: int) -> "Uploads":
        """Returns the uploads with one more snapshot; the gaps of dropped ones still count."""
        noted = sorted({*self.newest, upload}, key=lambda one: (one.version, one.path))
        widest = max(self.widest_gap, gap)
        return replace(self, newest=tuple(noted[-MOST_NOTED:]), widest_gap=widest)


NOTHING_SEEN = Uploads()
