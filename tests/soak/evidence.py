"""What a trial leaves behind says: who deleted what, and which zips lacked a table for how long."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.soak.watch import Event

_SPARK_DELETED = re.compile(
    r"partitionId=(\d+),.*: Deleted (?:(?:orphan )?file (\S+\.sst)|version (\d+)$)"
)


def expected(folder: Path) -> list[list[int]]:
    """Returns the state after all input: user, events, total."""
    counts: Counter[int] = Counter()
    totals: Counter[int] = Counter()
    for file in folder.glob("*.json"):
        for row in map(json.loads, file.read_text().splitlines()):
            counts[row["user"]] += 1
            totals[row["user"]] += row["value"]
    return sorted([user, counts[user], totals[user]] for user in counts)


def deletions(root: Path, events: list[Event]) -> Iterator[dict[str, Any]]:
    """Yields each disappearance, and by whom: the ledger, Spark's log, both, or nobody known."""
    ours = {}
    for file in (root / "checkpoint").glob("_statemaint/ledger/[0-9]*/**/*.jsonl"):
        for line in map(json.loads, file.read_text().splitlines()):
            if line["action"] == "delete":
                ours[line["path"]] = line
    spark = _spark_lines(root)
    for event in events:
        if event.appeared:
            continue
        line, said = ours.get(event.path), spark.get(event.path, [])
        by = [name for name, is_it in (("ours", line), ("spark", said)) if is_it]
        yield {
            "time": event.time,
            "path": event.path,
            "by": " and ".join(by) or "unknown",
            "reason": line and line["reason"],
            "ledger": line and line["time"],
            "spark": said[:3],
        }


def lacking(events: list[Event]) -> Iterator[dict[str, Any]]:
    """Yields each time for which a zip of a store named a table that was not there.

    A table that we write is linked into place before its zip; executors copy theirs before it.
    """
    tables: set[str] = set()
    zips: dict[str, tuple[set[str], bool]] = {}
    since: dict[tuple[str, str], tuple[float, bool]] = {}
    for event in events:
        if event.path.endswith(".sst"):
            (tables.add if event.appeared else tables.discard)(event.path)
        elif event.appeared:
            folder = event.path.rpartition("/")[0]
            zips[event.path] = {f"{folder}/SSTs/{one}" for one in event.tables or ()}, event.ours
        else:
            zips.pop(event.path, None)
        now = {(zip_, one): ours for zip_, (all_, ours) in zips.items() for one in all_ - tables}
        for key in [key for key in since if key not in now]:
            yield _lacked(key, since.pop(key), event.time)
        for key, ours in now.items():
            since.setdefault(key, (event.time, ours))
    for key, found in since.items():
        yield _lacked(key, found, None)


def _lacked(key: tuple[str, str], found: tuple[float, bool], until: float | None) -> dict[str, Any]:
    since, ours = found
    return {"zip": key[0], "table": key[1], "ours": ours, "since": since, "until": until}


def _spark_lines(root: Path) -> dict[str, list[str]]:
    """Returns the lines of Spark's logs that say what it deleted, by the path of the file."""
    found: dict[str, list[str]] = {}
    for log in sorted(root.glob("spark-*.log")):
        for line in log.read_text(errors="replace").splitlines():
            if (said := _SPARK_DELETED.search(line)) and "RocksDBFileManager" in line:
                partition, table, version = said.groups()
                name = f"SSTs/{table}" if table else f"{version}.zip"
                found.setdefault(f"state/0/{partition}/{name}", []).append(f"{log.name}: {line}")
    return found


def repairs(root: Path) -> Iterator[str]:
    """Yields the lines of Spark's logs that speak of files that are not there."""
    for log in sorted(root.glob("spark-*.log")):
        for line in log.read_text(errors="replace").splitlines():
            if re.search(r"repair|NoSuchFile|FileNotFound|CANNOT_LOAD|does not exist", line):
                yield f"{log.name}: {line}"
