"""A fleet of real checkpoints, and what maintenance made of it."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from statemaint.audit import digest_stores
from statemaint.cli.main import program
from statemaint.errors import StatemaintError
from statemaint.model.policy import Policy
from statemaint.spark import Target
from statemaint.storage import LocalStorage
from tests.checkpoints.archive import contents

POLICY = Policy(min_deltas_for_snapshot=2, min_batches_to_retain=2, grace=0, orphan_age=0)
FLAGS = (
    *("--min-deltas-for-snapshot", "2", "--min-batches-to-retain", "2"),
    *("--grace", "0s", "--orphan-age", "0s"),
)
# Both providers, an aggregation, joins of four stores and of one, unique ids.
KINDS = (
    ("4.3.0", "aggregation2"),
    ("4.3.0", "join2"),
    ("3.5.9", "session-window"),
    ("rocks-4.3.0", "rocks-zips"),
    ("rocks-4.3.0", "rocks-join2-ids"),
)
Findings = set[tuple[Any, ...]]
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def write_fleet(root: Path) -> tuple[Target, ...]:
    """Writes a fleet: a checkpoint of each kind, a damaged one by provider, and an empty place."""
    for archive, kind in KINDS:
        _write(root / kind, archive, kind)
    _write(root / "damaged", "4.3.0", "join1")
    delta = next((root / "damaged/state/0/1/left-keyToNumValues").glob("[0-9]*.delta"))
    newest = max(delta.parent.glob("*.delta"), key=lambda one: int(one.stem))
    newest.write_bytes(newest.read_bytes()[:-3])
    _write(root / "damaged-rocks", "rocks-4.3.0", "rocks-join2-ids")
    store = root / "damaged-rocks/state/0/1/right-keyToNumValues"
    max(store.glob("*.changelog"), key=_version).unlink()
    (root / "nothing").mkdir()
    names = [kind for _, kind in KINDS] + ["damaged", "damaged-rocks", "nothing"]
    return tuple(Target(name, str(root / name), POLICY) for name in names)


def _version(changelog: Path) -> int:
    return int(changelog.name.partition("_")[0].partition(".")[0])


def write_queries(fleet: Iterable[Target], path: Path) -> Path:
    """Writes the queries file of a fleet, with `POLICY` for each."""
    counts = ("min_deltas_for_snapshot", "min_batches_to_retain")
    policy = {name: getattr(POLICY, name) for name in counts}
    policy |= {name: f"{getattr(POLICY, name):g}s" for name in ("grace", "orphan_age")}
    queries = {one.query: {"checkpoint": one.checkpoint} for one in fleet}
    path.write_text(json.dumps({"defaults": policy, "queries": queries}))
    return path


def _write(place: Path, archive: str, kind: str) -> None:
    for path, content in contents(archive)[kind].items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(content)


def listing(target: Target) -> Counter[str]:
    """Returns the files of a checkpoint but our own; what has a random name counts by its kind."""
    root = Path(target.checkpoint)
    files = (path for path in root.rglob("*") if path.is_file())
    names = (str(path.relative_to(root)) for path in files)
    return Counter(_UUID.sub("*", name) for name in names if not name.startswith("_statemaint"))


def digests(target: Target) -> dict[str, str] | str:
    """Returns the digest of every store at every committed version; or why there is none."""
    storage = LocalStorage(Path(target.checkpoint))
    found = {}
    for batch in sorted(int(one.path[8:]) for one in storage.list("commits")):
        try:
            version, stores = digest_stores(storage, version=batch + 1)
        except StatemaintError as error:
            found[f"{batch}"] = error.code
            continue
        found |= {f"{version} {store}": one.digest for store, one in stores}
    return found


def actions(target: Target) -> Counter[tuple[str, str]]:
    """Returns what the ledger says was done: each action with its path."""
    lines = Counter[tuple[str, str]]()
    for segment in Path(target.checkpoint).glob("_statemaint/ledger/*/*/*.jsonl"):
        for line in segment.read_text().splitlines():
            fields = json.loads(line)
            if fields.get("path"):
                lines[fields["action"], _UUID.sub("*", fields["path"])] += 1
    return lines


def leftovers(target: Target) -> list[Path]:
    """Returns the files of units, which no run leaves."""
    return [one for one in Path(target.checkpoint).glob("_statemaint/units/**/*") if one.is_file()]


# -- the command line, and rows of Spark's to compare with it


def by_command_line(fleet: Iterable[Target]) -> dict[str, Findings]:
    """Maintains a fleet by the command line, and returns the findings of each query."""
    found = {}
    for one in fleet:
        report = _document("maintain", one, *FLAGS) or {"findings": []}
        found[one.query] = {
            (each.get("operator"), each.get("partition"), each.get("store"), each["code"])
            for each in report["findings"]
        }
    return found


def findings(rows: Iterable[Any], query: str) -> Findings:
    """Returns the findings of a query in rows."""
    return {
        (row["operator"], row["partition"], row["store"], one["code"])
        for row in rows
        for one in row["findings"] or ()
        if row["query"] == query
    }


_SCANNED = ("operator", "partition", "store", "files", "bytes", "chain_length", "snapshots")
_PLANNED = ("action", "operator", "partition", "store", "version", "path", "reason")


def scanned(target: Target) -> list[list[Any]]:
    """Returns what `scan` shows of each store."""
    found = _document("scan", target) or {"stores": []}
    return [[row[name] for name in _SCANNED] for row in found["stores"]]


def inventoried(rows: Iterable[Any], query: str) -> list[list[Any]]:
    """Returns what the rows of `inventory` say of each store of a query."""
    return [
        [row[name] for name in _SCANNED] for row in rows if row["query"] == query and row["store"]
    ]


def planned(target: Target) -> list[list[Any]]:
    """Returns the actions of a plan."""
    found = _document("plan", target, *FLAGS) or {"actions": []}
    return [[row[name] for name in _PLANNED] for row in found["actions"]]


def planned_by_spark(rows: Iterable[Any], query: str) -> list[list[Any]]:
    """Returns the actions of a query in the rows of `plan_fleet`."""
    return [
        [row[name] for name in _PLANNED]
        for row in rows
        if row["query"] == query and row["action"] not in ("finding", "error", "withheld")
    ]


def healthy(target: Target) -> bool:
    """Returns whether `verify` finds no damage."""
    found = _document("verify", target)
    return bool(found and found["healthy"])


def _document(verb: str, target: Target, *flags: str) -> dict[str, Any] | None:
    """Returns what a verb prints with `--json`; `None` if it is an error."""
    done = CliRunner().invoke(program, [verb, target.checkpoint, *flags, "--json"])
    return json.loads(done.stdout) if done.stdout else None
