"""Live queries of one Spark, each with a checkpoint and an output of its own."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.checkpoints.archive import States
from tests.checkpoints.environments import VERSIONS, run_jobs
from tests.checkpoints.queries import Kind, kinds_of, release, write_input

BATCHES = 12
_BATCHES_OF_ANOTHER = 6


@dataclass(frozen=True, slots=True)
class Live:
    """All queries that a version can run.

    Attributes:
        version: of the Spark that runs them.
        place: what they share: the input, and what Spark leaves behind.
        name: tells them from others that share it.
    """

    version: str
    place: Path
    name: str

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What they are."""
        return kinds_of(self.version)

    def root(self, kind: Kind) -> Path:
        """Returns where all that belongs to a query lies."""
        return self.place / self.name / kind.name

    def checkpoint(self, kind: Kind) -> Path:
        """Returns where the checkpoint of a query lies."""
        return self.root(kind) / "checkpoint"

    def output(self, kind: Kind) -> list[str]:
        """Returns all rows that a query has put out, sorted."""
        files = (self.root(kind) / "output").glob("part-*.json")
        return sorted(line for file in files for line in file.read_text().splitlines())


def begin(live: Live) -> None:
    """Runs the first batches; what this Spark cannot begin, another has begun for it."""
    for version in VERSIONS:
        kinds = [kind for kind in live.kinds if _beginner(live.version, kind) == version]
        if kinds and version != live.version:
            write_input(_input(live), range(_BATCHES_OF_ANOTHER))
            run_jobs(version, list(_runs(live, kinds)), live.place)
    go_on(live, batches=BATCHES)


def go_on(*lives: Live, batches: int) -> None:
    """Runs what is left of so many batches, and the empty one that moves the watermark on."""
    for live in lives:
        write_input(_input(live), range(batches))
    first, *_ = lives
    jobs = [job for live in lives for job in _runs(live, live.kinds)]
    run_jobs(first.version, jobs, first.place)


def read(*lives: Live) -> list[dict[str, States]]:
    """Returns what the state of each query is after each batch still in its log, by kind.

    Sparks before 4.0 cannot read state; the newest reads theirs as well.
    """
    first, *_ = lives
    jobs = [{"read": str(live.checkpoint(kind))} for live in lives for kind in live.kinds]
    results = iter(run_jobs(_reader_of(first.version), jobs, first.place))
    return [{kind.name: next(results) for kind in live.kinds} for live in lives]


def _reader_of(version: str) -> str:
    """Returns the Spark that reads the state of a version."""
    return version if release(version) >= (4, 0) else VERSIONS[-1]


def _beginner(version: str, kind: Kind) -> str:
    able = [one for one in VERSIONS if release(one) <= kind.begun_until]
    return version if version in able else able[-1]


def _runs(live: Live, kinds: Iterable[Kind]) -> Iterable[dict[str, str]]:
    for kind in kinds:
        root = str(live.root(kind))
        yield {"run": kind.name, "input": str(_input(live)), "root": root}


def _input(live: Live) -> Path:
    return live.place / "input"
