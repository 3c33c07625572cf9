"""What every part of the benchmarks works with."""

from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.benchmarks import floor, ours
from tests.benchmarks.cases import Case
from tests.benchmarks.inputs import Input, copy_of, prepare, state_files, store_folder
from tests.benchmarks.measure import Seconds, median_of, timed
from tests.benchmarks.spark import Sparks
from tests.benchmarks.tables import Results


@dataclass(frozen=True, slots=True)
class Floor:
    """What the least takes that must be done."""

    read: Seconds
    write: Seconds

    @property
    def total(self) -> Seconds:
        """Returns the seconds of both."""
        return self.read + self.write


@dataclass(frozen=True, slots=True)
class Fold:
    """What our fold and write takes, and the floor; the bytes of the snapshot's payload."""

    ours: Seconds
    floor: Floor
    out: int

    @property
    def ratios(self) -> tuple[float, float]:
        """Returns how many times the floor ours takes, by the clock and by CPU."""
        low = self.floor.total
        return self.ours.wall / low.wall, self.ours.cpu / low.cpu


@dataclass(frozen=True, slots=True)
class Bench:
    """How to measure, and where the results go.

    Attributes:
        folder: where the generated checkpoints are.
        repeat: of how many repetitions the median is taken.
        results: the tables.
        sparks: the JVM; `None` leaves Spark out.
    """

    folder: Path
    repeat: int
    results: Results
    sparks: Sparks | None = None

    def prepare(self, case: Case) -> Input:
        """Returns a case's checkpoint, which is generated where it is not there yet."""
        self.results.say(f"{case.name}: preparing")
        return prepare(case, self.folder)

    def fold(self, given: Input) -> Fold:
        """Measures our fold and write, and the floor in turn with it: both meet the same noise."""
        self.results.say(f"{given.case.name}: fold + write, floor")
        with copy_of(given) as root:
            ours.fold_and_write(root, given.case.last)  # warms up, too
            payload = floor.payload(snapshot(given, root))
        taken = [(self._fold(given), self.floor(given, payload)) for _ in range(self.repeat)]
        low = Floor(
            median_of(one.read for _, one in taken), median_of(one.write for _, one in taken)
        )
        return Fold(median_of(one for one, _ in taken), low, len(payload))

    def _fold(self, given: Input) -> Seconds:
        with copy_of(given) as root:
            return timed(ours.fold_and_write, root, given.case.last)

    def floor(self, given: Input, payload: bytes) -> Floor:
        """Measures the floor once, with a snapshot's payload to write."""
        with copy_of(given) as root:
            read = timed(floor.read, state_files(given.root))
            write = timed(floor.write, payload, store_folder(root) / "floor")
        return Floor(read, write)

    def maintain(self, given: Input) -> float:
        """Measures our whole run."""
        self.results.say(f"{given.case.name}: maintain")
        samples = []
        for _ in range(1 + self.repeat):
            with copy_of(given) as root:
                samples.append(timed(ours.maintain_all, root).wall)
        return median(samples[1:])


def snapshot(given: Input, root: Path, partition: int = 0) -> Path:
    """Returns where the target version's snapshot is in a copy of a checkpoint."""
    return store_folder(root, partition) / f"{given.case.last}.snapshot"
