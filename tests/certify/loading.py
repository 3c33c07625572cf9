"""What Spark loads for a version, and what could be made of all that is left.

States have numbers: what was applied once is never applied again, so that a chain of hundreds of
files costs hundreds of look-ups.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.certify.files import State, UnreadableError, applied, decode, fits, replayed
from tests.certify.world import World

EMPTY = 0


@dataclass(slots=True)
class States:
    """The states of one schedule by number, and what changes make of them."""

    codec: str = "lz4"
    known: list[State] = field(default_factory=lambda: [{}])
    numbers: dict[frozenset[tuple[bytes, bytes]], int] = field(
        default_factory=lambda: {frozenset(): EMPTY}
    )
    steps: dict[tuple[int, bytes, frozenset[int] | None], int | None] = field(default_factory=dict)

    def of(self, state: State) -> int:
        key = frozenset(state.items())
        if key not in self.numbers:
            self.numbers[key] = len(self.known)
            self.known.append(state)
        return self.numbers[key]

    def step(
        self, number: int, content: bytes, families: frozenset[int] | None = None
    ) -> int | None:
        """Returns what a file of changes makes of a state; `None` where it does not load.

        Args:
            number: the state's.
            content: the file.
            families: the column families that Spark knows when it replays it; `None`: the store has
                none, or no matter who could name them.
        """
        key = number, content, families
        if key not in self.steps:
            self.steps[key] = self._stepped(*key)
        return self.steps[key]

    def _stepped(self, number: int, content: bytes, families: frozenset[int] | None) -> int | None:
        try:
            rows = decode(content, self.codec)
        except UnreadableError:
            return None
        before = self.known[number]
        after = applied(before, rows) if families is None else replayed(before, rows, families)
        return None if after is None else self.of(after)


@dataclass(frozen=True, slots=True)
class Read:
    """What Spark loads for a version.

    Attributes:
        state: its number; `None` where it does not load.
        base: the whole state that it begins with, if there is one.
        paths: of the changes above it.
    """

    state: int | None
    base: str | None = None
    paths: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        return (self.base, *self.paths) if self.base else self.paths


@dataclass(slots=True)
class Loader:
    """Spark's rule for names without unique ids: the newest snapshot at or below, then changes."""

    world: World
    states: States
    kinds: tuple[str, str] = ("delta", "snapshot")

    def load(self, store: str, versions: Iterable[int]) -> Mapping[int, Read]:
        """Returns what Spark loads for each version, ascending."""
        changes, wholes = self._listed(store)
        starts = sorted({0, *wholes})
        found: dict[int, Read] = {}
        for version in versions:
            base = starts[bisect_right(starts, version) - 1]
            before = found.get(version - 1)
            if before and base < version:
                found[version] = self._next(before, changes.get(version))
                continue
            read = self._whole(wholes[base]) if base else Read(EMPTY)
            for one in range(base + 1, version + 1):
                read = self._next(read, changes.get(one))
            found[version] = read
        return found

    def _listed(self, store: str) -> tuple[dict[int, str], dict[int, str]]:
        changes: dict[int, str] = {}
        wholes: dict[int, str] = {}
        for path, spot in self.world.index.live[store].items():
            if spot.id is None:
                (changes if spot.kind == "delta" else wholes)[spot.version] = path
        return changes, wholes

    def _next(self, read: Read, path: str | None) -> Read:
        state = None
        if path and read.state is not None and self._unspoiled(path):
            content = self.world.files[path].content
            state = self.states.step(read.state, content, self._families(read.base))
        return Read(state, read.base, (*read.paths, path) if path else read.paths)

    def _families(self, _base: str | None) -> frozenset[int] | None:
        """Returns the column families that Spark knows from a base; `None`: it has none."""
        return None

    def _unspoiled(self, path: str) -> bool:
        beside = self.world.files.get(f"{path}.crc")
        return beside is None or fits(beside.content, self.world.files[path].content)

    def _whole(self, path: str) -> Read:
        state = self.whole(path)
        return Read(None if state is None else self.states.of(state), path)

    def whole(self, path: str) -> State | None:
        """Returns the state that Spark loads from a snapshot; `None` where it does not load."""
        return self.bare(path) if self._unspoiled(path) else None

    # -- what is left

    def sound(
        self, store: str, version: int, truth: list[int], *, before: bool, trash: bool = True
    ) -> bool:
        """Returns whether a version could be made of what is left, in the store or in the trash.

        Args:
            store: its directory.
            version: which.
            truth: the true state of each version.
            before: whether the version before could be.
            trash: whether what is in the trash counts.
        """
        for path, one in self.world.index.at.get((store, version), {}).items():
            if one.trashed and not trash:
                continue
            if path.endswith(self.kinds[1]):
                state = self.bare(path)
                if state is not None and self.states.of(state) == truth[version]:
                    return True
            elif before:
                content = self.world.files[path].content
                if self.states.step(truth[version - 1], content) == truth[version]:
                    return True
        return False

    def bare(self, path: str) -> State | None:
        """Returns the state in a snapshot, in the store or the trash, whatever lies beside it."""
        number = self.states.step(EMPTY, self.world.files[path].content)
        return None if number is None else self.states.known[number]
