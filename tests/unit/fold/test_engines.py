"""Both engines against a dictionary: the same states, the same files, the same errors."""

import io
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import BinaryIO

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemaint.codec.compression.base import Block, Buffer, Compression, decode, encode
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.hdfs import records
from statemaint.codec.hdfs.records import Record
from statemaint.codec.integrity import checksum_file
from statemaint.codec.integrity.digest import StateDigest, digest
from statemaint.errors import CodecError, StaleChecksumError, Superseded
from statemaint.fold import ClearEngine, Engine, Source, engine_for
from statemaint.fold.compiled.engine import FastEngine
from statemaint.fold.compiled.kernels.compiled import fingerprint
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.files import Delta, Snapshot
from statemaint.storage import MemoryStorage
from tests.support.faults import HookedStorage

# Root may write everywhere: it has to lay that right down.
AS_OWNER = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.getuid() == 0 else []
KEY = bytes(range(16))
# The small ones treat a small file as if it were a very large one: many windows, each delta decoded
# twice, few runs at a time.
SMALL, TWICE = FastEngine(window=2000, runs=300), FastEngine(window=100, held=1)
ENGINES = [ClearEngine(), FastEngine(), SMALL, TWICE]
NAMED = ("clear", "fast", "small", "twice")
engines = pytest.mark.parametrize("engine", ENGINES, ids=NAMED)

State = dict[bytes, bytes]


@dataclass(frozen=True)
class Tiny:
    """Blocks of 16 bytes, each behind its length: no record is in one block only."""

    name = "tiny"
    block_size = 16

    def blocks(self, stream: BinaryIO) -> Iterator[Block]:
        while length := stream.read(1):
            payload = stream.read(length[0])
            yield Block(payload, length + payload)

    def encoder(self) -> "Tiny":
        return self

    def begin(self) -> bytes:
        return b""

    def block(self, payload: Buffer) -> bytes:
        return bytes([len(payload)]) + bytes(payload)

    def end(self) -> bytes:
        return b""


CODECS: dict[str, Compression] = {**COMPRESSIONS, "tiny": Tiny()}

NAMES = st.binary(max_size=12) | st.integers(0, 40).map(lambda number: b"key-%03d" % number)
CHANGES = st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=20)), max_size=30)


def put(storage: MemoryStorage, path: str, changes: Sequence[Record], codec: str = "lz4") -> Entry:
    payload = records.encode(changes)
    return storage.write(path, encode(CODECS[codec], payload))


class Files:
    """A chain in memory: the base's rows, then each delta's changes."""

    def __init__(
        self,
        base: State | None,
        deltas: Sequence[Sequence[Record]],
        *,
        codec: str = "lz4",
        row_checksums: bool = False,
    ) -> None:
        self.storage = MemoryStorage()
        self.source = Source(self.storage, CODECS[codec], row_checksums, KEY)
        self.start = 0 if base is None else 1
        self.states = [base or {}]
        snapshot = None
        if base is not None:
            snapshot = Snapshot(1, self._put("1.snapshot", list(base.items())))
        found = []
        for version, changes in enumerate(deltas, self.start + 1):
            found.append(Delta(version, self._put(f"{version}.delta", changes)))
            state = dict(self.states[-1])
            records.apply(state, changes)
            self.states.append(state)
        self.chain = Chain(self.start + len(found), snapshot, tuple(found))

    def _put(self, path: str, changes: Sequence[Record]) -> Entry:
        payload = records.encode(changes, row_checksums=self.source.row_checksums)
        return self.storage.write(path, encode(self.source.compression, payload))

    def state(self, version: int) -> State:
        """Returns what the dictionary says, as rows are stored."""
        state = self.states[version - self.start]
        if not self.source.row_checksums:
            return state
        payload = records.encode(state.items(), row_checksums=True)
        return dict(records.snapshot_rows(records.decode(payload)))

    @cache  # noqa: B019 -- pure Python takes its time, and few of these exist
    def digest(self, version: int) -> StateDigest:
        return digest(self.state(version).items(), KEY)

    def written(
        self, engine: Engine, *versions: int
    ) -> tuple[dict[int, bytes], dict[int, StateDigest]]:
        """Returns each version's file, and the digest that the fold gave it."""
        found = dict.fromkeys(versions, b"")
        folding = engine.fold(self.source, self.chain, versions)
        for version, piece in folding:
            found[version] += piece
        return found, folding.digests

    def fold(
        self, engine: Engine, *versions: int
    ) -> tuple[dict[int, State], dict[int, StateDigest]]:
        """Returns the rows of each version's file, and the digest that the fold gave it."""
        files, digests = self.written(engine, *versions)
        return {version: self.rows(stored) for version, stored in files.items()}, digests

    def rows(self, stored: bytes) -> State:
        """Returns a snapshot file's rows."""
        payload = decode(self.source.compression, io.BytesIO(stored))
        found = list(records.snapshot_rows(records.decode(payload)))
        assert len(dict(found)) == len(found), "a key twice"
        return dict(found)


