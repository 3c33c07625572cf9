"""RocksDB's fold against a dictionary: rows, digests, counts, and what damage is called."""

import io
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemaint.codec.compression.base import encode as compress
from statemaint.codec.integrity import checksum_file
from statemaint.codec.integrity.digest import StateDigest
from statemaint.codec.integrity.digest import digest as clear_digest
from statemaint.codec.rocksdb import snapshot_zip
from statemaint.codec.rocksdb.changelog import (
    DELETE,
    DELETE_RANGE,
    MERGE,
    PUT,
    Change,
    Header,
    encode,
)
from statemaint.errors import (
    CodecError,
    MissingSstError,
    StaleChecksumError,
    StorageError,
    Superseded,
    UnsupportedError,
)
from statemaint.fold import Source
from statemaint.fold.rocksdb import Built, Limits, RocksEngine, build
from statemaint.fold.rocksdb.database import delimiter_of
from statemaint.fold.rocksdb.fetch import fetch, read_zip
from statemaint.fold.rocksdb.write import folded
from statemaint.model.chain import Chain
from statemaint.model.files import Delta, Snapshot
from statemaint.storage import MemoryStorage
from tests.support import rocks_stores as rocks
from tests.support.faults import HookedStorage
from tests.support.rocks_stores import KEY, STORE, State, in_memory, key_of, rows_of

CLEAR = Limits(compiled=1 << 60)
# The small one hands changes over all the time, as a chain of many gigabytes does.
ALL_LIMITS = [CLEAR, Limits(compiled=0), Limits(compiled=0, held=200), replace(CLEAR, held=400)]
limits_ = pytest.mark.parametrize("limits", ALL_LIMITS, ids=["clear", "fast", "small", "little"])

VALUES = st.binary(max_size=12)
NAMES = st.integers(0, 12).map(lambda number: b"\0k%02d" % number) | st.binary(max_size=12)
PLAIN = st.tuples(st.just(PUT), NAMES, VALUES) | st.tuples(st.just(DELETE), NAMES, st.none())
TAGGED_NAMES = st.builds(key_of, st.sampled_from(sorted(rocks.FAMILIES)), NAMES)
TAGGED = st.one_of(
    st.tuples(st.just(PUT), TAGGED_NAMES, VALUES),
    st.tuples(st.just(DELETE), TAGGED_NAMES, st.none()),
    st.tuples(st.just(MERGE), TAGGED_NAMES, VALUES),
    st.tuples(st.just(DELETE_RANGE), TAGGED_NAMES, TAGGED_NAMES),
)


@contextmanager
def workdir() -> Iterator[Path]:
    with TemporaryDirectory() as place:
        yield Path(place)


@dataclass
class World:
    """A store, and what a dictionary says of each of its versions."""

    source: Source
    tagged: bool
    delimiter: bytes = b""
    states: list[State] = field(default_factory=lambda: [{}])
    deltas: list[Delta] = field(default_factory=list)
    snapshots: dict[int, Snapshot] = field(default_factory=dict)

    @property
    def version(self) -> int:
        return len(self.states) - 1

    def write(self, changes: Sequence[Change]) -> None:
        self.states.append(dict(self.states[-1]))
        rocks.apply(self.states[-1], changes, self.delimiter)
        delta = rocks.put_changelog(self.source, self.version, changes, tagged=self.tagged)
        self.deltas.append(delta)

    def chain(self, version: int, start: int) -> Chain:
        return Chain(version, self.snapshots.get(start), tuple(self.deltas[start:version]))

    def build(self, limits: Limits, *, start: int = 0, reuse: bool = True) -> Built:
        """Builds the newest version, and puts it in place."""
        return self.build_all(limits, (self.version,), start=start, reuse=reuse)[0]

    def build_all(
        self, limits: Limits, versions: Sequence[int], *, start: int = 0, reuse: bool = True
    ) -> tuple[Built, ...]:
        """Builds some versions in one fold, and puts them in place."""
        with workdir() as place:
            made = build(
                self.source,
                [self.chain(version, start) for version in versions],
                workdir=place,
                families_from=self.snapshots.get(1) if self.tagged else None,
                reuse=reuse,
                limits=limits,
            )
            for built in made:
                self.snapshots[built.version] = rocks.store(self.source, built)
        return made

    def digest(self, version: int) -> StateDigest:
        return clear_digest(self.states[version].items(), KEY)

    def read_back(self, version: int, limits: Limits = CLEAR) -> StateDigest:
        return RocksEngine(limits).digest(self.source, self.snapshots[version].entry.path)


