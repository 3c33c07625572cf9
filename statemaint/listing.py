"""One line of a storage's listing."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A file as its storage lists it.

    Attributes:
        path: relative to the checkpoint's root, with `/` between its parts.
        size: in bytes.
        modified: seconds since the epoch by the storage's own clock; `None` where it has none.
        tag: the storage's own mark of the content, such as an ETag; `None` where it has none.
    """

    path: str
    size: int
    modified: float | None
    tag: str | None = None

    @property
    def name(self) -> str:
        """Returns the last part of the path."""
        return self.path.rpartition("/")[2]
