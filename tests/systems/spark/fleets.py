"""A fleet of real checkpoints, and what maintenance made of it."""

import json
import re
from collections import Counter
from pathlib import Path

from statemaint.audit import digest_stores
from statemaint.errors import StatemaintError
from statemaint.model.policy import Policy
from statemaint.spark import Target
from statemaint.storage import LocalStorage
from tests.checkpoints.archive import contents

POLICY = Policy(min_deltas_for_snapshot=2, min_batches_to_retain=2, grace=0, orphan_age=0)
# Both providers, an aggregation, joins of four stores and of one, unique ids.
KINDS = (
    ("4.3.0", "aggregation2"),
    ("4.3.0", "join2"),
    ("3.5.9", "session-window"),
    ("rocks-4.3.0", "rocks-zips"),
    ("rocks-4.3.0", "rocks-join2-ids"),
)
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
