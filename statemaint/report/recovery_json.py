"""The JSON of a repair, a rollback or an undo, planned or done (`docs/json.md`)."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import sha256
from typing import Any

from statemaint.plan.actions import WriteSnapshot
from statemaint.plan.recovery.recovery_plan import RecoveryPlan, Remove, RepairStep, UndoPlan
from statemaint.report.outcome import SnapshotWritten
from statemaint.report.to_json import action_json, attestation_json, findings_json, id_json

Json = dict[str, Any]
UNDO = "undo"


def recovery_json(plan: RecoveryPlan) -> Json:
    """Returns the output of `repair --json` and `rollback --json` before any action is taken."""
    return {
        "verb": plan.verb.value,
        "checkpoint": plan.root,
        "query_id": plan.query_id,
        "batch": plan.batch,
        "actions": [_step_json(one) for one in plan.actions],
        "proofs": [_proof_json(one) for one in plan.repairs if one.proof],
        "versions_checked": plan.versions_checked,
        "unrepaired": list(plan.unrepaired),
        "findings": findings_json(plan.findings),
        "fingerprint": recovery_fingerprint(plan),
    }


def recovered_json(
    run: str, plan: RecoveryPlan, removed: Sequence[Remove], written: Sequence[SnapshotWritten]
) -> Json:
    """Returns the output of `repair` or `rollback` with `--apply --json`, and of `apply --json`."""
    return {
        "run": run,
        "verb": plan.verb.value,
        "checkpoint": plan.root,
        "batch": plan.batch,
        "removed": [_step_json(one) for one in removed],
        "written": [
            {
                **action_json(one.action),
                "attestation": one.attestation and attestation_json(one.attestation),
            }
            for one in written
        ],
        "unrepaired": list(plan.unrepaired),
        "findings": findings_json(plan.findings),
    }


def recovery_fingerprint(plan: RecoveryPlan) -> str:
    """Returns the fingerprint of a plan: its actions, with the size and time of every file."""
    decided = [plan.verb.value, plan.query_id, plan.batch]
    steps = [_fingerprint(one) for one in plan.actions]
    proofs = [asdict(one.proof) for one in plan.repairs if one.proof]
    return sha256(json.dumps([decided, steps, proofs]).encode()).hexdigest()


def _fingerprint(step: Remove | WriteSnapshot) -> list[Any]:
    if isinstance(step, Remove):
        return [_step_json(step), step.entry.modified]
    return [_step_json(step), *step.chain.paths, step.chain.size]


def _step_json(step: Remove | WriteSnapshot) -> Json:
    if isinstance(step, WriteSnapshot):
        return action_json(step)
    store = id_json(step.store) if step.store else {}
    version = {"version": step.version} if step.version else {}
    about = {"path": step.path, "bytes": step.entry.size, "reason": step.reason.value}
    return {"action": "remove", **store, **version, **about}


def _proof_json(step: RepairStep) -> Json:
    where = id_json(step.store) if step.store else {}
    return {**where, "version": step.version, **(asdict(step.proof) if step.proof else {})}


def undo_plan_json(plan: UndoPlan) -> Json:
    """Returns the output of `undo --dry-run --json`."""
    return {
        "verb": UNDO,
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
    return sha256(json.dumps([UNDO, plan.run, files]).encode()).hexdigest()
