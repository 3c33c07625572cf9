"""The verdict on a checkpoint, one of five words, and its depth: every interface shows these."""

from collections.abc import Iterable
from enum import StrEnum, unique
from typing import Self

from statemaint.wording import Explained


@unique
class Verdict(StrEnum):
    """Whether a query restarts, the worst first; each with its meaning, exit code and colour."""

    meaning: str
    exit_code: int
    mark: str

    def __new__(
        cls, value: str, meaning: str = "", exit_code: int = 0, mark: str = "plain"
    ) -> Self:
        verdict = str.__new__(cls, value)
        verdict._value_ = value
        verdict.meaning, verdict.exit_code, verdict.mark = meaning, exit_code, mark
        return verdict

    BROKEN = "broken", "it does not restart", 3, "bad"
    UNKNOWN = "unknown", "it could not be looked at", 5, "warn"
    DEGRADED = "degraded", "it restarts, but something is wrong", 3, "warn"
    EMPTY = "empty", "no batch is committed yet"
    HEALTHY = "healthy", "it restarts", 0, "good"

    @property
    def rank(self) -> int:
        """Returns how bad it is; 0 for a healthy checkpoint."""
        return [*reversed(Verdict)].index(self)

    @classmethod
    def ranked(cls, rank: float) -> "Verdict":
        return [*reversed(cls)][int(rank)]

    @classmethod
    def of(cls, *, unread: bool, blocked: bool, damaged: bool, committed: bool) -> "Verdict":
        """Returns the verdict; `blocked`: a restart fails, or loads what it must not."""
        if unread:
            return cls.UNKNOWN
        if blocked:
            return cls.BROKEN
        if damaged:
            return cls.DEGRADED
        return cls.HEALTHY if committed else cls.EMPTY


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    return max(verdicts, key=lambda verdict: verdict.rank)


@unique
class Looked(Explained):
    """How deep a verdict looked; each includes those before it."""

    NAMES = "names", "the logs, and the names and sizes of files"
    ENDS = "ends", "the beginning and end of every needed file"
    FILES = "files", "every needed file"
    ROWS = "rows", "every file, and the rows of the newest version"

    @property
    def depth(self) -> int:
        return list(Looked).index(self)
