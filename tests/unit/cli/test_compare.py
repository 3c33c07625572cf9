"""`statemaint diff` and `statemaint stats` as a person runs them, on checkpoints of Spark 4.3."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT
from tests.support.program import run as run_program
from tests.unit.cli.test_show import AGGREGATION, unpacked


def run(verb: str, root: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return run_program(verb, str(root), *args)


def printed(verb: str, root: Path, *args: str) -> Any:
    done = run(verb, root, *args, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def lines(text: str) -> list[str]:
    """Returns lines whose columns are one space apart."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_a_diff_begins_with_its_counts(tmp_path: Path) -> None:
    root = unpacked("dedup-within-watermark", tmp_path)
    done = run("diff", root, "--from", "10", "--to", "11", "--limit", "2", "--partition", "0")
    assert (done.returncode, done.stderr) == (0, "")
    assert lines(done.stdout) == [
        "from version 10 to version 11",
        "store added changed removed rewritten",
        "0/0 1 0 4 0",
        "total 1 0 4 0",
        "op 0 / default: 2 rows between versions 10 and 11",
        "partition change key.id before after",
        '0 removed 007-1 {"expiresAtMicros": 1767254760000000}',
        '0 removed 007-4 {"expiresAtMicros": 1767255840000000}',
    ]


def test_the_json_of_a_diff(tmp_path: Path) -> None:
    root = unpacked(AGGREGATION, tmp_path)
    found = printed("diff", root, "--from", "11", "--to", "12", "--partition", "0", "--key", "k3")
    window = {"start": "2026-01-01T11:00:00.000000Z", "end": "2026-01-01T12:00:00.000000Z"}
    counts = {"added": 4, "changed": 1, "removed": 1, "rewritten": 0}
    assert found == {
        "format": 1,
        "checkpoint": str(root),
        "from": 11,
        "to": 12,
        "total": counts,
        "stores": [{"operator": 0, "partition": 0, "store": "default", "family": None, **counts}],
        "rows": [
            {
                "operator": 0, "partition": 0, "store": "default", "family": None,
                "change": "added", "key": {"window": window, "key": "k3"},
                "before": None, "after": {"count": 1, "sum": 73, "max": "011-6"},
            }
        ],
    }  # fmt: skip


def test_a_diff_without_a_log_says_what_it_does_not_know(tmp_path: Path) -> None:
    root = unpacked("rocks-zips", tmp_path)
    assert printed("diff", root)["total"] == {
        "added": 0, "changed": 0, "removed": 7, "rewritten": None,
    }  # fmt: skip
    assert lines(run("diff", root, "--limit", "0").stdout)[-1] == "total 0 0 7 ?"


def test_a_diff_of_a_column_family(tmp_path: Path) -> None:
    found = printed("diff", unpacked("rocks-timed", tmp_path), "--family", "amounts", "--from", "9")
    assert {row["family"] for row in found["rows"]} == {"amounts"}
    assert all(isinstance(row["after"], list) for row in found["rows"])


def test_stats_are_a_table_each(tmp_path: Path) -> None:
    done = run("stats", unpacked("dedup", tmp_path), "--top", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert lines(done.stdout) == [
        "version 13; untouched: since version 1",
        "changes: records of a version, on average over the last 13",
        "operator rows bytes changes removes rewritten untouched largest partition",
        "op 0 9 432 bytes 13.8 47.5% 0.0% 0.0% 0: 5 (1.1 x mean)",
        "store rows bytes changes removes rewritten untouched",
        "0/0 5 240 bytes 7.2 47.3% 0.0% 0.0%",
        "0/1 4 192 bytes 6.6 47.7% 0.0% 0.0%",
        "largest keys bytes key",
        '0/0 48 {"id": "011-5", "at": "2026-01-01T11:30:00.000000Z"}',
    ]


def test_the_json_of_stats(tmp_path: Path) -> None:
    root = unpacked("rocks-expiring", tmp_path)
    found = printed("stats", root, "--top", "2", "--since", "6")
    assert list(found) == [
        "format", "checkpoint", "version", "since", "operators", "stores", "notices",
    ]  # fmt: skip
    assert (found["version"], found["since"]) == (12, 6)
    (operator,) = found["operators"]
    assert list(operator) == [
        "operator", "rows", "bytes", "churn", "untouched", "untouched_share", "skew", "largest",
    ]  # fmt: skip
    assert operator["rows"] == sum(store["rows"] for store in found["stores"]) == 254
    assert operator["churn"] == {
        "versions": 12, "puts": 1828, "removes": 597, "added": 851, "removed": 597,
        "rewritten": 430, "changes_per_version": pytest.approx(2425 / 12),
        "removes_share": 597 / 2425, "rewritten_share": 430 / 1852,
    }  # fmt: skip
    assert operator["skew"] == {"partition": 1, "rows": 146, "mean": 127.0, "ratio": 146 / 127}
    assert [list(key) for key in operator["largest"]] == [
        ["operator", "partition", "store", "family", "key", "bytes"]
    ] * 2
    assert list(found["stores"][0]) == [
        "operator", "partition", "store", "family", "rows", "bytes", "churn", "untouched",
        "untouched_share", "largest",
    ]  # fmt: skip
    (notice,) = found["notices"]
    detail = notice.pop("detail")
    assert notice == {"code": "never_removes", "operator": 0, "store": "default", "family": "hours"}
    assert "12 versions added 76 keys" in detail
    assert f"never_removes: {detail}" in run("stats", root).stdout.splitlines()


def test_stats_without_a_log_say_what_they_do_not_know(tmp_path: Path) -> None:
    root = unpacked("rocks-zips", tmp_path)
    found = printed("stats", root)
    assert (found["since"], found["stores"][0]["churn"], found["notices"]) == (None, None, [])
    assert "op 0 12 1.2 kB ? ? ? ?" in "\n".join(lines(run("stats", root).stdout))


@pytest.mark.parametrize(
    ("verb", "args"),
    [("diff", "--partition 1 --limit 3"), ("stats", "--since 4 --top 2")],
)
def test_the_document_shows_what_is_printed(tmp_path: Path, verb: str, args: str) -> None:
    done = run(verb, unpacked("pandas-state", tmp_path), *args.split())
    printed = "\n".join(line.rstrip() for line in done.stdout.splitlines())
    document = (ROOT / "docs/state.md").read_text()
    assert f"$ statemaint {verb} /data/checkpoints/visits {args}\n{printed}\n```" in document


@pytest.mark.parametrize("verb", ["show", "diff", "stats"])
def test_a_checkpoint_is_left_as_it_was(tmp_path: Path, verb: str) -> None:
    root = unpacked("rocks-timed", tmp_path)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert run(verb, root).returncode == 0
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("verb", "form"),
    [
        ("show", ()),
        ("show", ("--csv",)),
        ("diff", ()),
        ("stats", ("--json",)),
        ("show", ("--json",)),
    ],
)
def test_damage_is_one_line_with_its_code(tmp_path: Path, verb: str, form: tuple[str, ...]) -> None:
    root = unpacked(AGGREGATION, tmp_path)
    (root / "state/0/1/13.delta").write_bytes(b"LZ4Block")
    done = run(verb, root, *form)
    assert done.returncode == 3
    if "--json" in form:
        error = json.loads(done.stdout)["error"]
        assert (error["code"], error["path"]) == ("CORRUPT_FILE", "state/0/1/13.delta")
    else:
        assert done.stdout == ""
    assert done.stderr.startswith("statemaint: CORRUPT_FILE: state/0/1/13.delta: ")
    assert len(done.stderr.splitlines()) == 1
