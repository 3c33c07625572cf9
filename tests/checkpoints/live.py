"""Live queries of one Spark, each with a checkpoint and an output of its own."""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.checkpoints.archive import States
from tests.checkpoints.environments import VERSIONS, run_jobs
from tests.checkpoints.queries import IDS, KINDS, Kind, able, release, write_input

BATCHES = 12
_BATCHES_OF_ANOTHER = 6


@dataclass(frozen=True, slots=True)
class Live:
    """All queries of a family that a version can run.

    Attributes:
        version: of the Spark that runs them.
        place: what they share: the input, and what Spark leaves behind.
        name: tells them from others that share it.
        family: of which it can run some.
        conf: what they run with from now on, besides what their kinds say.
    """

    version: str
    place: Path
    name: str
    family: tuple[Kind, ...] = KINDS
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return able(self.version, self.family)

    def root(self, kind: Kind) -> Path:
        """Returns where all that belongs to a query lies."""
        return self.place / self.name / kind.name

    def checkpoint(self, kind: Kind) -> Path:
        return self.root(kind) / "checkpoint"

    def output(self, kind: Kind) -> list[str]:
        """Returns all rows that a query has put out, sorted."""
        files = (self.root(kind) / "output").glob("part-*.json")
        return sorted(line for file in files for line in file.read_text().splitlines())


def begin(live: Live, batches: int = BATCHES) -> None:
    """Runs the first batches; what this Spark cannot begin, another has begun for it."""
    for version in VERSIONS:
        kinds = [kind for kind in live.kinds if _beginner(live.version, kind) == version]
        if kinds and version != live.version:
            write_input(_input(live), range(_BATCHES_OF_ANOTHER))
            run_jobs(version, list(_runs(live, kinds)), live.place)
    go_on(live, batches=batches)


def go_on(*lives: Live, batches: int) -> None:
    """Runs what is left of so many batches, and the empty one that moves the watermark on."""
    for live in lives:
        write_input(_input(live), range(batches))
    first, *_ = lives
    jobs = [job for live in lives for job in _runs(live, live.kinds)]
    run_jobs(first.version, jobs, first.place)


def copy(live: Live, name: str) -> Live:
    """Copies all, to places that their operator metadata knows; what was live stays as it is.

    Operator metadata of the second format says where its schema files lie, as a whole path, and
    so a mere copy would read those of the original.
    """
    other = replace(live, name=name)
    for kind in live.kinds:
        shutil.copytree(live.root(kind), other.root(kind))
        for path in other.checkpoint(kind).glob("state/*/_metadata/v2/[0-9]*"):
            text = path.read_text()
            path.write_text(text.replace(str(live.checkpoint(kind)), str(other.checkpoint(kind))))
            path.with_name(f".{path.name}.crc").unlink()
    return other


def crash(live: Live) -> None:
    """Forgets that the newest batch of each query was committed, here and at its output.

    Its state is there. Were the output still known, Spark would not run the batch again; and
    where state has ids the query would end, for nobody would tell it any.
    """
    for kind in live.kinds:
        commits = live.checkpoint(kind) / "commits"
        newest = max(int(path.name) for path in commits.glob("[0-9]*"))
        for log in (commits, live.root(kind) / "output" / "_spark_metadata"):
            (log / str(newest)).unlink()
            (log / f".{newest}.crc").unlink()


def read(*lives: Live, newest: int | None = None, placed: bool = True) -> list[dict[str, States]]:
    """Returns what the state of each query is after the newest batches or all in its log, by kind.

    Sparks before 4.0 cannot read state, nor 4.0 what has ids; the newest reads theirs as well.
    """
    first, *_ = lives
    jobs = [
        {"read": str(live.checkpoint(kind)), "newest": newest, "placed": placed}
        for live in lives
        for kind in live.kinds
    ]
    results = iter(run_jobs(_reader_of(lives), jobs, first.place))
    return [{kind.name: next(results) for kind in live.kinds} for live in lives]


def _reader_of(lives: Sequence[Live]) -> str:
    first, *_ = lives
    with_ids = any(IDS in one.conf or any(kind.has_ids for kind in one.family) for one in lives)
    able_since = (4, 1) if with_ids else (4, 0)
    return first.version if release(first.version) >= able_since else VERSIONS[-1]


def _beginner(version: str, kind: Kind) -> str:
    beginners = [one for one in VERSIONS if release(one) <= kind.begun_until]
    return version if version in beginners else beginners[-1]


def _runs(live: Live, kinds: Iterable[Kind]) -> Iterable[dict[str, Any]]:
    shared = {"input": str(_input(live)), "conf": dict(live.conf)}
    for kind in kinds:
        yield {"run": kind.name, "root": str(live.root(kind)), **shared}


def _input(live: Live) -> Path:
    return live.place / "input"