@pytest.mark.parametrize(
    ("engine", "codec", "row_checksums"),
    [
        pytest.param(engine, codec, (first + second) % 2 == 1, id=f"{name}-{codec}")
        for first, (name, engine) in enumerate(zip(NAMED, ENGINES, strict=True))
        for second, codec in enumerate(CODECS)
    ],
)
@settings(max_examples=60)
@given(
    base=st.none() | st.dictionaries(NAMES, st.binary(max_size=20)),
    deltas=st.lists(CHANGES, min_size=1, max_size=6),
    data=st.data(),
)
def test_a_fold_is_what_a_dictionary_says(
    engine: Engine,
    codec: str,
    row_checksums: bool,  # noqa: FBT001
    base: State | None,
    deltas: list[list[Record]],
    data: st.DataObject,
) -> None:
    files = Files(base, deltas, codec=codec, row_checksums=row_checksums)
    target = files.chain.version
    floor = data.draw(st.integers(max(1, files.start), target))
    versions = (target, floor) if floor < target else (target,)
    states, digests = files.fold(engine, *versions)
    for version in versions:
        expected = files.state(version)
        assert states[version] == expected
        assert digests[version] == digest(expected.items(), KEY)


def rows(count: int, *, size: int = 24) -> State:
    return {b"key-%012d" % number: number.to_bytes(size) for number in range(count)}


@pytest.fixture(scope="module")
def large() -> Files:
    """A state of many blocks and windows, of which the deltas change every kind of stretch."""
    base = rows(6_000)
    names = list(base)
    one: list[Record] = [(name, b"one") for name in names[1_000:3_000]]
    two: list[Record] = [(name, None) for name in names[::7]]
    three: list[Record] = [(b"new-%06d" % number, bytes(40)) for number in range(3_000)]
    four: list[Record] = [*((name, b"four") for name in names[2_000:2_500])] * 2
    return Files(base, [one, two, three, four])


@engines
def test_a_state_of_many_windows(engine: Engine, large: Files) -> None:
    states, digests = large.fold(engine, 5, 3)
    assert states == {5: large.state(5), 3: large.state(3)}
    assert digests == {version: large.digest(version) for version in (5, 3)}


def stored_blocks(files: Files, content: bytes) -> list[bytes | None]:
    return [one.stored for one in files.source.compression.blocks(io.BytesIO(content))]


