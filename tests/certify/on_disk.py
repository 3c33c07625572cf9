"""Checkpoints with links, on a real disk: whatever is asked for, no byte outside the root changes.

The world of the other schedules is in memory and has no links. Here one of its checkpoints is
written to a folder, beside another one, as operators make them:

root        the root itself is a link
clone       a copy in which a folder of state or logs is a link to the original
ours        a folder below `_statemaint` is a link to a folder outside
shared      two checkpoints, the trash of which is one folder
file        a file of ours or of the state is a link to a file outside
hard        a copy of hard links, as `cp -al` makes one
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from statemaint.audit import doctor, verify
from statemaint.errors import StatemaintError
from statemaint.maintain import list_runs, maintain, undo
from statemaint.model.policy import Policy
from statemaint.records.trashed import trashed_runs
from statemaint.recover import repair, rollback
from statemaint.storage import LocalStorage, Storage
from tests.certify.judge import Loss
from tests.certify.maintainer import ON
from tests.certify.stage import Stage
from tests.certify.world import File

KINDS = ("root", "clone", "ours", "shared", "file", "hard")
_OF_STATE = ("state", "state/0", "state/0/0", "state/0/0/SSTs", "commits", "offsets")
_OF_OURS = ("", "/trash", "/trash/*", "/lease", "/ledger", "/ledger/*", "/attestations",
            "/attestations/*", "/runs", "/runs/*")  # fmt: skip
_FILES = ("_statemaint/lease", "_statemaint/ledger", "_statemaint/attestations", "_statemaint/runs",
          "_statemaint/trash", "state", "commits", "offsets")  # fmt: skip
_TIGHT = Policy(min_deltas_for_snapshot=1, min_batches_to_retain=1, grace=0.0, orphan_age=0.0)
_TRASHING = _TIGHT.override(trash_for=1000.0)
_EMPTYING = _TIGHT.override(max_deletes_per_run=0)

Seen = dict[str, tuple[object, ...]]


class Disk:
    """A checkpoint with links, and what lies outside of it.

    Attributes:
        kind: which links.
        root: the checkpoint, as it is named.
        real: where it really is.
        links: the links in it, and where they lead.
    """

    def __init__(self, place: Path, stage: Stage, kind: str, random: Random) -> None:
        self.kind, self._place, self._random = kind, place, random
        self.links: dict[str, str] = {}
        self._original = place / "original"
        self.root = self.real = place / "checkpoint"
        _write(self._original, stage.world.files)
        if kind == "hard":
            shutil.copytree(self._original, self.root, copy_function=os.link)
            return
        shutil.copytree(self._original, self.root)
        getattr(self, f"_{kind}")()

    def _root(self) -> None:
        self.real = self._place / "elsewhere"
        self.root.rename(self.real)
        self._link(self.root, self.real)

    def _clone(self) -> None:
        there = [one for one in _OF_STATE if (self.root / one).is_dir()]
        self._replace(self.root / self._random.choice(there))

    def _ours(self) -> None:
        found = [path for one in _OF_OURS for path in self.root.glob(f"_statemaint{one}")
                 if path.is_dir()]  # fmt: skip
        folder = self._random.choice([*found, self.root / "_statemaint/trash"])
        if not folder.exists():
            (self._original / folder.relative_to(self.root)).mkdir(parents=True)
            folder.mkdir(parents=True)
        self._replace(folder)

    def _shared(self) -> None:
        trash = self._place / "trash"
        for one in (self._original, self.root):
            own = one / "_statemaint/trash"
            if own.is_dir() and not trash.exists():
                own.rename(trash)
            shutil.rmtree(own, ignore_errors=True)
            own.parent.mkdir(exist_ok=True)
            trash.mkdir(exist_ok=True)
            self._link(own, trash)

    def _file(self) -> None:
        found = [path for one in _FILES for path in sorted((self.root / one).rglob("*"))
                 if path.is_file()]  # fmt: skip
        folder = self._random.choice([one.parent for one in found])
        self._replace(self._random.choice([one for one in found if one.parent == folder]))

    def _replace(self, path: Path) -> None:
        """Replaces something by a link to the original's."""
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        self._link(path, self._original / path.relative_to(self.root))

    def _link(self, path: Path, to: Path) -> None:
        path.symlink_to(to)
        self.links[str(path.relative_to(self._place))] = str(to.relative_to(self._place))

    def outside(self) -> Seen:
        """Returns what is outside of the root: bytes, modes, times and names of all there is."""
        seen: Seen = {}
        for folder, folders, names in os.walk(self._place):
            if Path(folder) == self.real.parent:
                folders[:] = [one for one in folders if Path(folder, one) != self.real]
            for name in (*folders, *names):
                path = Path(folder, name)
                seen[str(path.relative_to(self._place))] = _looks(path)
        return seen