def plain(*versions: Sequence[Change], codec: str = "lz4") -> World:
    world = World(in_memory(codec), tagged=False)
    for changes in versions:
        world.write(changes)
    return world


def tagged(rows: State, *versions: Sequence[Change], delimiter: bytes = b"") -> World:
    """A store with column families begins with a snapshot of version 1, as Spark forces it."""
    world = World(in_memory(), tagged=True, delimiter=delimiter)
    world.write([(PUT, key, value) for key, value in rows.items()])
    world.snapshots[1] = rocks.put_first(world.source, 1, rows, delimiter)
    for changes in versions:
        world.write(changes)
    return world


def state(source: Source, chain: Chain, limits: Limits = CLEAR) -> StateDigest:
    folding = RocksEngine(limits).fold(source, chain, (chain.version,), write=False)
    return folding.digests[chain.version]


def puts(count: int, first: int = 0) -> list[Change]:
    return [(PUT, b"\0key%05d" % number, b"value %d" % number) for number in range(first, count)]


# -- against a dictionary


@limits_
@settings(max_examples=20)
@given(st.lists(st.tuples(st.lists(PLAIN, max_size=20), st.booleans(), st.booleans()), max_size=3))
def test_a_chain_of_puts_and_deletes_is_what_a_dictionary_says(
    limits: Limits, versions: list[tuple[list[Change], bool, bool]]
) -> None:
    world, start = plain(), 0
    for changes, snapshot, reuse in [*versions, ([], True, True)]:
        world.write(changes)
        if snapshot:
            above = range(start + 1, world.version + 1)
            made = world.build_all(limits, above, start=start, reuse=reuse)
            start = world.version
            agree(world, made, limits)


@limits_
@settings(max_examples=20)
@given(
    st.sampled_from([b"", b","]),
    st.dictionaries(TAGGED_NAMES, VALUES, max_size=5),
    st.lists(st.tuples(st.lists(TAGGED, max_size=20), st.booleans(), st.booleans()), max_size=3),
)
def test_a_chain_with_column_families_is_what_a_dictionary_says(
    limits: Limits,
    delimiter: bytes,
    rows: State,
    versions: list[tuple[list[Change], bool, bool]],
) -> None:
    world, start = tagged(rows, delimiter=delimiter), 1
    for changes, snapshot, reuse in [*versions, ([], True, True)]:
        world.write(changes)
        if snapshot:
            above = range(start + 1, world.version + 1)
            made = world.build_all(limits, above, start=start, reuse=reuse)
            start = world.version
            agree(world, made, limits)
    from_log = replace(world.source, families=world.snapshots[1])
    found = state(from_log, world.chain(world.version, 0), limits)
    assert found == world.digest(world.version)


def agree(world: World, made: Sequence[Built], limits: Limits) -> None:
    for built in made:
        agrees(world, built, limits)


def agrees(world: World, built: Built, limits: Limits) -> None:
    version = built.version
    expected = world.states[version]
    assert built.digest == world.digest(version) == world.read_back(version, limits)
    internal = sum(key.startswith(key_of("$count", b"")) for key in expected)
    counts = built.metadata.keys, built.metadata.internal_keys
    assert counts == ((len(expected) - internal, internal) if world.tagged else (len(expected), 0))
    named = {*(fresh.stored for fresh in built.new), *(sst.stored for sst in built.reused)}
    assert {sst.stored for sst in built.metadata.ssts} == named


@limits_
@pytest.mark.parametrize("codec", ["lz4", "zstd", "snappy", "lzf"])
def test_every_codec_gives_the_same(limits: Limits, codec: str) -> None:
    world = plain(puts(500), [(DELETE, b"\0key00007", None), *puts(900, 400)], codec=codec)
    assert world.build(limits).digest == world.digest(2)


LONG = [b"", b"\0", b"\0\0", b"a" * 9, b"a" * 9 + b"\0", b"a" * 8, b"\xff" * 300]
ENDS = (b"", b"\0", b"b")
ALIKE = [b"same start %02d %s" % (one % 7, end) for one in range(99) for end in ENDS]

FEW_ALIKE = [b"%08d" % number for number in range(999)] + [b"00000007" + end for end in LONG]


@limits_
@pytest.mark.parametrize("names", [LONG, ALIKE, FEW_ALIKE, [b"z" * 200 + name for name in LONG]])
def test_keys_are_put_in_the_order_of_their_bytes(limits: Limits, names: list[bytes]) -> None:
    world = plain([(PUT, name, b"v") for name in names])
    assert world.build(limits).digest == world.digest(1)
    chain = Chain(1, world.snapshots[1], ())
    assert list(rows_of(world.source, chain)) == sorted(world.states[1])


