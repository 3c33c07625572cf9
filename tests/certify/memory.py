"""What the judge remembers: readers, snapshots of ours, and what could be made of a store."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.certify.loading import EMPTY
from tests.certify.world import File


@dataclass(frozen=True, slots=True)
class Reader:
    """Somebody who has listed a store, chosen the files of a version, and not read them yet."""

    version: int
    chosen: frozenset[str]
    listed: float


@dataclass(frozen=True, slots=True)
class Made:
    """A snapshot that maintenance has put in place.

    Attributes:
        file: as it was put.
        inputs: all changes at or below its version, as they were then.
    """

    file: File
    inputs: Mapping[str, File]


@dataclass(slots=True)
class Known:
    """What could be made of a store at the last look.

    Attributes:
        truth: the true state of each version, from 0 on, as it was then.
        sound: whether each could be made; 0 is the empty state.
    """

    truth: list[int] = field(default_factory=lambda: [EMPTY])
    sound: list[bool] = field(default_factory=lambda: [True])

    def note(self, version: int, state: int, *, sound: bool) -> bool:
        """Notes one version; returns whether that is news."""
        if version == len(self.truth):
            self.truth.append(state)
            self.sound.append(sound)
            return True
        news = (self.truth[version], self.sound[version]) != (state, sound)
        self.truth[version], self.sound[version] = state, sound
        return news