def _looks(path: Path) -> tuple[object, ...]:
    if path.is_symlink():
        return ("link", path.readlink())
    status = path.lstat()
    owner = status.st_mode, status.st_uid, status.st_gid
    return owner if path.is_dir() else (*owner, status.st_mtime_ns, path.read_bytes())


def _write(root: Path, files: dict[str, File]) -> None:
    for name, file in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
        os.utime(path, (file.modified, file.modified))


def play(stage: Stage, random: Random, usual: Policy) -> None:
    """Plays one schedule on a disk, with a checkpoint of a stage that has just begun.

    Raises:
        Loss: when anything outside the root was changed, or a linked root is not maintained.
    """
    for _ in range(random.randint(1, 3)):
        stage.maintain(usual.override(trash_for=random.choice((0.0, 1000.0))), ON)
        stage.batch(random.randint(1, 4))
    if random.random() < 0.3:
        stage.rollback(1, ON)
    with tempfile.TemporaryDirectory() as place:
        disk = Disk(Path(place), stage, random.choice(KINDS), random)
        stage.step(f"on a disk, {disk.kind}: {disk.links}")
        stage.tally["schedules on a disk with links"] += 1
        _work(disk, stage, random)


def _work(disk: Disk, stage: Stage, random: Random) -> None:
    before = disk.outside()
    storage = LocalStorage(disk.root)
    for _ in range(random.randint(3, 6)):
        name = random.choice(sorted(_VERBS))
        stage.step(f"{name}, of {disk.kind}: {disk.links}")
        try:
            refusal = next(_VERBS[name](storage), None)
        except StatemaintError as error:
            refusal = str(error)
        except Exception as error:
            raise Loss(f"a fault of ours: {error!r}") from error
        stage.tally["refused beside a link"] += refusal is not None
        after = disk.outside()
        if changed := sorted(one for one in {*before, *after} if before.get(one) != after.get(one)):
            raise Loss(f"S24: {name} changed {changed[:3]} outside of the root, {len(changed)} in "
                       f"all; {disk.kind}: {disk.links}")  # fmt: skip
        if disk.kind == "root" and refusal and name in _ALWAYS:
            raise Loss(f"{name} refuses a checkpoint whose root is a link: {refusal}")


def _maintain(policy: Policy) -> Callable[[Storage], Iterator[str]]:
    def work(storage: Storage) -> Iterator[str]:
        found = maintain(storage, policy).findings
        yield from (one.detail for one in found if one.damage)

    return work


def _undo(storage: Storage) -> Iterator[str]:
    for run in sorted(trashed_runs(storage))[:1]:
        undo(storage, run)
    yield from ()


def _rollback(storage: Storage) -> Iterator[str]:
    batches = sorted(int(one.name) for one in storage.list("commits") if one.name.isdecimal())
    if batches:
        rollback(storage, batches[0], trash_for=1000.0)
    yield from ()


def _repair(storage: Storage) -> Iterator[str]:
    repair(storage, trash_for=1000.0)
    yield from ()


def _verify(storage: Storage) -> Iterator[str]:
    findings = verify(storage, deep=True).findings
    yield from (one.detail for one in findings if one.damage)


def _look(storage: Storage) -> Iterator[str]:
    doctor(storage)
    list_runs(storage)
    yield from ()


_VERBS: dict[str, Callable[[Storage], Iterator[str]]] = {
    "maintain": _maintain(_TIGHT),
    "maintain, to the trash": _maintain(_TRASHING),
    "maintain, no deletions": _maintain(_EMPTYING),
    "undo": _undo,
    "rollback": _rollback,
    "repair": _repair,
    "verify --deep": _verify,
    "doctor and runs": _look,
}
_ALWAYS = ("maintain", "maintain, to the trash", "maintain, no deletions", "doctor and runs")