@limits_
def test_many_keys(limits: Limits) -> None:
    world = plain(puts(20_000), [(DELETE, b"\0key%05d" % number, None) for number in range(9000)])
    assert world.build(limits).digest == world.digest(2)


@limits_
def test_a_change_larger_than_all_that_may_wait(limits: Limits) -> None:
    large = bytes(3_000_000)
    world = plain([(PUT, b"a", b"1"), (PUT, b"b", large), (PUT, b"c", b"3")], [(PUT, b"a", b"2")])
    assert world.build(limits).digest == world.digest(2)


def test_lists_that_grow_are_not_held_in_memory() -> None:
    lists = {key_of("list", b"%03d" % number): bytes(100_000) for number in range(100)}
    world = tagged(lists, [(MERGE, key, b"more") for key in lists])
    tracemalloc.start()
    try:
        with folded(world.source, world.chain(2, 1)) as fold:
            assert tracemalloc.get_traced_memory()[1] < 5_000_000
            assert dict(chain.from_iterable(fold.database.rows())) == world.states[2]
    finally:
        tracemalloc.stop()


def test_large_rows_after_small_ones_are_read_a_few_at_a_time() -> None:
    small = {b"a%04d" % number: b"" for number in range(2000)}
    world = tagged(small | {b"b%02d" % number: bytes(300_000) for number in range(50)})
    with folded(world.source, world.chain(1, 1)) as fold:
        batches = [*fold.database.rows()]
    assert dict(chain.from_iterable(batches)) == world.states[1]
    assert max(sum(map(len, chain.from_iterable(batch))) for batch in batches) < 1_500_000


# -- what is reused, and what piles up


def test_reuse_names_the_files_of_the_base_that_have_not_changed() -> None:
    world = plain(puts(50))
    first = world.build(CLEAR)
    world.write([(PUT, b"\0key00003", b"new")])
    second = world.build(CLEAR, start=1)
    assert second.reused == first.metadata.ssts
    assert len(second.new) == 1


def test_of_two_snapshots_of_one_fold_the_newer_names_the_files_of_the_base() -> None:
    world = plain(puts(50))
    first = world.build(CLEAR)
    world.write([(PUT, b"\0key00003", b"new")])
    world.write([(PUT, b"\0key00004", b"newer")])
    floor, target = world.build_all(CLEAR, (2, 3), start=1)
    assert (floor.version, floor.reused, len(floor.new)) == (2, (), 2)
    assert (target.version, target.reused) == (3, first.metadata.ssts)
    assert not {one.stored for one in floor.new} & {one.stored for one in target.new}
    assert len(target.new) == 1  # the floor's changes have no file of their own in it
    agree(world, (floor, target), CLEAR)


@limits_
def test_floor_and_target_on_a_base_have_every_kind_of_change(limits: Limits) -> None:
    a, b, c, d, e = (key_of("list", bytes([letter])) for letter in b"abcde")
    world = tagged({a: b"1", b: b"2", c: b"3", d: b"4"}, delimiter=b",")
    world.write([(PUT, e, b"5"), (MERGE, b, b"6"), (DELETE_RANGE, c, d)])
    world.write([(MERGE, b, b"7"), (MERGE, c, b"8"), (DELETE, a, None)])
    world.write([(DELETE_RANGE, d, e), (PUT, a, b"9"), (MERGE, b, b"10")])
    floor, target = world.build_all(limits, (3, 4), start=1)
    assert world.states[4] == {a: b"9", b: b"2,6,7,10", c: b"8", e: b"5"}
    assert (floor.version, target.version) == (3, 4)
    agree(world, (floor, target), limits)


def test_the_files_of_one_fold_are_read_once() -> None:
    world = plain(puts(50), puts(60, 50), puts(70, 60))
    before = world.source.storage.requests.get("read", 0)
    world.build_all(CLEAR, (2, 3))
    assert world.source.storage.requests.get("read", 0) - before == 3


def test_without_reuse_every_file_is_new() -> None:
    world = plain(puts(50))
    old = {sst.stored for sst in world.build(CLEAR).metadata.ssts}
    world.write([(PUT, b"\0key00003", b"new")])
    second = world.build(CLEAR, start=1, reuse=False)
    assert second.reused == ()
    assert not old & {fresh.stored for fresh in second.new}
    assert len({fresh.stored.partition("-")[0] for fresh in second.new}) == len(second.new)


