"""Checkpoints on disk: generated once for each case, and hard-linked for each repetition."""

import json
import os
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import uuid4

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from statemaint.scan.query_logs import PROVIDER_CLASS
from tests.benchmarks import floor
from tests.benchmarks.cases import Case
from tests.benchmarks.rows import KINDS, Bytes, Ids, Kind, records

_QUERY = '{"id":"11111111-2222-3333-4444-555555555555"}'
_COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'
_CLASS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
_END = b"\xff\xff\xff\xff"
_PIECE = 64 * 1024 * 1024
# So many partitions are different; the files of all others are hard links to theirs.
_TEMPLATES = 50


@dataclass(slots=True)
class Facts:
    """What a case's files hold: counts, and bytes before compression where not said otherwise."""

    rows: int = 0
    records: int = 0
    base_payload: int = 0
    delta_payload: int = 0
    delta_keys: int = 0
    stored: int = 0


@dataclass(frozen=True, slots=True)
class Input:
    """A case's checkpoint, to be copied and never changed."""

    case: Case
    root: Path
    facts: Facts


def store_folder(root: Path, partition: int = 0) -> Path:
    """Returns the directory of the checkpoint's one store in a partition."""
    return root / "state" / "0" / str(partition)


def state_files(root: Path, partition: int = 0) -> list[Path]:
    """Returns every delta and snapshot of a store."""
    return sorted(one for one in store_folder(root, partition).iterdir() if one.is_file())


@contextmanager
def copy_of(given: Input) -> Iterator[Path]:
    """A copy of a checkpoint in which files may be written and deleted, for the block's length."""
    copy = given.root.parent / f"copy-{uuid4().hex}"
    shutil.copytree(given.root, copy, copy_function=os.link)
    os.sync()  # what was written before must not be paid for by what comes
    try:
        yield copy
    finally:
        shutil.rmtree(copy)


def prepare(case: Case, folder: Path) -> Input:
    """Returns a case's checkpoint, which is generated where it is not there yet."""
    root, noted = folder / case.key, folder / f"{case.key}.json"
    if not noted.exists():
        shutil.rmtree(root, ignore_errors=True)
        noted.write_text(json.dumps(asdict(_generate(case, root))))
    return Input(case, root, Facts(**json.loads(noted.read_text())))


def _generate(case: Case, root: Path) -> Facts:
    _write_logs(case, root)
    facts, rng = Facts(), default_rng(1)
    for partition in range(min(case.partitions, _TEMPLATES)):
        _Store(case, store_folder(root, partition), facts, rng).write(partition << 40)
    for partition in range(_TEMPLATES, case.partitions):
        template = store_folder(root, partition % _TEMPLATES)
        ours = shutil.ignore_patterns("_metadata")  # the first partition has it for all
        target = store_folder(root, partition)
        shutil.copytree(template, target, copy_function=os.link, ignore=ours)
    return facts


def _write_logs(case: Case, root: Path) -> None:
    conf = {"spark.sql.shuffle.partitions": str(case.partitions), PROVIDER_CLASS: _CLASS}
    head = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": conf}
    texts = {
        "metadata": _QUERY,
        f"offsets/{case.last - 2}": f"v1\n{json.dumps(head)}\n-",  # a savepoint needs it
        f"offsets/{case.last - 1}": f"v1\n{json.dumps(head)}\n-",
        f"commits/{case.last - 1}": _COMMIT,
    }
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    schema = store_folder(root) / "_metadata" / "schema"
    schema.parent.mkdir(parents=True)
    schema.write_bytes(_schema(KINDS[case.kind]))


def _schema(kind: Kind) -> bytes:
    """Returns the schema file of a kind's rows, as Spark 3 writes it."""
    found = b"\0\2v2"
    for fields in (kind.key, kind.value):
        columns = [{"name": name, "type": one, "nullable": True, "metadata": {}}
                   for name, one in fields]  # fmt: skip
        text = json.dumps({"type": "struct", "fields": columns}).encode()
        found += struct.pack(">iH", 1, len(text)) + text
    return found


@dataclass(slots=True)
class _Store:
    """One store while its files are written."""

    case: Case
    folder: Path
    facts: Facts
    rng: Generator

    @property
    def kind(self) -> Kind:
        return KINDS[self.case.kind]

    def write(self, first_id: int) -> None:
        """Writes the store's files; its ids begin at one that no other store reaches."""
        self.folder.mkdir(parents=True, exist_ok=True)  # the schema may be in it
        alive = first_id + np.arange(self.case.rows, dtype=np.uint64)
        if self.case.base:
            self.facts.base_payload += self._file(f"{self.case.base}.snapshot", self._puts(alive))
        else:
            self.facts.delta_payload += self._file("1.delta", self._puts(alive))
            self._count_keys(len(alive))
        for version in range(max(1, self.case.base) + 1, self.case.last + 1):
            alive = self._delta(version, alive)
        self.facts.rows += len(alive)

    def _puts(self, ids: Ids) -> Iterator[Bytes]:
        width = 8 + sum(rows.shape[1] for rows in self._sample())
        step = max(1, _PIECE // width)
        for at in range(0, len(ids), step):
            piece = ids[at : at + step]
            self.facts.records += len(piece)
            yield records(self.kind, piece, np.zeros(len(piece), np.bool_), self.rng)

    def _sample(self) -> tuple[Bytes, Bytes]:
        one = np.zeros(1, np.uint64)
        return self.kind.keys(one), self.kind.values(one, self.rng)[0]

    def _delta(self, version: int, alive: Ids) -> Ids:
        """Writes one delta, and returns the ids that are alive after it."""
        ids, removed, after = self._changes(alive)
        order = self.rng.permutation(len(ids))
        self.facts.records += len(ids)
        self._count_keys(len(ids))
        content = records(self.kind, ids[order], removed[order], self.rng)
        self.facts.delta_payload += self._file(f"{version}.delta", iter([content]))
        return after

    def _changes(self, alive: Ids) -> tuple[Ids, NDArray[np.bool_], Ids]:
        count = round(self.case.rows * self.case.share)
        inserts, gone = round(count * self.case.inserts), round(count * self.case.removals)
        touched = self.rng.choice(len(alive), count - inserts, replace=False)
        new = alive.max() + np.arange(1, inserts + 1, dtype=np.uint64)
        ids = np.concatenate([alive[touched], new])
        after = np.concatenate([np.delete(alive, touched[:gone]), new])
        return ids, np.arange(len(ids)) < gone, after

    def _count_keys(self, count: int) -> None:
        self.facts.delta_keys += count * self._sample()[0].shape[1]

    def _file(self, name: str, pieces: Iterator[Bytes]) -> int:
        """Writes a state file, and returns how many bytes its payload has."""
        sizes = [len(_END)]

        def counted() -> Iterator[memoryview | bytes]:
            for piece in pieces:
                sizes.append(len(piece))
                yield np.ascontiguousarray(piece).data
            yield _END

        path = self.folder / name
        with path.open("wb") as stream:
            stream.writelines(floor.compress(counted()))
        self.facts.stored += path.stat().st_size
        return sum(sizes)
