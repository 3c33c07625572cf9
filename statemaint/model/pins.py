"""A pin: a claim on what one batch needs, until a time (S3)."""

from dataclasses import dataclass

from statemaint.model.ids import version_of


@dataclass(frozen=True, slots=True)
class Pin:
    """A pin, as its file has it; times are by the storage's clock."""

    path: str
    batch: int | None  # it stays loadable; `None`, for every batch, if the file is unreadable
    created: float
    until: float  # when it ends unless it is renewed
    by: str  # who made it, and why; of a file that cannot be read, the reason

    @property
    def id(self) -> str:
        """Returns the name that it is ended by: that of its file, without the ending."""
        return self.path.rpartition("/")[2].removesuffix(".json")

    @property
    def version(self) -> int:
        """Returns the version that stays loadable with all above it."""
        return 1 if self.batch is None else version_of(self.batch)

    def holds(self, now: float) -> bool:
        return now < self.until
