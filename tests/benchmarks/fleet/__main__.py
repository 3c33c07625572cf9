"""`python -m tests.benchmarks.fleet`: measures fleets, and writes docs/scale.md."""

import json
import shutil
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import psutil

from tests.benchmarks import machine
from tests.benchmarks.fleet import tables
from tests.benchmarks.fleet.engines import ENGINES
from tests.benchmarks.fleet.parts import AT_SIZE, PARTS, Bench
from tests.benchmarks.tables import Results
from tests.support.documents import commit, of_commits, rewrite
from tests.support.paths import ROOT

_DOCUMENT = ROOT / "docs" / "scale.md"


@dataclass(frozen=True, slots=True)
class Kept:
    """The results of one part, which are kept until it is measured again.

    Attributes:
        commit: the commit that was measured.
        disk: the kind of file system that the fleets were on.
        repeat: how many turns each engine had.
        lines: the lines of each table.
    """

    commit: str
    disk: str
    repeat: int
    lines: dict[str, list[list[str]]]


@click.command()
@click.option("--part", "chosen", multiple=True, type=click.Choice(list(PARTS)),
              help="Measure only this; repeatable.")  # fmt: skip
@click.option("--engine", "engines", multiple=True, type=click.Choice(ENGINES),
              help="Measure only this engine; repeatable.")  # fmt: skip
@click.option("--repeat", default=3, show_default=True, help="Turns of each engine.")
@click.option("--folder", default=ROOT / ".run" / "bench-fleet",
              type=click.Path(path_type=Path), show_default=".run/bench-fleet",
              help="Where generated fleets and results are kept.")  # fmt: skip
@click.option("--write/--no-write", default=True, help="Whether to write docs/scale.md.")
@click.option("--measure/--no-measure", default=True, help="Or only write what was measured.")
def main(
    chosen: tuple[str, ...],
    *,
    engines: tuple[str, ...],
    repeat: int,
    folder: Path,
    write: bool,
    measure: bool,
) -> None:
    """Measures fleets by threads and by Spark.

    The document has the newest results of every part that was measured in the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in (chosen or PARTS) if measure else ():
        _measure(name, folder, repeat, engines or ENGINES)
    rest = [name for name in PARTS if name not in AT_SIZE]
    for by, names in (("make bench-fleet", rest), ("make bench-fleet, at size", AT_SIZE)):
        if write and any((folder / f"{name}.json").exists() for name in names):
            rewrite(_DOCUMENT, document(folder, names), by=by)


def _measure(name: str, folder: Path, repeat: int, engines: Collection[str]) -> None:
    """Measures a part, and keeps its results; what a killed run has left is deleted before."""
    for left in (*folder.glob("copy-*"), *folder.glob("begun-*")):
        shutil.rmtree(left)
    results = Results(sections=tables.SECTIONS)
    PARTS[name](Bench(folder.resolve(), repeat, results, engines))
    lines = {title: [*map(list, found)] for title, found in results.lines.items()}
    kept = Kept(commit(), _file_system(folder), repeat, lines)
    (folder / f"{name}.json").write_text(json.dumps(asdict(kept)))


def document(folder: Path, names: Collection[str] = tuple(PARTS)) -> str:
    """Returns the tables of those of some parts that were measured."""
    results = Results(sections=tables.SECTIONS)
    kept = {
        name: Kept(**json.loads((folder / f"{name}.json").read_text()))
        for name in names
        if (folder / f"{name}.json").exists()
    }
    for one in kept.values():
        for title, lines in one.lines.items():
            results.lines[title] += map(tuple, lines)
    turns = ", ".join(f"{name} {one.repeat}" for name, one in kept.items())
    disks = " and ".join(sorted({one.disk for one in kept.values()}))
    head = (
        f"{machine.described(spark=True)}. {of_commits(one.commit for one in kept.values())}. "
        f"The local fleets are on {disks}. Each engine had some turns, of which the quickest is "
        f"shown, by parts of the benchmark: {turns}."
    )
    return f"{head}\n\n{results.markdown()}"


def _file_system(folder: Path) -> str:
    """Returns the kind of file system that a folder is on."""
    mounts = [one for one in psutil.disk_partitions(all=True) if _is_below(folder, one.mountpoint)]
    return str(max(mounts, key=lambda one: len(one.mountpoint)).fstype)


def _is_below(folder: Path, mount: str) -> bool:
    return folder.resolve().is_relative_to(mount)


if __name__ == "__main__":
    main()