@pytest.mark.parametrize("codec", COMPRESSIONS)
def test_blocks_that_nothing_overrides_pass_as_they_are_stored(codec: str) -> None:
    base = rows(50_000)
    files = Files(base, [[(list(base)[len(base) // 2], b"changed")]], codec=codec)
    before = stored_blocks(files, files.storage.read("1.snapshot"))
    written, _ = files.written(FastEngine(), 2)
    assert files.rows(written[2]) == files.state(2)
    passed = set(before) & set(stored_blocks(files, written[2])) - {None}
    # All but those of the changed row, of the last window's end, and of the end of the records.
    assert len(passed) >= (0 if codec == "zstd" else len(before) - 4)


def test_a_state_that_is_folded_often_keeps_its_blocks_long() -> None:
    files = Files(rows(20_000), [])
    before = len(stored_blocks(files, files.storage.read("1.snapshot")))
    for turn in range(100):
        path = f"{turn + 2}.delta"
        entry = put(files.storage, path, [(b"key-%012d" % (turn * 1607 % 20_000), b"changed")])
        base = Snapshot(1, files.storage.stat("1.snapshot"))
        files.chain = Chain(turn + 2, base, (Delta(turn + 2, entry),))
        written, _ = files.written(FastEngine(), turn + 2)
        files.storage.write("1.snapshot", [written[turn + 2]], overwrite=True)
    after = stored_blocks(files, files.storage.read("1.snapshot"))
    assert before <= len(after) < 1.5 * before


@engines
def test_a_record_larger_than_every_window(engine: Engine) -> None:
    base = {b"small": b"1", b"large": bytes(100_000)}
    files = Files(base, [[(b"huge", bytes(200_000))], [(b"small", None)]])
    states, digests = files.fold(engine, 3, 2)
    assert states == {3: files.state(3), 2: files.state(2)}
    assert digests[3] == digest(files.state(3).items(), KEY)


@engines
def test_a_floor_at_the_base_is_the_base(engine: Engine) -> None:
    files = Files(rows(20), [[(b"key-%012d" % 3, None)]])
    states, _ = files.fold(engine, 2, 1)
    assert states == {2: files.state(2), 1: rows(20)}


@engines
def test_reads_a_snapshot_back(engine: Engine, large: Files) -> None:
    assert engine.digest(large.source, "1.snapshot") == large.digest(1)
    empty = Files({}, [])
    assert engine.digest(empty.source, "1.snapshot") == StateDigest(0, 0, "0" * 32)


@engines
def test_digests_without_writing(engine: Engine, large: Files) -> None:
    folding = engine.fold(large.source, large.chain, (5, 3), write=False)
    assert list(folding) == []
    assert folding.digests == {one: large.digest(one) for one in (5, 3)}


@engines
def test_digests_need_no_caller_that_takes_pieces(engine: Engine) -> None:
    files = Files({b"a": b"1"}, [[(b"b", b"2")]])
    folding = engine.fold(files.source, files.chain, (2,))
    assert folding.digests == {2: files.digest(2)} == folding.digests
    assert list(folding) == []


@engines
def test_the_digests_of_a_fold_are_whole_although_its_pieces_were_taken_in_part(
    engine: Engine, large: Files
) -> None:
    """A storage that refuses a name in the middle of a write stops there."""
    folding = engine.fold(large.source, large.chain, (5,))
    some = iter(folding)
    next(some)
    some.close()  # type: ignore[attr-defined]
    assert folding.digests == {5: large.digest(5)}


# -- damage


def damaged_by(engine: Engine, content: bytes, *, codec: str = "lz4", raw: bool = False) -> str:
    """Returns what an engine says of a delta with this payload (or these stored bytes)."""
    files = Files({b"key": b"value"}, [[(b"key", None)]], codec=codec)
    stored = [content] if raw else encode(CODECS[codec], [content])
    files.storage.write("2.delta", stored, overwrite=True)
    with pytest.raises(CodecError) as caught:
        files.written(engine, 2)
    assert caught.value.path == "2.delta"
    with pytest.raises(CodecError) as again:
        engine.check(files.source, files.chain.deltas[0])
    assert str(again.value) == str(caught.value)
    return str(caught.value)


def payload(*numbers_and_bytes: int | bytes) -> bytes:
    parts = (
        one.to_bytes(4, "big", signed=True) if isinstance(one, int) else one
        for one in numbers_and_bytes
    )
    return b"".join(parts)


DAMAGED = {
    "nothing": b"",
    "no end": payload(3, b"key", 5, b"value"),
    "cut in a length": payload(3, b"key", 5, b"value", -1)[:-2],
    "cut in a value": payload(3, b"key", 5, b"val"),
    "cut in a key": payload(30, b"key"),
    "negative key": payload(-2, b"key", 5, b"value", -1),
    "key of 2 GiB": payload(0x7FFFFFFF, b"key", 5, b"value", -1),
    "value of 2 GiB": payload(3, b"key", 0x7FFFFFFF, b"value", -1),
    "bytes after the end": payload(3, b"key", 5, b"value", -1, 7),
}


@engines
@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_records_are_named_by_file_and_place(engine: Engine, kind: str) -> None:
    assert damaged_by(engine, DAMAGED[kind]) == damaged_by(ClearEngine(), DAMAGED[kind])


@engines
def test_a_damaged_block_is_named_by_file_and_place(engine: Engine) -> None:
    content = bytearray(b"".join(encode(COMPRESSIONS["lz4"], [DAMAGED["no end"]])))
    content[22] ^= 1
    assert "2.delta" in damaged_by(engine, bytes(content), raw=True)


@engines
def test_a_snapshot_may_not_remove(engine: Engine) -> None:
    files = Files({}, [[(b"key", b"value")]])
    put(files.storage, "3.snapshot", [(b"a", b""), (b"key", None)])
    with pytest.raises(CodecError, match=r"3.snapshot: record 1 of a snapshot removes its key"):
        engine.digest(files.source, "3.snapshot")


@engines
@given(data=st.data())
def test_any_flipped_byte_of_a_row_with_a_checksum_is_found(
    engine: Engine, data: st.DataObject
) -> None:
    changes: list[Record] = [(b"key-1", b"value"), (b"key-2", None)]
    content = bytearray(b"".join(records.encode(changes, row_checksums=True)))
    # Not the lengths: they can make another well-formed payload of the same bytes.
    places = [*range(4, 9), *range(13, 22), *range(26, 35)]
    content[data.draw(st.sampled_from(places))] ^= data.draw(st.integers(1, 255))
    files = Files({}, [changes], row_checksums=True)
    files.storage.write("2.delta", encode(COMPRESSIONS["lz4"], [bytes(content)]), overwrite=True)
    with pytest.raises(CodecError, match=r"2.delta"):
        files.written(engine, 2)
    with pytest.raises(CodecError, match=r"2.delta"):
        engine.check(files.source, files.chain.deltas[0])


@pytest.mark.parametrize(("rows", "opened"), [(60, 1), (1_000, 1), (20_000, 1)])
def test_a_check_opens_a_file_once_whatever_its_size(rows: int, opened: int) -> None:
    files = Files({}, [[(os.urandom(16), os.urandom(16)) for _ in range(rows)]])
    before = files.storage.requests.get("read", 0)
    FastEngine().check(files.source, files.chain.deltas[0])
    assert files.storage.requests["read"] - before == opened


def test_a_delta_that_has_grown_since_it_was_listed_is_read_whole() -> None:
    files = Files({}, [[(b"key", b"value")]])
    content = b"".join(records.encode([(os.urandom(16), os.urandom(16)) for _ in range(2_000)]))
    files.storage.write("2.delta", encode(COMPRESSIONS["lz4"], [content]), overwrite=True)
    FastEngine().check(files.source, files.chain.deltas[0])
    files.storage.write("2.delta", encode(COMPRESSIONS["lz4"], [content[:-9]]), overwrite=True)
    with pytest.raises(CodecError, match=r"2.delta"):
        FastEngine().check(files.source, files.chain.deltas[0])


# -- Spark's checksum files


def with_checksum(content: bytes | None = None) -> Files:
    files = Files({b"key": b"value"}, [[(b"key", b"other")]])
    of = content or files.storage.read("2.delta")
    side = checksum_file.spark(google_crc32c.value(of), len(of), 0)
    files.storage.write("2.delta.crc", [side])
    files.source = files.source.beside("2.delta")
    return files


@engines
def test_compares_a_file_with_sparks_checksum_of_it(engine: Engine) -> None:
    assert with_checksum().fold(engine, 2)[0] == {2: {b"key": b"other"}}
    engine.check(with_checksum().source, with_checksum().chain.deltas[0])
    for read in (
        lambda one: one.fold(engine, 2),
        lambda one: engine.check(one.source, one.chain.deltas[0]),
    ):
        with pytest.raises(StaleChecksumError, match=r"2.delta.crc: does not match 2.delta"):
            read(with_checksum(b"another file"))


@engines
def test_a_checksum_file_that_went_away_is_none(engine: Engine) -> None:
    files = with_checksum(b"another file")
    files.storage.delete("2.delta.crc")
    assert files.fold(engine, 2)[0] == {2: {b"key": b"other"}}


# -- the choice


def test_small_work_is_done_without_anything_compiled() -> None:
    assert engine_for(100_000) == ClearEngine()
    assert engine_for(10_000_000) == FastEngine()


def test_a_small_partition_never_loads_the_compiler() -> None:
    script = """
import sys
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import write_checkpoint
storage = MemoryStorage()
write_checkpoint(storage)
assert maintain(storage, Policy(min_deltas_for_snapshot=5)).snapshots_written
assert not {"numba", "numpy", "llvmlite"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


KEPT = """
import sys
from pathlib import Path
from statemaint.fold.compiled.kernels import siphash
from statemaint.fold.compiled.kernels.compiled import fingerprint
import numpy as np
hashes, data, places = np.zeros(2, np.uint64), np.zeros(80, np.uint8), np.zeros(1, np.int64)
siphash.siphash_rows(data, places, places, 1, hashes, hashes, hashes)
hits = sum(siphash.siphash_rows.stats.cache_hits.values())
kept = list(Path(sys.argv[1], "statemaint", fingerprint()).rglob("*.nbc"))
print(hits, bool(kept), "numba.np.arraymath" in sys.modules)
"""


def kept_below(folder: Path, *, prefix: Sequence[str] = ()) -> str:
    """Runs a kernel in a process of its own.

    Returns the hits of what is kept, whether it is kept, whether numba has loaded all that it can
    compile, and what the user is told.
    """
    command = [*prefix, sys.executable, "-c", KEPT, str(folder)]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run(command, check=True, env=environment, capture_output=True, text=True)
    return (done.stdout + done.stderr).strip()


def test_what_is_compiled_is_kept_for_this_release_alone(tmp_path: Path) -> None:
    told = "\nstatemaint compiles its loops, which takes some seconds, and keeps the result for all"
    assert kept_below(tmp_path) == f"0 True True{told} runs of this release"
    assert kept_below(tmp_path) == "1 True False"


def test_what_an_image_brings_is_read_where_nothing_can_be_written(tmp_path: Path) -> None:
    kept_below(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    for folder in (tmp_path, *(path for path in before if path.is_dir())):
        folder.chmod(0o555)
    try:
        assert kept_below(tmp_path, prefix=AS_OWNER) == "1 True False"
        assert sorted(tmp_path.rglob("*")) == before
    finally:
        for folder in (tmp_path, *(path for path in before if path.is_dir())):
            folder.chmod(0o755)


def test_what_an_image_lacks_is_compiled_where_nothing_can_be_written(tmp_path: Path) -> None:
    place = tmp_path / "statemaint" / fingerprint()
    place.mkdir(parents=True)
    place.chmod(0o555)
    try:
        told = kept_below(tmp_path, prefix=AS_OWNER)
    finally:
        place.chmod(0o755)
    assert told.startswith("0 False True")
    assert "every process does so again" in told


def test_compiles_where_nothing_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert kept_below(tmp_path / "file") == (
        "0 False True\nstatemaint compiles its loops, which takes some seconds, and where nothing "
        "can be kept, every process does so again; let it write below NUMBA_CACHE_DIR"
    )


def test_compiles_ahead() -> None:
    subprocess.run([sys.executable, "-m", "statemaint.fold"], check=True)


# -- hostile bytes


def outcome(engine: Engine, files: Files) -> object:
    """Returns all that an engine makes of some files, or what it says of them."""
    try:
        states, digests = files.fold(engine, files.chain.version)
    except CodecError as error:
        return str(error)
    return states, digests


@pytest.mark.parametrize("engine", [FastEngine(), SMALL, TWICE], ids=["fast", "small", "twice"])
@pytest.mark.parametrize("row_checksums", [False, True])
@settings(max_examples=150)
@given(changes=CHANGES, data=st.data())
def test_both_engines_say_the_same_of_a_broken_payload(
    engine: Engine,
    row_checksums: bool,  # noqa: FBT001
    changes: list[Record],
    data: st.DataObject,
) -> None:
    files = Files(rows(3), [[], changes], codec="tiny", row_checksums=row_checksums)
    content = bytearray(b"".join(records.encode(changes, row_checksums=row_checksums)))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255) | st.sampled_from([0, 1, 127, 128, 255]))
    cut = content[: data.draw(st.integers(0, len(content)) | st.just(len(content)))]
    files.storage.write("3.delta", encode(Tiny(), [bytes(cut)]), overwrite=True)
    assert outcome(engine, files) == outcome(ClearEngine(), files)


# -- files that change


ONE: list[Record] = [(b"key-%03d" % number, b"one") for number in range(300)]


@pytest.mark.parametrize(
    "other",
    [
        [*reversed(ONE)],  # the same rows, as another attempt of the batch may write them
        ONE[:-1],
        [*ONE, *((b"key-%05d" % number, b"two") for number in range(30_000))],
        [(key, b"two") for key, _ in ONE],
    ],
    ids=["other order", "shorter", "longer", "other values"],
)
def test_a_delta_that_is_replaced_between_two_looks_is_superseded(other: list[Record]) -> None:
    files = Files({}, [ONE], codec="tiny")
    new = b"".join(encode(Tiny(), records.encode(other)))

    def put_in_place(_verb: str, _path: str) -> None:
        if storage.paths("open").count("2.delta") > 1:
            files.storage.write("2.delta", [new], overwrite=True)

    storage = HookedStorage(files.storage, before=put_in_place)
    files.source = replace(files.source, storage=storage)
    with pytest.raises(Superseded, match=r"2.delta: was replaced while it was read; plan again"):
        files.fold(TWICE, 2)
