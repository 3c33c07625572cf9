"""Estimates of memory: what they grow with, and what they look at."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

from statemaint.codec.compression.base import encode
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.hdfs import records
from statemaint.codec.rocksdb import changelog
from statemaint.codec.rocksdb.changelog import DELETE, PUT, Header
from statemaint.fold import Source
from statemaint.fold.needs import UNKNOWN, Density, density, fold_need, loading, read_need
from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Provider
from statemaint.model.files import Delta, Snapshot
from statemaint.storage import MemoryStorage
from tests.support.faults import HookedStorage
from tests.support.marks import long

MIB = 1024 * 1024
ROCKS, HDFS = Provider.ROCKSDB, Provider.HDFS_BACKED
PLAIN = Density(payload=2.0, record=64.0)


def chain(sizes: Iterable[int], base: int = 0) -> Chain:
    deltas = [Delta(number, Entry(f"{number}", size, 1.0)) for number, size in enumerate(sizes, 2)]
    snapshot = Snapshot(1, Entry("1.snapshot", base, 1.0)) if base else None
    return Chain(len(deltas) + 1, snapshot, tuple(deltas))


SIZES = st.lists(st.integers(0, 1 << 32), min_size=1, max_size=20)
PROVIDERS = st.sampled_from(list(Provider))
DENSITIES = st.builds(Density, st.floats(1, 200), st.floats(8, 100_000))


@given(SIZES, PROVIDERS, DENSITIES, st.integers(0, 1 << 32))
def test_a_longer_chain_never_needs_less(
    sizes: list[int], provider: Provider, found: Density, more: int
) -> None:
    for far in (False, True):
        shorter = fold_need(chain(sizes, 9), provider, found, far=far)
        assert fold_need(chain([*sizes, more], 9), provider, found, far=far) >= shorter > 0


@given(SIZES, PROVIDERS, DENSITIES, st.floats(1, 10))
def test_denser_deltas_never_need_less(
    sizes: list[int], provider: Provider, found: Density, times: float
) -> None:
    need = fold_need(chain(sizes), provider, found)
    larger = replace(found, payload=found.payload * times)
    assert fold_need(chain(sizes), provider, larger) >= need
    if provider is ROCKS or found.record < MIB:
        smaller = replace(found, record=max(8.0, found.record / times))
        assert fold_need(chain(sizes), provider, smaller) >= need - 3 * found.record


@given(SIZES, PROVIDERS, DENSITIES, st.integers(0, 1 << 40))
def test_snapshots_tables_and_distance_add_to_it(
    sizes: list[int], provider: Provider, found: Density, tables: int
) -> None:
    need = fold_need(chain(sizes, 99), provider, found)
    assert fold_need(chain(sizes, 99), provider, found, far=True) >= need
    assert fold_need(chain(sizes, 99), provider, found, tables=tables) >= need
    assert fold_need(chain(sizes, 99), provider, found, writes=2) > need


def test_two_zips_on_a_base_take_two_databases_and_others_one() -> None:
    one = fold_need(chain([MIB], 9), ROCKS, PLAIN, writes=1)
    assert fold_need(chain([MIB], 9), ROCKS, PLAIN, writes=2) >= one + 16 * MIB
    without = [fold_need(chain([MIB]), ROCKS, PLAIN, writes=writes) for writes in (1, 2)]
    assert without[0] == without[1]


def test_the_base_streams_past_and_costs_nothing_however_large() -> None:
    assert fold_need(chain([MIB], 1 << 40), HDFS, PLAIN) == fold_need(
        chain([MIB], MIB), HDFS, PLAIN
    )


def test_what_rocksdb_writes_to_its_files_does_not_count() -> None:
    large, larger = (fold_need(chain([size * MIB]), ROCKS, PLAIN) for size in (1_000, 100_000))
    assert large == larger < 512 * MIB


def test_a_small_state_is_counted_as_objects_of_python() -> None:
    assert fold_need(chain([100] * 5), HDFS) < 8 * MIB


def test_few_large_values_need_less_than_many_small_rows_of_as_many_bytes() -> None:
    sizes = chain([10 * MIB] * 10)
    small, large = (fold_need(sizes, HDFS, Density(2.0, record)) for record in (40.0, 60_000.0))
    assert small > 2 * large


def test_reading_a_file_takes_a_window_and_its_parts_where_it_is_far() -> None:
    assert read_need(1 << 40, far=False) == read_need(0, far=True)
    assert read_need(MIB, far=True) < read_need(1 << 40, far=True) < 64 * MIB


def test_a_run_without_compiled_loops_loads_nothing() -> None:
    assert loading(1000, HDFS) == 0
    assert loading(MIB, HDFS) > 16 * MIB


# -- a look into a delta


def source(codec: str = "lz4") -> tuple[HookedStorage, Source]:
    storage = HookedStorage()
    return storage, Source(storage, COMPRESSIONS[codec], row_checksums=False, key=bytes(16))


def rows(count: int, value: int) -> list[tuple[bytes, bytes | None]]:
    random = default_rng(count)
    return [
        (b"key %26d" % number, random.bytes(value) if number % 10 else None)
        for number in range(count)
    ]


def delta(storage: MemoryStorage, codec: str, name: str, payload: Iterable[bytes]) -> Delta:
    return Delta(1, storage.write(name, encode(COMPRESSIONS[codec], payload)))


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("codec", "count", "value"),
    [
        long("lzf", 200_000, 24),  # written by loops that are not compiled
        *((codec, 200_000, 24) for codec in COMPRESSIONS if codec != "lzf"),
        *((codec, 60, 60_000) for codec in COMPRESSIONS),
    ],
)
def test_a_look_finds_the_size_of_records_and_how_they_compress(
    codec: str, count: int, value: int
) -> None:
    storage, found = source(codec)
    payload = b"".join(records.encode(rows(count, value)))
    one = delta(storage, codec, "1.delta", [payload])
    looked = density(found, [one], HDFS)
    assert looked.record == pytest.approx(len(payload) / count, rel=0.25)
    assert looked.payload == pytest.approx(len(payload) / one.entry.size, rel=0.25)
    assert looked.records(one.entry.size) == pytest.approx(count, rel=0.4)


def test_a_look_finds_the_size_of_records_in_a_changelog() -> None:
    storage, found = source()
    changes = [(DELETE if value is None else PUT, key, value) for key, value in rows(80_000, 24)]
    payload = b"".join(changelog.encode(Header(1), changes))
    one = delta(storage, "lz4", "1.changelog", [payload])
    looked = density(found, [one], ROCKS)
    assert looked.record == pytest.approx(len(payload) / 80_000, rel=0.1)


def test_the_smallest_delta_that_tells_enough_is_looked_into() -> None:
    storage, found = source()
    deltas = [
        delta(storage, "lz4", f"{count}.delta", records.encode(rows(count, 500)))
        for count in (4_000, 1_000, 3_000, 3)
    ]
    density(found, deltas, HDFS)
    assert storage.paths("open") == ["1000.delta"]


def test_small_chains_are_not_worth_a_request() -> None:
    storage, found = source()
    one = delta(storage, "lz4", "1.delta", records.encode(rows(1_000, 24)))
    assert density(found, [one], HDFS) == density(found, [], HDFS) == UNKNOWN
    assert storage.paths("open") == []


@pytest.mark.parametrize("content", [b"", b"no block at all" * 200_000])
def test_what_cannot_be_read_is_unknown_and_left_to_the_fold(content: bytes) -> None:
    storage, found = source()
    listed = Entry("1.delta", 3 * MIB, 1.0)
    assert density(found, [Delta(1, listed)], HDFS) == UNKNOWN  # it is missing
    storage.write("1.delta", [content])
    assert density(found, [Delta(1, listed)], HDFS) == UNKNOWN


def test_a_record_beyond_what_is_looked_at_counts_with_what_was_seen() -> None:
    storage, found = source()
    large = [(b"key", default_rng(1).bytes(4 * MIB))]
    one = delta(storage, "lz4", "1.delta", records.encode(large))
    assert 256 * 1024 <= density(found, [one], HDFS).record < MIB
