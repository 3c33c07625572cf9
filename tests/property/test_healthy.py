"""Nothing is found where nothing is wrong: hundreds of healthy checkpoints of random shape."""

import re
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from statemaint.audit import verify
from statemaint.maintain import maintain
from statemaint.model.findings import FindingCode
from statemaint.model.policy import Policy
from statemaint.planning import plan_checkpoint
from statemaint.storage import MemoryStorage
from tests.support.marks import long
from tests.support.shapes import JOIN, OPAQUE, SUM, RocksShape, Shape, shape, write

HUNDRED = 100
A_DAY = 86400.0


class Clock:
    """A time that one sets."""

    def __init__(self) -> None:
        self.now = 1_000_000_000.0

    def __call__(self) -> float:
        return self.now


def made(seed: int) -> tuple[Shape, MemoryStorage, Clock]:
    random, clock = Random(seed), Clock()  # noqa: S311 -- the same on every machine
    found, storage = shape(random), MemoryStorage(clock=clock)
    write(found, random, storage)
    clock.now += A_DAY
    return found, storage, clock


def policy(seed: int) -> Policy:
    random = Random(-seed - 1)  # noqa: S311
    return Policy(
        min_deltas_for_snapshot=random.randint(1, 6),
        min_batches_to_retain=random.randint(1, 6),
        grace=random.choice((0.0, 3600.0)),
        orphan_age=0.0,
    )


@pytest.mark.parametrize("first", [0, *(long(one) for one in range(HUNDRED, 300, HUNDRED))])
def test_nothing_is_found_in_a_healthy_checkpoint_before_and_after_maintenance(first: int) -> None:
    for seed in range(first, first + HUNDRED):
        found, storage, clock = made(seed)
        must_be_healthy(storage, retained(found), seed)
        for _ in range(2):
            report = maintain(storage, policy(seed))
            assert (report.exit_code, report.findings) == (0, ()), seed
            clock.now += A_DAY
        must_be_healthy(storage, retained(found), seed)
        assert plan_checkpoint(storage, policy(seed))[1].all_findings == (), seed


@pytest.mark.parametrize("first", [0, long(12)])
def test_nothing_is_found_in_a_healthy_checkpoint_of_rocksdb(first: int) -> None:
    kinds = Counter(grown(seed) for seed in range(first, first + 12))
    for ids in (False, True):
        assert kinds[ids, True], "both kinds of names, with zips"


def grown(seed: int) -> tuple[bool, bool]:
    """Maintains a checkpoint twice while it grows; tells whether it has unique ids, and zips."""
    random, clock = Random(seed), Clock()  # noqa: S311
    found, storage = small(shape(random)), MemoryStorage(clock=clock)
    growing = RocksShape.of(found, random, storage)
    middle = random.randint(1, found.last)
    for first, last in ((1, middle), (middle + 1, found.last)):
        growing.grow(first, last)
        if last == found.last:
            growing.purge()
        clock.now += A_DAY
        versions = len(list(found.stores)) * len(commits(storage))
        must_be_healthy(storage, versions, seed)
        report = maintain(storage, policy(seed))
        assert (report.exit_code, report.findings) == (0, ()), seed
        clock.now += A_DAY
        must_be_healthy(storage, versions, seed)
    assert len(commits(storage)) == found.last - found.required + 1
    return growing.ids, any(path.endswith(".zip") for path in storage.files)


def small(found: Shape) -> Shape:
    """RocksDB takes its time for each store and each version."""
    last, partitions = min(found.last, 5), min(found.partitions, 2)
    required, kinds = min(found.required, last), found.operators[:1]
    return replace(found, last=last, partitions=partitions, required=required, operators=kinds)


def commits(storage: MemoryStorage) -> list[str]:
    return [path for path in storage.files if re.fullmatch(r"commits/\d+", path)]


def must_be_healthy(storage: MemoryStorage, versions: int, seed: int) -> None:
    for deep in (False, True):
        seen = verify(storage, deep=deep)
        assert (seen.findings, seen.versions_checked) == ((), versions), seed


def retained(found: Shape) -> int:
    """How many versions somebody may ask for, counted for each store."""
    return len(list(found.stores)) * (found.last - found.required + 1)


def test_the_shapes_are_of_every_kind() -> None:
    shapes = [made(seed)[0] for seed in range(200)]
    kinds = Counter(kind for one in shapes for kind in one.operators)
    assert min(kinds[kind] for kind in (SUM, JOIN, OPAQUE)) > 40
    codecs = Counter((one.codec, one.row_checksums) for one in shapes)
    assert len(codecs) == 8
    for fact in ("cleaned", "running", "side_files", "checksums", "metadata"):
        assert 20 < sum(getattr(one, fact) for one in shapes) < 180, fact
    assert {one.partitions for one in shapes} == {1, 2, 3}
    assert {one.last - one.required for one in shapes} == set(range(12))


def test_what_is_read_of_them_are_rows() -> None:
    """The same checkpoints with the files of two partitions swapped are not healthy."""
    codes: Counter[FindingCode] = Counter()
    for seed in range(60):
        found, storage, _ = made(seed)
        if found.partitions == 2 and OPAQUE not in found.operators:
            swapped = {swap(path): content for path, content in storage.files.items()}
            codes.update({one.code for one in verify(MemoryStorage(swapped), deep=True).findings})
    assert codes.keys() == {FindingCode.WRONG_PARTITION}
    assert codes[FindingCode.WRONG_PARTITION] > 10


def swap(path: str) -> str:
    parts = path.split("/")
    if parts[0] == "state" and "_metadata" not in parts:
        parts[2] = {"0": "1", "1": "0"}[parts[2]]
    return "/".join(parts)


def test_a_join_with_one_side_s_counts_in_place_of_the_other_s_is_not_healthy() -> None:
    """Its rows agree because they were made so."""
    wrong = 0
    for seed in range(120):
        found, storage, _ = made(seed)
        if found.operators != (JOIN,):
            continue
        files = storage.files
        left = {path: one for path, one in files.items() if "/left-keyToNumValues/" in path}
        right = {path.replace("left-", "right-"): one for path, one in left.items()}
        files |= {path: one for path, one in right.items() if path in files}
        codes = {one.code for one in verify(MemoryStorage(files), deep=True).findings}
        wrong += FindingCode.JOIN_MISMATCH in codes
    assert wrong > 5
