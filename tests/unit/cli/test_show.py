"""`statemaint show` as a person runs it, on checkpoints that Spark 4.3 made."""

import csv
import io
import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from statemaint.codec.rows.types import AtomicType, Field, StructType
from tests.checkpoints.archive import contents
from tests.support.checkpoints import delta_bytes, put_files
from tests.support.marks import long
from tests.support.program import run as run_program
from tests.support.terminal import at_terminal
from tests.support.unsafe_rows import row as unsafe_row

AGGREGATION = "aggregation2"


def unpacked(kind: str, root: Path) -> Path:
    archive = "rocks-4.3.0" if kind.startswith("rocks-") else "4.3.0"
    archive = "rocks-maintained-4.3.0" if kind.endswith("-maintained") else archive
    return put_files(root, contents(archive)[kind])


def run(root: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return run_program("show", str(root), *args)


def shown(root: Path, *args: str) -> Any:
    done = run(root, *args, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_a_table_has_the_columns_of_key_and_value(tmp_path: Path) -> None:
    done = run(unpacked("dedup-within-watermark", tmp_path), "--partition", "0", "--limit", "2")
    assert (done.returncode, done.stderr) == (0, "")
    title, head, *lines, cut = done.stdout.splitlines()
    assert title == "op 0 / default: the first 2 rows at version 13"
    assert cut == "--limit 2 omits the others"
    assert head.split() == ["partition", "key.id", "value.expiresAtMicros"]
    assert [line.split() for line in lines] == [
        ["0", "010-4", "1767266640000000"],
        ["0", "011-0", "1767268800000000"],
    ]


def test_families_have_a_table_each(tmp_path: Path) -> None:
    done = run(unpacked("rocks-timed", tmp_path))
    titles = [line for line in done.stdout.splitlines() if line.startswith("op ")]
    assert titles == [
        "op 0 / default / $eventTimers_keyToTimestamp: 9 rows at version 13",
        "op 0 / default / amounts: 7 rows at version 13",
        "op 0 / default / hours: 9 rows at version 13",
        "op 0 / default / total: 7 rows at version 13",
    ]


def test_json_has_every_row(tmp_path: Path) -> None:
    root = unpacked("rocks-timed", tmp_path)
    found = shown(root, "--family", "hours", "--partition", "0")
    assert found == {
        "format": 1,
        "checkpoint": str(root),
        "version": 13,
        "rows": [
            {
                "operator": 0, "partition": 0, "store": "default", "family": "hours",
                "key": {"key": {"key": key}, "userKey": {"hour": hour}},
                "value": {"events": 1},
            }
            for key, hour in (("k0", "011"), ("k3", "010"), ("k3", "011"), ("k4", "011"))
        ],
    }  # fmt: skip


def test_csv_has_a_column_each(tmp_path: Path) -> None:
    done = run(unpacked(AGGREGATION, tmp_path), "--csv", "--version", "12")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    expected = shown(tmp_path, "--version", "12")["rows"]
    assert [json.loads(row["key.window"]) for row in rows] == [
        row["key"]["window"] for row in expected
    ]
    assert [(row["key.key"], row["value.count"], row["partition"]) for row in rows] == [
        (row["key"]["key"], str(row["value"]["count"]), str(row["partition"])) for row in expected
    ]
    assert list(rows[0]) == [
        "operator", "store", "family", "partition", "key.window", "key.key",
        "value.count", "value.sum", "value.max",
    ]  # fmt: skip


def test_a_key_is_found_at_any_depth(tmp_path: Path) -> None:
    root = unpacked("rocks-timed", tmp_path)
    found = shown(root, "--key", "k3")["rows"]
    assert {row["family"] for row in found} == {
        "$eventTimers_keyToTimestamp", "amounts", "hours", "total",
    }  # fmt: skip
    assert all("k3" in json.dumps(row["key"]) for row in found)
    assert len(shown(root, "--key", "k3", "--limit", "2")["rows"]) == 2
    assert shown(root, "--key", "nobody")["rows"] == []
    assert run(root, "--key", "nobody", "--csv").stdout == ""


def test_numbers_and_nulls_of_keys_are_found_by_what_they_read(tmp_path: Path) -> None:
    root = unpacked("rocks-join4", tmp_path)
    (row,) = shown(root, "--family", "left-keyWithTsToValues", "--key", "1767263040000000")["rows"]
    assert row["key"] == {"field0": "k3", "__event_time": 1767263040000000}
    assert shown(root, "--family", "left-keyWithTsToValues", "--key", "null")["rows"]


def test_a_terminal_is_not_told_what_the_state_says(tmp_path: Path) -> None:
    root = unpacked("dedup-within-watermark", tmp_path)
    kinds = [StructType((Field("", AtomicType(name)),)) for name in ("string", "long")]
    record = unsafe_row(kinds[0], ["\x1b[31mred"]), unsafe_row(kinds[1], [7])
    (root / "state/0/0/13.delta").write_bytes(delta_bytes([record]))
    out = run(root, "--partition", "0").stdout
    assert "\x1b" not in out
    assert "\\u001b[31mred" in out


PEAK = """
import sys, tracemalloc
from statemaint.cli import show, tables
from statemaint.cli.main import program
tracemalloc.start()
program(["show", *sys.argv[1:]], standalone_mode=False)
print(tracemalloc.get_traced_memory()[1], file=sys.stderr)
"""


@pytest.mark.parametrize("form", ["--json", "--csv", "--limit=1000000"])
def test_memory_does_not_grow_with_the_rows(tmp_path: Path, form: str) -> None:
    root = unpacked("dedup-within-watermark", tmp_path)
    kinds = [StructType((Field("", AtomicType(name)),)) for name in ("string", "long")]
    value = unsafe_row(kinds[1], [7])
    records = [(unsafe_row(kinds[0], [f"{one:0100}"]), value) for one in range(10_000)]
    (root / "state/0/0/13.delta").write_bytes(delta_bytes(records))
    command = [sys.executable, "-c", PEAK, str(root), "--partition", "0", "--quiet", form]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    assert done.stdout.count(f"{9_999:0100}") == 1
    # 3.5 MB of rows of the store, which go to disk from 24 MB on, and a mebibyte of output.
    assert int(done.stderr) < 7_500_000


# -- a terminal's size


def many_rows(root: Path, count: int) -> Path:
    """Returns a checkpoint with rows of long keys in the newest delta of partition 0."""
    unpacked("dedup-within-watermark", root)
    kinds = [StructType((Field("", AtomicType(name)),)) for name in ("string", "long")]
    value = unsafe_row(kinds[1], [7])
    records = [(unsafe_row(kinds[0], [f"{one:0100}"]), value) for one in range(count)]
    (root / "state/0/0/13.delta").write_bytes(delta_bytes(records))
    (root / "state/0/0/.13.delta.crc").unlink()
    return root


def test_a_table_has_twenty_rows_and_the_number_of_the_others(tmp_path: Path) -> None:
    root = many_rows(tmp_path, 1050)
    every = len(shown(root, "--partition", "0")["rows"])
    look = partial(at_terminal, "show", str(root), "--partition", "0", "--quiet", NO_COLOR="1")
    title, _, *lines = look().splitlines()
    assert title == f"op 0 / default: {every:,} rows at version 13"
    assert (len(lines), lines[-1]) == (21, f"and {every - 20:,} more rows; --all shows them")
    assert len(look("--limit", "30").splitlines()) == 2 + 30 + 1
    # What searches through the output misses none.
    assert len(run(root, "--partition", "0").stdout.splitlines()) == 2 + every


def test_a_diff_has_twenty_rows_and_the_number_of_the_others(tmp_path: Path) -> None:
    root = many_rows(tmp_path, 1050)
    printed = at_terminal("diff", str(root), "--partition", "0", "--quiet").splitlines()
    assert re.fullmatch(r"and 1,0\d\d more rows; --all shows them", printed[-1])
    assert len(printed) < 30
    assert len(run_program("diff", str(root), "--partition", "0").stdout.splitlines()) > 1050


@pytest.mark.parametrize("columns", [60, 80, long(160)])
@pytest.mark.parametrize("verb", ["show", "diff", "stats"])
def test_rows_fit_the_terminal(tmp_path: Path, verb: str, columns: int) -> None:
    root = many_rows(tmp_path, 1050)
    look = partial(
        at_terminal, verb, str(root), "--partition", "0", "--quiet", columns=columns, NO_COLOR="1"
    )
    printed = look()
    assert max(map(len, printed.splitlines())) <= columns
    assert len(printed.splitlines()) < 60
    assert "000…" in printed or columns == 160
    whole = look("--all")
    assert "…" not in whole


def test_the_columns_of_a_value_are_omitted_before_those_of_its_key(tmp_path: Path) -> None:
    root = unpacked("join2", tmp_path)
    printed = at_terminal("show", str(root), columns=60, NO_COLOR="1")
    assert re.search(r"\(omitted to fit the width: .*value\.matched\)", printed)
    assert re.search(r"partition +key\.field0 +key\.index", printed)


def test_the_families_are_listed_to_choose_from(tmp_path: Path) -> None:
    root = unpacked("rocks-timed", tmp_path)
    line = next(one for one in run(root).stdout.splitlines() if one.startswith("--family NAME"))
    assert "$eventTimers_keyToTimestamp, amounts, hours, total; of Spark's own: $" in line
    own = line.rpartition(": ")[2].split(", ")[0]
    assert run(root, "--family", own).returncode == 0
    assert "--family NAME" not in run(unpacked(AGGREGATION, tmp_path / "plain")).stdout
