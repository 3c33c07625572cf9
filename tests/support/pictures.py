"""`python -m tests.support.pictures`: the pictures of docs/concepts.md, from real checkpoints.

Each shows one store of a checkpoint in `tests/checkpoints`, as its folder lists it: a column for
each version. Nothing is drawn that is not in that listing, before and after `statemaint maintain`.
"""

import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.storage import LocalStorage
from tests.checkpoints.archive import contents
from tests.support.checkpoints import put_files
from tests.support.paths import ROOT

FOLDER = ROOT / "docs" / "images"
POLICY = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=4, grace=0.0)
_STORE = "state/0/0"
_LEFT, _STEP, _SIDE, _ROW = 118, 46, 36, 44
_ROWS = ("commit log", "changes", "snapshots")
_STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #222; } .small { font-size: 11px; }
.line { stroke: #222; fill: none; } .kept { fill: #cfe3ff; stroke: #2457a5; }
.read { fill: #ffd9a8; stroke: #a35a00; } .gone { fill: none; stroke: #999; stroke-dasharray: 3 3; }
.lost { fill: #ffc9c9; stroke: #b00020; } .commit { fill: #222; }
@media (prefers-color-scheme: dark) {
text { fill: #ddd; } .line { stroke: #ddd; } .commit { fill: #ddd; }
.kept { fill: #1b3a63; } .read { fill: #6b430f; } .lost { fill: #6d1220; } }
</style>"""


@dataclass(frozen=True, slots=True)
class Listing:
    """One store's folder and the commit log.

    Attributes:
        batches: those in the commit log.
        changes: the versions with a delta or changelog.
        snapshots: the versions with a snapshot or zip.
        named: what a file of changes and a snapshot are named.
    """

    batches: frozenset[int]
    changes: frozenset[int]
    snapshots: frozenset[int]
    named: tuple[str, str]

    @property
    def target(self) -> int:
        return max(self.batches) + 1

    @property
    def read(self) -> frozenset[int]:
        """Returns the versions of changes that a restart reads, above the newest snapshot."""
        base = max((one for one in self.snapshots if one <= self.target), default=0)
        return frozenset(range(base + 1, self.target + 1))


def listed(root: Path) -> Listing:
    """Reads the names of a checkpoint's first store and of its commits."""
    names = [file.name for file in (root / _STORE).iterdir()]
    rocks = any(name.endswith(".changelog") for name in names)
    change, snapshot = ("changelog", "zip") if rocks else ("delta", "snapshot")
    return Listing(
        _numbers(r"(\d+)", [file.name for file in (root / "commits").iterdir()]),
        _numbers(rf"(\d+)\.{change}", names),
        _numbers(rf"(\d+)\.{snapshot}", names),
        (change, snapshot),
    )


def _numbers(pattern: str, names: list[str]) -> frozenset[int]:
    found = (re.fullmatch(pattern, name) for name in names)
    return frozenset(int(one[1]) for one in found if one)


def draw(now: Listing, before: Listing | None = None) -> str:
    """Returns a picture of a store; files that were there before are dashed outlines."""
    first, last = 1, now.target
    width = _LEFT + _STEP * (last - first + 1) + 10
    parts = [*_names(now, last), *_files(now, before or now, last), *_marks(now)]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} 214" width="{width}">'
    return "\n".join((head, _STYLE, *parts, "</svg>\n"))


def _names(now: Listing, last: int) -> Iterator[str]:
    for row, name in enumerate(("version", *_ROWS)):
        yield f'<text x="4" y="{_y(row) + 22}">{name}</text>'
    for version in range(1, last + 1):
        yield f'<text x="{_x(version) + 18}" y="{_y(0) + 22}" text-anchor="middle">{version}</text>'
        if version - 1 in now.batches:
            yield f'<circle class="commit" cx="{_x(version) + 18}" cy="{_y(1) + 18}" r="5"/>'


def _files(now: Listing, before: Listing, last: int) -> Iterator[str]:
    rows = ((2, now.changes, before.changes), (3, now.snapshots, before.snapshots))
    for row, has, had in rows:
        for version in range(1, last + 1):
            missing = row == 2 and version in now.read and version not in has
            if version in has | had or missing:
                kind = "lost" if missing else _kind(now, row, version, there=version in has)
                yield _box(row, version, kind, "missing" if missing else now.named[row - 2])


def _kind(now: Listing, row: int, version: int, *, there: bool) -> str:
    if not there:
        return "gone"
    newest = max(now.snapshots, default=0)
    needed = version in now.read if row == 2 else version == newest
    return "read" if needed else "kept"


def _box(row: int, version: int, kind: str, name: str) -> str:
    place = f'x="{_x(version)}" y="{_y(row)}" width="{_SIDE}" height="{_SIDE}"'
    shown = {"changelog": "log", "snapshot": "snap", "missing": "none"}.get(name, name)
    text = f'<text class="small" x="{_x(version) + 18}" y="{_y(row) + 22}" text-anchor="middle">'
    return f'<rect class="{kind}" rx="3" {place}/>{text}{shown}</text>'


def _marks(now: Listing) -> Iterator[str]:
    floor = min(now.batches) + 1
    for version, name in ((floor, "floor"), (now.target, "target")):
        x = _x(version) + 18
        yield f'<text class="small" x="{x}" y="{_y(4) + 16}" text-anchor="middle">{name}</text>'
        yield f'<path class="line" d="M{x} {_y(4) + 4} V{_y(4) - 6}"/>'


def _x(version: int) -> int:
    return _LEFT + _STEP * (version - 1)


def _y(row: int) -> int:
    return 8 + _ROW * row


def pictures() -> Iterator[tuple[str, str]]:
    """Yields the name and the content of each picture."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        neglected = _unpacked("4.3.0", "aggregation2", place / "one")
        yield "chain-neglected.svg", draw(neglected)
        maintain(LocalStorage(place / "one"), POLICY)
        yield "chain-maintained.svg", draw(listed(place / "one"), neglected)
        _unpacked("4.3.0", "aggregation2", place / "two")
        (place / "two" / _STORE / "9.delta").unlink()
        yield "chain-broken.svg", draw(listed(place / "two"))
        rocks = _unpacked("rocks-4.3.0", "rocks-timed", place / "three")
        yield "chain-rocksdb.svg", draw(rocks)


def _unpacked(archive: str, kind: str, root: Path) -> Listing:
    return listed(put_files(root, contents(archive)[kind]))


if __name__ == "__main__":
    for picture, drawn in pictures():
        (FOLDER / picture).write_text(drawn)
        sys.stdout.write(f"{picture}\n")