def test_neither_files_nor_deleted_rows_pile_up() -> None:
    world = plain(puts(50))
    counts = []
    for version in range(1, 14):
        built = world.build(CLEAR, start=version - 1)
        counts.append(len(built.metadata.ssts))
        world.write([(DELETE, b"\0key%05d" % version, None), *puts(50, 40)])
    assert max(counts) <= 5
    assert counts.count(1) >= 3


def test_what_is_deleted_from_nothing_is_not_written() -> None:
    world = plain([(DELETE, b"\0a", None), (PUT, b"\0b", b"1"), (DELETE, b"\0b", None)])
    for limits in ALL_LIMITS:
        built = world.build(limits)
        assert (built.new, built.metadata.ssts, built.metadata.keys) == ((), (), 0)


def test_the_zip_holds_rocksdb_s_small_files_and_nothing_else() -> None:
    members = plain(puts(5)).build(CLEAR).members
    kinds = {name.rpartition("-")[0] or name.partition(".")[2] or name for name in members}
    assert kinds == {"CURRENT", "MANIFEST", "OPTIONS", "log"}


# -- merges and column families


@pytest.mark.parametrize("delimiter", [b"", b","])
def test_the_merge_operator_is_handed_down_from_zip_to_zip(delimiter: bytes) -> None:
    key = key_of("list", b"a")
    world = tagged({key: b"1"}, [(MERGE, key, b"2")], delimiter=delimiter)
    for start, operand in ((1, b"3"), (2, b"4")):
        world.build(CLEAR, start=start)
        members = read_zip(world.source, world.snapshots[start + 1]).members
        assert delimiter_of(members) == delimiter
        world.write([(MERGE, key, operand)])
    assert world.states[-1][key] == delimiter.join([b"1", b"2", b"3", b"4"])
    assert rows_of(world.source, world.chain(4, 3)) == world.states[-1]


def test_a_merge_that_nothing_explains_is_refused() -> None:
    key = key_of("list", b"a")
    world = tagged({key: b"1"}, [(MERGE, key, b"2")])
    with pytest.raises(CodecError, match="no snapshot names") as raised:
        state(world.source, world.chain(2, 0))
    assert raised.value.path == f"{STORE}/2.changelog"


def test_column_families_that_nothing_lists_are_refused() -> None:
    world = tagged({key_of("default", b"a"): b"1"})
    with workdir() as place, pytest.raises(UnsupportedError, match="column families"):
        build(world.source, [world.chain(1, 0)], workdir=place, families_from=None, reuse=False)
    assert state(world.source, world.chain(1, 0)) == world.digest(1)  # of the rows alone


@limits_
def test_a_row_of_an_unknown_column_family_is_refused(limits: Limits) -> None:
    world = tagged({}, [(PUT, b"\x07\0row", b"1")])
    with pytest.raises(CodecError, match="unknown column family 7"):
        world.build(limits, start=1)


@limits_
@pytest.mark.parametrize("format_", [1, 2])
def test_a_changelog_of_another_kind_of_store_is_refused(limits: Limits, format_: int) -> None:
    world = tagged({}) if format_ == 1 else plain(puts(3))
    world.build(limits, start=world.version if world.tagged else 0)
    world.tagged = not world.tagged
    world.write([(PUT, b"\1\0a", b"1")])
    with pytest.raises(CodecError, match="of the column families") as raised:
        state(world.source, world.chain(2, 1), limits)
    assert raised.value.path == f"{STORE}/2.changelog"


@limits_
@pytest.mark.parametrize("format_", [3, 4])
def test_a_lineage_is_passed_over(limits: Limits, format_: int) -> None:
    lineage = tuple((number, f"{number:08x}-0000-0000-0000-000000000000") for number in (1, 2))
    source, rows = in_memory(), [(PUT, b"\1\0a%d" % number, b"v") for number in range(9)]
    stored = compress(source.compression, encode(Header(format_, lineage), rows))
    delta = Delta(3, source.storage.write("3.changelog", stored))
    expected = clear_digest([(key, value) for _, key, value in rows], KEY)
    assert state(source, Chain(3, None, (delta,)), limits) == expected


# -- damage


def damaged(world: World, path: str, content: bytes) -> None:
    world.source.storage.write(path, [content], overwrite=True)


def sst_of(world: World) -> str:
    (sst,) = read_zip(world.source, world.snapshots[world.version]).metadata.ssts
    return f"{STORE}/SSTs/{sst.stored}"


