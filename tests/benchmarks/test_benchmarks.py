"""The benchmarks run, on the smallest of inputs, and fold what they say that they fold."""

import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from tests.benchmarks import floor, ours, side_by_side, tables
from tests.benchmarks.bench import Bench
from tests.benchmarks.cases import AGGREGATION
from tests.benchmarks.inputs import copy_of, store_folder
from tests.benchmarks.tables import Results

SMALL = replace(AGGREGATION, rows=1000)


def records(path: Path) -> Iterator[tuple[bytes, bytes | None]]:
    payload, at = floor.payload(path), 0
    while (key_size := _int(payload, at)) >= 0:
        key, at = payload[at + 4 : at + 4 + key_size], at + 4 + key_size
        size = max(0, _int(payload, at))
        yield key, payload[at + 4 : at + 4 + size] if _int(payload, at) >= 0 else None
        at += 4 + size
    assert at == len(payload) - 4


def _int(payload: bytes, at: int) -> int:
    number: int = struct.unpack_from(">i", payload, at)[0]
    return number


def reference(folder: Path) -> dict[bytes, bytes]:
    state: dict[bytes, bytes] = {}
    for version in range(SMALL.base, SMALL.last + 1):
        kind = "snapshot" if version == SMALL.base else "delta"
        for key, value in records(folder / f"{version}.{kind}"):
            if value is None:
                del state[key]  # no delta removes what is not there
            else:
                state[key] = value
    return state


def quiet(folder: Path) -> Bench:
    return Bench(folder, 1, Results(Console(quiet=True)))


def test_the_smallest_case_gives_a_line_of_times_and_one_of_memory(tmp_path: Path) -> None:
    bench = quiet(tmp_path)
    side_by_side.run(bench, SMALL)
    for section in (tables.TIMES, tables.MEMORY):
        (line,) = bench.results.lines[section.title]
        assert len(line) == len(section.columns)
    assert bench.results.lines[tables.TIMES.title][0][0] == "aggregation"


def test_ours_folds_a_generated_store_to_the_reference(tmp_path: Path) -> None:
    given = quiet(tmp_path).prepare(SMALL)
    expected = reference(store_folder(given.root))
    with copy_of(given) as root:
        ours.fold_and_write(root, SMALL.last)
        assert ours.digest_of(root, SMALL.last) == ours.digest_rows(expected.items())
    assert len(expected) == given.facts.rows
    assert given.facts.records == 1000 + 15 * 50


def test_a_whole_run_replaces_the_generated_section_and_nothing_else(tmp_path: Path) -> None:
    document = tmp_path / "benchmarks.md"
    document.write_text(f"before\n{tables.BEGIN}\nold\n{tables.END}\nafter\n")
    bench = quiet(tmp_path)
    bench.results.add(tables.THREADS, "aggregation", "2.000", "1.000", "2.00")
    tables.rewrite(document, bench.results.markdown())
    assert document.read_text().startswith(f"before\n{tables.BEGIN}\n\n### Two threads\n")
    assert document.read_text().endswith(f"| 2.00 |\n\n{tables.END}\nafter\n")
