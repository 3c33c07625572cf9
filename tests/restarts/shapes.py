"""Checkpoints of any shape, made from a query's first batch: what a restart reads is all there is.

Every partition has the same files, as hard links: Spark reads each of them all the same.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.random import Generator, default_rng

from tests.benchmarks import floor, ours
from tests.benchmarks.inputs import store_folder
from tests.benchmarks.rows import KINDS, Bytes, Ids, Kind, _row, _text, records

_END = b"\xff\xff\xff\xff"
_PIECE = 1_000_000
_LOGS = 100
TEXT = 1024


@dataclass(frozen=True, slots=True)
class Shape:
    """What a restart of a checkpoint reads."""

    provider: str  # "hdfs" or "rocksdb"
    stores: int
    base: int  # rows of each store's snapshot; 0: there is none
    deltas: int  # files of changes of each store
    changes: int  # records in each of them, of which half add a row
    wide: bool  # values of a kilobyte, not of two numbers

    @property
    def key(self) -> str:
        parts = (self.provider, *(str(int(value)) for value in list(asdict(self).values())[1:]))
        return "-".join(parts)

    @property
    def last(self) -> int:
        """The newest version."""
        return self.deltas + bool(self.base)

    @property
    def rows(self) -> int:
        """The rows of each store."""
        if self.base or not self.deltas:
            return self.base + self.deltas * (self.changes // 2)
        return self.changes + (self.deltas - 1) * (self.changes // 2)

    @property
    def files(self) -> int:
        return self.stores * (self.deltas + bool(self.base))

    @property
    def records(self) -> int:
        return self.stores * (self.base + self.deltas * self.changes)

    @property
    def payload(self) -> int:
        """The bytes of its records, roughly, before compression."""
        return self.records * (TEXT + 64 if self.wide else 64)


def make(shape: Shape, seed: Path, root: Path) -> dict[str, int]:
    """Makes a checkpoint out of that of a first batch, and returns what of it a restart reads."""
    shutil.copytree(seed, root)
    write_logs(root, shape.last)
    for partition in range(shape.stores):
        for path in store_folder(root, partition).iterdir():
            if path.name != "_metadata":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    template = store_folder(root)
    Writer(shape, root, default_rng(1)).write()
    files = [
        path for path in template.rglob("*") if path.is_file() and "_metadata" not in str(path)
    ]
    snapshot = [path for path in files if path.suffix in (".snapshot", ".zip", ".sst")]
    for partition in range(1, shape.stores):
        ours_only = shutil.ignore_patterns("_metadata")
        target = store_folder(root, partition)
        shutil.copytree(
            template, target, copy_function=os.link, ignore=ours_only, dirs_exist_ok=True
        )
    return {
        "snapshot_files": shape.stores * len(snapshot),
        "snapshot_bytes": shape.stores * sum(path.stat().st_size for path in snapshot),
        "snapshot_records": shape.stores * shape.base,
        "change_files": shape.stores * shape.deltas,
        "change_bytes": shape.stores
        * sum(path.stat().st_size for path in files if path not in snapshot),
        "change_records": shape.stores * shape.deltas * shape.changes,
    }


def write_logs(root: Path, last: int) -> None:
    """Copies the first batch's entries to the newest ones: those batches have read no input."""
    for log in ("offsets", "commits"):
        entry = next(path for path in (root / log).glob("[0-9]*")).read_bytes()
        for path in (root / log).iterdir():
            path.unlink()
        for batch in range(max(0, last - _LOGS), last):
            (root / log / str(batch)).write_bytes(entry)


def _wide_values(ids: Ids, rng: Generator) -> tuple[Bytes, Any]:
    texts = [_text(ids + np.uint64(number << 50), 32) for number in range(TEXT // 32)]
    del rng
    rows = _row(len(ids), (TEXT, np.concatenate(texts, axis=1)))
    return rows, np.full(len(rows), rows.shape[1], np.int64)


def _kind(shape: Shape) -> Kind:
    kind = KINDS["counter"]
    values = _wide_values if shape.wide else kind.values
    if shape.provider == "hdfs":
        return Kind(kind.key, kind.value, kind.keys, values)

    def encoded(rows: Bytes) -> Bytes:
        return np.concatenate([np.zeros((len(rows), 1), np.uint8), rows], axis=1)

    def encoded_values(ids: Ids, rng: Generator) -> tuple[Bytes, Any]:
        rows, sizes = values(ids, rng)
        return encoded(rows), sizes + 1

    return Kind(kind.key, kind.value, lambda ids: encoded(kind.keys(ids)), encoded_values)


@dataclass(slots=True)
class Writer:
    """The first partition's store while its files are written."""

    shape: Shape
    root: Path
    rng: Generator

    def write(self) -> None:
        shape, alive = self.shape, self.shape.base
        if shape.base:
            self._snapshot(np.arange(shape.base, dtype=np.uint64))
        for version in range(1 + bool(shape.base), shape.last + 1):
            added = shape.changes // 2 if alive else shape.changes
            new = np.arange(alive, alive + added, dtype=np.uint64)
            known = self.rng.choice(alive, min(alive, shape.changes - added), replace=False)
            ids = np.concatenate([known.astype(np.uint64), new])
            self.change(version, ids)
            alive += added

    def change(self, version: int, ids: Ids) -> Path:
        """Writes the changes of a version: a put for each id."""
        return self._file(version, self._suffix, self.rng.permutation(ids))

    @property
    def _suffix(self) -> str:
        return "delta" if self.shape.provider == "hdfs" else "changelog"

    def _snapshot(self, ids: Ids) -> None:
        if self.shape.provider == "hdfs":
            self._file(1, "snapshot", ids)
            return
        changes = self._file(1, "changelog", ids)
        with TemporaryDirectory(dir=self.root.parent) as place:
            ours.write_rocks(self.root, 1, Path(place, "build"))
        changes.unlink()

    def _file(self, version: int, suffix: str, ids: Ids) -> Path:
        path = store_folder(self.root) / f"{version}.{suffix}"
        with path.open("wb") as stream:
            stream.writelines(floor.compress(self._payload(ids)))
        return path

    def _payload(self, ids: Ids) -> Iterator[memoryview | bytes]:
        step = _PIECE // (16 if self.shape.wide else 1)
        for at in range(0, len(ids), step):
            piece = ids[at : at + step]
            put = records(_kind(self.shape), piece, np.zeros(len(piece), np.bool_), self.rng)
            yield np.ascontiguousarray(put).data
        yield _END