@pytest.fixture
def built() -> World:
    world = plain(puts(2000))
    world.build(CLEAR)
    return world


def test_a_missing_sst_file_is_named(built: World) -> None:
    path = sst_of(built)
    built.source.storage.delete(path)
    with pytest.raises(MissingSstError) as raised:
        built.read_back(1)
    assert (raised.value.path, raised.value.sst) == (f"{STORE}/1.zip", path)
    assert raised.value.code == "MISSING_SST"


def test_a_zip_that_a_clean_up_takes_while_it_is_read_is_no_damage(
    built: World, tmp_path: Path
) -> None:
    zip_path, table = f"{STORE}/1.zip", sst_of(built)
    found = read_zip(built.source, built.snapshots[1])
    for path in (table, zip_path):  # in the order in which Spark deletes them
        built.source.storage.delete(path)
    with pytest.raises(Superseded) as raised:
        fetch(built.source, found, tmp_path / "database")
    assert str(raised.value) == f"{zip_path}: was deleted while it was read; plan again"


@pytest.mark.parametrize("change", [-1, 1])
def test_an_sst_file_of_another_size_is_named(built: World, change: int) -> None:
    path = sst_of(built)
    content = built.source.storage.read(path)
    damaged(built, path, content[:change] if change < 0 else content + b"x")
    with pytest.raises(CodecError, match=r"1\.zip records") as raised:
        built.read_back(1)
    assert raised.value.path == path


def test_an_sst_file_of_another_size_is_not_read(built: World, tmp_path: Path) -> None:
    """A stray file may be larger than any disk for copies."""
    path = sst_of(built)
    damaged(built, path, built.source.storage.read(path) + b"x")
    assert isinstance(built.source.storage, MemoryStorage)
    watched = HookedStorage(built.source.storage)
    source = replace(built.source, storage=watched)
    found = read_zip(source, built.snapshots[1])
    with pytest.raises(CodecError, match=r"1\.zip records"):
        fetch(source, found, tmp_path / "database")
    assert path not in watched.paths("open")


@limits_
@pytest.mark.parametrize("part", [0.1, 0.5])
def test_a_damaged_block_is_no_end_of_the_rows(built: World, limits: Limits, part: float) -> None:
    path = sst_of(built)
    content = bytearray(built.source.storage.read(path))
    content[int(len(content) * part)] ^= 0xFF
    damaged(built, path, bytes(content))
    with pytest.raises(CodecError, match="RocksDB refuses it: Corruption"):
        built.read_back(1, limits)


def test_a_zip_that_counts_wrongly_is_named(built: World) -> None:
    rewrite(built, keys=1999)
    with pytest.raises(CodecError, match="it holds 2000 keys and records 1999") as raised:
        built.read_back(1)
    assert raised.value.path == f"{STORE}/1.zip"


def test_a_zip_that_does_not_count_is_believed(built: World) -> None:
    rewrite(built, keys=-1)
    assert built.read_back(1) == built.digest(1)


def test_with_column_families_spark_s_counts_are_not_trusted() -> None:
    world = tagged({key_of("list", b"a"): b"1"})
    rewrite(world, keys=7)
    assert world.read_back(1) == world.digest(1)


def rewrite(world: World, **changes: int) -> None:
    found = read_zip(world.source, world.snapshots[1])
    metadata = replace(found.metadata, **changes)  # type: ignore[arg-type]
    damaged(world, found.path, snapshot_zip.render(found.members, metadata))


def test_a_cut_zip_is_named(built: World) -> None:
    path = f"{STORE}/1.zip"
    damaged(built, path, built.source.storage.read(path)[:-30])
    with pytest.raises(CodecError, match="not a sound zip") as raised:
        built.read_back(1)
    assert raised.value.path == path


def test_a_damaged_manifest_never_reaches_rocksdb(built: World) -> None:
    found = read_zip(built.source, built.snapshots[1])
    (name,) = (name for name in found.members if name.startswith("MANIFEST"))
    members = {**found.members, name: found.members[name] + b"\0"}
    damaged(built, found.path, snapshot_zip.render(members, found.metadata))
    with pytest.raises(CodecError, match="record header cut short") as raised:
        built.read_back(1)
    assert raised.value.path == found.path


