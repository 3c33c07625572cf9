"""The JSON of an undo, planned or done (`docs/json.md`)."""

import json
from hashlib import sha256
from typing import Any

from statemaint.plan import UndoPlan

Json = dict[str, Any]
VERB = "undo"


def undo_plan_json(plan: UndoPlan) -> Json:
    """Returns the output of `undo --dry-run --json`."""
    return {
        "verb": VERB,
        "checkpoint": plan.root,
        "run": plan.run,
        "actions": [
            {"action": "restore", "path": one.path, "bytes": one.entry.size} for one in plan.coming
        ],
        "files": len(plan.coming),
        "bytes": plan.bytes,
        "left": list(plan.left),
        "reasons": plan.left,
        "fingerprint": undo_fingerprint(plan),
    }


def undo_fingerprint(plan: UndoPlan) -> str:
    """Returns the fingerprint of a plan: the decision about each file, with its size and time."""
    files = [[one.path, one.entry.size, one.entry.modified, one.reason] for one in plan.files]
    return sha256(json.dumps([VERB, plan.run, files]).encode()).hexdigest()
