"""What is owed to whoever pins a batch, by the judge's own account: no record is read for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.certify.world import Doer, File, World

FOLDER = "_statemaint/pins/"
ONLY_READS = ("savepoint", "pin")
"""The verbs that change nothing of a checkpoint but its pins."""


@dataclass(slots=True)
class Pins:
    """The pins that somebody relies on.

    Attributes:
        world: where they are.
        held: the version, the end and the beginning of each, by the path of its file.
    """

    world: World
    held: dict[str, tuple[int, float, float]] = field(default_factory=dict)

    @property
    def first(self) -> int:
        """Returns the oldest version that a pin holds; a high one if none does."""
        return min(self._versions(), default=1 << 60)

    def _versions(self, before: float = float("inf")) -> list[int]:
        """Returns the versions of the pins that hold and were there before a time."""
        now = self.world.clock
        return [one for one, until, since in self.held.values() if now < until and since < before]

    def refuses(self, before: Mapping[str, File | None], doer: Doer) -> str | None:
        """Returns why somebody must not have made a change; `None` if no pin speaks against it."""
        for path, file in before.items():
            if doer.verb in ONLY_READS and not path.startswith(FOLDER):
                return f"S23: {doer.run} ({doer.verb}) touched {path}, of what it only reads"
            if file is None or path in self.world.files or self.world.is_late(doer):
                continue
            version, until, _ = self.held.get(path, (0, 0.0, 0.0))
            if self.world.clock < until:
                return f"S3: {doer.run} ({doer.verb}) ended {path}, which pins version {version}"
            above = (one for one in self._versions(doer.begun) if doer.back < one <= _version(path))
            if doer.verb == "rollback" and (lost := next(above, None)):
                return f"S3: {doer.run} went back to below version {lost}, which is pinned"
        return None


def _version(path: str) -> int:
    """Returns the version that an entry of the commit log is of; 0 for any other file."""
    log, _, name = path.partition("/")
    return int(name) + 1 if log == "commits" and name.isdecimal() else 0
