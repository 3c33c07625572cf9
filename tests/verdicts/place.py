"""A copy of the query's root that is about to be damaged: its files, and how to spoil them."""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from statemaint.codec.rocksdb.snapshot_zip import parse_metadata
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.plan.actions import Request
from statemaint.storage import LocalStorage
from tests.matrix.test_damage import Spoil
from tests.verdicts.query import BATCHES, Layout, Shape

JOIN = "left-keyToNumValues"
_CHANGE = re.compile(r"(\d+)(?:_[0-9a-f-]{36})?\.(?:delta|changelog)")
_SNAPSHOT = re.compile(r"(\d+)(?:_[0-9a-f-]{36})?\.(?:snapshot|zip)")


@dataclass(frozen=True, slots=True)
class Place:
    """A query's root of its own.

    Attributes:
        root: with `input`, `output` and `checkpoint` below it.
        layout: what its state looks like.
        shape: which query it is.
    """

    root: Path
    layout: Layout
    shape: Shape

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def storage(self) -> LocalStorage:
        return LocalStorage(self.checkpoint)

    def store(self, partition: int = 0, operator: int = 0) -> Path:
        """Returns the directory of a partition's store, the first one of a join."""
        folder = self.checkpoint / "state" / str(operator) / str(partition)
        return folder / JOIN if operator and self.shape is Shape.JOIN else folder

    def change(self, version: int, partition: int = 0, operator: int = 0) -> Path:
        return _by_version(self.store(partition, operator), _CHANGE)[version]

    def snapshot(self, version: int, partition: int = 0, operator: int = 0) -> Path:
        return self.snapshots(partition, operator)[version]

    def snapshots(self, partition: int = 0, operator: int = 0) -> dict[int, Path]:
        return _by_version(self.store(partition, operator), _SNAPSHOT)

    def table(self, version: int, partition: int = 0) -> Path:
        """Returns an SST file that only the zip of a version refers to."""
        named = self._tables(partition)
        others = set[str]().union(*(one for number, one in named.items() if number != version))
        return self.store(partition) / "SSTs" / min(named[version] - others)

    def shared_table(self, version: int, partition: int = 0) -> Path:
        """Returns an SST file that the zip of a version and all above it refer to."""
        named = self._tables(partition)
        above = (one for number, one in named.items() if number >= version)
        return self.store(partition) / "SSTs" / max(set[str].intersection(*above))

    def _tables(self, partition: int) -> dict[int, set[str]]:
        return {
            number: {one.stored for one in parse_metadata(path.read_bytes()).ssts}
            for number, path in self.snapshots(partition).items()
        }

    def name(self, version: int, kind: str) -> str:
        suffix = {"delta": "changelog", "snapshot": "zip"}
        return f"{version}.{kind if self.layout is Layout.HDFS_BACKED else suffix[kind]}"


def _by_version(folder: Path, pattern: re.Pattern[str]) -> dict[int, Path]:
    found = ((pattern.fullmatch(one.name), one) for one in folder.iterdir())
    return {int(match[1]): one for match, one in found if match}


# -- changes to a file


def spoil(path: Path, change: Spoil) -> None:
    """Changes a file as something below Hadoop would, which then has no checksum of it."""
    content = change(path.read_bytes())
    side(path).unlink(missing_ok=True)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)


def side(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")


def sparks(path: Path) -> Path:
    return path.with_name(f"{path.name}.crc")


def flipped(content: bytes) -> bytes:
    at = len(content) // 2
    return content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :]


def garbled(content: bytes) -> bytes:
    return (b"nothing of the kind; " * (len(content) // 21 + 1))[: len(content)]


def remove(path: Path) -> None:
    """Deletes a file with all checksums beside it, or a directory with all that lies below."""
    if path.is_dir():
        shutil.rmtree(path)
        return
    for one in (path, side(path), sparks(path), side(sparks(path))):
        one.unlink(missing_ok=True)


def copy(path: Path, to: Path) -> None:
    pairs = ((of(path), of(to)) for of in (lambda one: one, side, sparks, _sparks_side))
    for source, target in pairs:
        target.unlink(missing_ok=True)
        if source.exists():
            shutil.copyfile(source, target)


def swap(one: Path, other: Path) -> None:
    between = one.with_name("between")
    copy(one, between)
    copy(other, one)
    copy(between, other)
    remove(between)


def _sparks_side(path: Path) -> Path:
    return side(sparks(path))


# -- checkpoints of other histories


def trimmed(place: Place) -> None:
    """Leaves what Spark's own clean-up leaves: nothing below the newest snapshot."""
    newest = max(place.snapshots())
    for operator in range(place.shape.operators):
        for partition in (0, 1):
            if newest in place.snapshots(partition, operator):
                _trim(place, newest, partition, operator)
    purged(place, newest - 1)


def _trim(place: Place, newest: int, partition: int, operator: int) -> None:
    used: set[str] = set()
    for version, path in place.snapshots(partition, operator).items():
        if version < newest:
            remove(path)
        elif place.layout is not Layout.HDFS_BACKED:
            used |= {one.stored for one in parse_metadata(path.read_bytes()).ssts}
    for version in range(1, newest):
        remove(place.change(version, partition, operator))
    for table in place.store(partition, operator).glob("SSTs/*.sst"):
        if table.name not in used:
            remove(table)


def purged(place: Place, first: int) -> None:
    for log in ("commits", "offsets"):
        for batch in range(first):
            remove(place.checkpoint / log / str(batch))


def maintained(place: Place) -> None:
    """Maintains the checkpoint up to version 8, two versions below the newest."""
    purged(place, BATCHES - 5)
    policy = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=2, grace=0, orphan_age=0)
    assert maintain(place.storage, policy, request=Request(target=8)).exit_code == 0


# -- entries of the logs


def of_the_future(content: bytes) -> bytes:
    return b"v9" + content[2:]