def test_a_zip_without_its_manifest_is_named(built: World) -> None:
    found = read_zip(built.source, built.snapshots[1])
    kept = {name: one for name, one in found.members.items() if not name.startswith("MANIFEST")}
    damaged(built, found.path, snapshot_zip.render(kept, found.metadata))
    with pytest.raises(CodecError, match="RocksDB refuses it") as raised:
        built.read_back(1)
    assert raised.value.path == found.path


@limits_
@pytest.mark.parametrize("where", [0.3, 1.0])
def test_a_cut_changelog_is_named(limits: Limits, where: float) -> None:
    world = plain(puts(3000))
    path = f"{STORE}/1.changelog"
    content = world.source.storage.read(path)
    damaged(world, path, content[: int((len(content) - 60) * where)])
    for work in (
        lambda: state(world.source, world.chain(1, 0), limits),
        lambda: RocksEngine().check(world.source, world.deltas[0]),
    ):
        with pytest.raises(CodecError) as raised:
            work()
        assert raised.value.path == path


@limits_
def test_a_stale_checksum_file_stops_the_fold(limits: Limits) -> None:
    world = plain(puts(300))
    path = f"{STORE}/1.changelog"
    world.source = world.source.beside(path)
    stale = checksum_file.spark(1234, world.deltas[0].entry.size, 0.0)
    world.source.storage.write(f"{path}.crc", [stale])
    with pytest.raises(StaleChecksumError):
        state(world.source, world.chain(1, 0), limits)


@limits_
@pytest.mark.parametrize("format_", [1, 2])
def test_a_changelog_without_its_end_is_damage(limits: Limits, format_: int) -> None:
    source = in_memory()
    payload = b"".join(encode(Header(format_), puts(10)))[: -4 if format_ == 1 else -1]
    delta = Delta(1, source.storage.write("1.changelog", compress(source.compression, [payload])))
    with pytest.raises(CodecError, match="ends early") as raised:
        state(source, Chain(1, None, (delta,)), limits)
    assert raised.value.path == "1.changelog"


def test_bytes_behind_the_end_of_a_changelog_are_damage() -> None:
    source = in_memory()
    payload = b"".join(encode(Header(1), puts(10))) + b"more"
    delta = Delta(1, source.storage.write("1.changelog", compress(source.compression, [payload])))
    for limits in ALL_LIMITS:
        with pytest.raises(CodecError, match="follow the end"):
            state(source, Chain(1, None, (delta,)), limits)
    with pytest.raises(CodecError, match="follow the end"):
        RocksEngine().check(source, delta)


def test_a_temporary_directory_that_refuses_is_no_damage(built: World) -> None:
    with workdir() as place:
        (place / "file").touch()
        chains, refusing = [built.chain(1, 1)], place / "file"
        with pytest.raises(StorageError, match="the temporary directory"):
            build(built.source, chains, workdir=refusing, families_from=None, reuse=False)


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("nullptr", None),
        ("StringAppendOperator", b""),
        ("{id=StringAppendOperator;delimiter=,;}", b","),
    ],
)
def test_the_merge_operator_stands_in_the_newest_options(
    text: str, delimiter: bytes | None
) -> None:
    members = {
        "OPTIONS-000007": b"  merge_operator=PutOperator\n",
        "OPTIONS-1000000": f"[CFOptions]\n  merge_operator={text}\n  other=1\n".encode(),
    }
    assert delimiter_of(members) == delimiter


@pytest.mark.parametrize("text", ["PutOperator", "{id=StringAppendOperator;delimiter=ab;}", ""])
def test_a_merge_operator_that_spark_does_not_use_is_refused(text: str) -> None:
    with pytest.raises(CodecError, match="merge operator"):
        delimiter_of({"OPTIONS-000007": f"  merge_operator={text}\n".encode()})


def test_a_zip_without_options_is_refused() -> None:
    with pytest.raises(CodecError, match="no merge operator"):
        delimiter_of({"CURRENT": b""})


def test_a_zip_of_gigabytes_is_an_error_and_not_read(built: World) -> None:
    path, taken = f"{STORE}/1.zip", []

    class Endless(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            taken.append(size)
            return bytes(min(size, 1 << 28))

    class Large(MemoryStorage):
        def open(self, opened: str):  # type: ignore[no-untyped-def]
            return nullcontext(Endless()) if opened == path else super().open(opened)

    assert isinstance(built.source.storage, MemoryStorage)
    source = replace(built.source, storage=Large(built.source.storage.files))
    with pytest.raises(CodecError, match="more than 128 MiB") as raised:
        read_zip(source, built.snapshots[1])
    assert raised.value.path == path
    assert taken == [(128 << 20) + 1]
