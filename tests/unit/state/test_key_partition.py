"""`show --key` reads one partition where the key's hash is known, and finds the same rows."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from statemaint.cli.show import reads
from statemaint.state import StateSelection, select_state
from statemaint.state.shuffle_key import holding
from statemaint.storage import MemoryStorage
from tests.checkpoints.archive import contents

ARCHIVES = [
    pytest.param(archive, kind, id=f"{archive} {kind}")
    for archive in ("4.3.0", "rocks-4.3.0")
    for kind in sorted(contents(archive))
]
STRICT = "useStrictDistribution"
PARTITIONS = '"spark.sql.shuffle.partitions":"'


def texts(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for one in value.values():
                yield from texts(one)
        case list():
            for one in value:
                yield from texts(one)
        case _:
            yield value if isinstance(value, str) else json.dumps(value)


def partitions(found: StateSelection) -> set[int]:
    return {part.store.id.partition for part in found.parts}


def rows_with(found: StateSelection, text: str) -> list[Any]:
    return [row for row in found.rows() if reads(row.key, text)]


def storage_of(kind: str, archive: str = "4.3.0") -> MemoryStorage:
    return MemoryStorage(contents(archive)[kind])


@pytest.mark.parametrize(("archive", "kind"), ARCHIVES)
def test_every_key_is_found_as_before(archive: str, kind: str) -> None:
    storage = storage_of(kind, archive)
    operators = {int(path.split("/")[1]) for path in storage.files if path.startswith("state/")}
    for operator in operators:
        everything = select_state(storage, operator)
        known = {text for row in everything.rows() for text in texts(row.key)}
        for text in {*sorted(known)[:8], "0", "-7", "null", "true", "nothing", "2026-01-01"}:
            assert rows_with(holding(everything, text), text) == rows_with(everything, text), text


def test_one_partition_is_read_for_a_key() -> None:
    storage = storage_of("dedup-within-watermark")
    everything = select_state(storage)
    assert len(partitions(everything)) > 1
    before = storage.requests["read"]
    all_rows = rows_with(everything, "011-0")
    of_all = storage.requests["read"] - before
    some = holding(everything, "011-0")
    before = storage.requests["read"]
    assert rows_with(some, "011-0") == all_rows != []
    assert storage.requests["read"] - before < of_all
    assert partitions(some) == {row.store.partition for row in all_rows}


def test_a_number_beside_the_key_leaves_no_doubt_about_a_text() -> None:
    joined = select_state(storage_of("join2"), store="left-keyWithIndexToValue")
    assert len(partitions(holding(joined, "k3"))) == 1
    assert partitions(holding(joined, "0")) == partitions(joined)


@pytest.mark.parametrize("kind", ["aggregation2", "rocks-timed"])
def test_a_key_of_several_columns_is_looked_for_everywhere(kind: str) -> None:
    archive = "rocks-4.3.0" if kind.startswith("rocks-") else "4.3.0"
    everything = select_state(storage_of(kind, archive))
    assert holding(everything, "k3") == everything


def test_a_null_is_looked_for_everywhere() -> None:
    everything = select_state(storage_of("dedup-within-watermark"))
    assert holding(everything, "null") == everything


def with_offsets(old: str, new: str) -> MemoryStorage:
    files = dict(contents("4.3.0")["dedup-within-watermark"])
    for path in [one for one in files if one.startswith("offsets/")]:
        assert old in files[path].decode()
        files[path] = files[path].decode().replace(old, new).encode()
    return MemoryStorage(files)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (STRICT, "useLooseDistribution"),
        (PARTITIONS, '"spark.sql.no.partitions":"'),
        (PARTITIONS, PARTITIONS + "1"),
    ],
    ids=["loose", "no number", "another number"],
)
def test_without_certainty_every_partition_is_read(old: str, new: str) -> None:
    certain = select_state(storage_of("dedup-within-watermark"))
    assert holding(certain, "011-0") != certain
    doubtful = replace(certain, storage=with_offsets(old, new))
    assert holding(doubtful, "011-0") == doubtful


def test_without_the_batchs_offsets_every_partition_is_read() -> None:
    certain = select_state(storage_of("dedup-within-watermark"), version=12)
    assert holding(certain, "010-4") != certain
    doubtful = replace(certain, storage=MemoryStorage({}))
    assert holding(doubtful, "010-4") == doubtful
