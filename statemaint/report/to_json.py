"""The JSON of checkpoints, plans, runs and recoveries (`docs/json.md`), in a stable order."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from hashlib import sha256
from itertools import chain
from typing import Any

from statemaint.listing import Entry
from statemaint.model.chain import Chain
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.findings import Finding
from statemaint.model.ids import StoreId
from statemaint.model.pins import Pin
from statemaint.model.proof import Attestation
from statemaint.model.verdict import Looked, Verdict
from statemaint.plan.actions import Action, Attest, Delete, Plan, Withheld, WriteSnapshot
from statemaint.plan.findings.health import diagnose
from statemaint.plan.findings.restart import verdict_by_names
from statemaint.plan.recovery.recovery_plan import RecoveryPlan, Remove, UndoPlan
from statemaint.report.outcome import SnapshotWritten
from statemaint.report.run import Report

Json = dict[str, Any]

VERBS = {WriteSnapshot: "write_snapshot", Attest: "attest", Delete: "delete"}


def scan_json(
    checkpoint: Checkpoint, diagnosed: Iterable[tuple[Finding, ...]] | None = None
) -> Json:
    """Returns the output of `scan --json`; its floor is the one that the commit log requires.

    `diagnosed` is the result of `diagnose` for each store, if known.
    """
    of_stores = [*(diagnosed or (diagnose(store, checkpoint) for store in checkpoint.stores))]
    stores = [
        store_json(store, checkpoint.target_of(store.id), findings)
        for store, findings in zip(checkpoint.stores, of_stores, strict=True)
    ]
    verdict = verdict_by_names(checkpoint, (*checkpoint.findings, *chain.from_iterable(of_stores)))
    return _scan_json(checkpoint, stores, verdict)


def _scan_json(checkpoint: Checkpoint, stores: list[Json], verdict: Verdict) -> Json:
    return {
        "checkpoint": checkpoint.root,
        **verdict_json(verdict, Looked.NAMES),
        "query_id": checkpoint.query_id,
        "last_committed_batch": checkpoint.committed,
        "target_version": checkpoint.target,
        "floor": checkpoint.required,
        **fields_json(checkpoint, "provider codec"),
        "pins": [pin_json(pin) for pin in checkpoint.pins],
        "stores": stores,
        "findings": findings_json(checkpoint.findings),
    }


def verdict_json(verdict: Verdict, looked: Looked) -> Json:
    return {"verdict": verdict.value, "looked_at": looked.value}


def fields_json(value: object, names: str) -> Json:
    """Returns those fields of a value that a document has under the same names."""
    return {name: getattr(value, name) for name in names.split()}


def pin_json(pin: Pin) -> Json:
    return fields_json(pin, "id batch version created until by")


def plan_json(checkpoint: Checkpoint, plan: Plan) -> Json:
    """Returns the output of `plan --json`: `scan`'s fields, the actions, and the kept files."""
    stores = [store_json(it.store, plan.target_of(it.store.id), it.findings) for it in plan.stores]
    kept = Counter(kept.reason.value for store in plan.stores for kept in store.kept)
    kept.update(kept.reason.value for kept in plan.unclassified)
    return {
        **_scan_json(checkpoint, stores, plan.verdict),
        "target_version": plan.target,
        "floor": plan.floor,
        "findings": findings_json(plan.findings),
        "actions": [action_json(action) for action in plan.actions],
        "withheld": [withheld_json(waiting) for waiting in plan.withheld],
        "keep": dict(sorted(kept.items())),
        "now": plan.now,
        "policy": asdict(plan.policy),
        # `apply` plans again with it: with the same target, despite new commits.
        "request": {
            "target": plan.target,
            "force_snapshot": plan.request.force_snapshot,
            "operators": sorted(plan.request.operators),
            "partitions": sorted(plan.request.partitions),
            "stores": sorted(plan.request.stores),
        },
        "fingerprint": fingerprint(plan),
    }


def fingerprint(plan: Plan) -> str:
    """Returns the fingerprint of a plan: the inputs of its decisions, and its actions.

    Each action is hashed with the size and time of every file that it concerns.
    """
    settings = asdict(plan.policy).items()
    policy = {name: None if value is None else float(value) for name, value in settings}
    decided_by = [plan.query_id, policy, float(plan.now), plan.target, plan.floor]
    steps = [decided_by, *(_step(action) for action in plan.actions)]
    return sha256(json.dumps(steps).encode()).hexdigest()


def _step(action: Action) -> list[Any]:
    if isinstance(action, WriteSnapshot):
        files = _files(action.chain)
    elif isinstance(action, Attest):
        files = [action.snapshot.entry, *(_files(action.against) if action.against else [])]
    else:
        files = [action.entry]
    return [action_json(action), [[entry.path, entry.size, entry.modified] for entry in files]]


def _files(chain: Chain) -> list[Entry]:
    base = [chain.base.entry] if chain.base else []
    return base + [delta.entry for delta in chain.deltas]


def store_json(store: Store, target: int | None, findings: Iterable[Finding]) -> Json:
    versions = store.versions
    return {
        **id_json(store.id),
        "versions": [versions.all[0], versions.all[-1]] if versions.all else [],
        "snapshots": sorted(versions.snapshots),
        "chain_length": chain_length(store, target),
        "files": len(store.files),
        "bytes": store.size,
        "findings": findings_json(findings),
    }


def chain_length(store: Store, target: int | None) -> int | None:
    """Returns the number of deltas that a restart replays; `None` if the target does not load."""
    chain = store.versions.chain(target) if target is not None else None
    return len(chain.deltas) if isinstance(chain, Chain) else None


def action_json(action: Action) -> Json:
    return {
        "action": VERBS[type(action)],
        **id_json(action.store),
        **fields_json(action, "version path"),
        "reason": action.reason.value,
    }


def withheld_json(withheld: Withheld) -> Json:
    return {
        **id_json(withheld.store),
        "version": withheld.version,
        "due": withheld.due.value,
        "chain_length": withheld.deltas,
        "reason": withheld.wait.reason.value,
        "until_version": withheld.wait.version,
        "until": withheld.wait.time,
    }


def report_json(report: Report) -> Json:
    """Returns the output of `maintain --json`; of a dry run with the actions of its plan."""
    planned = [action_json(action) for action in report.plan.actions] if report.dry_run else None
    return {
        "run": report.run,
        "checkpoint": report.plan.root,
        "dry_run": report.dry_run,
        **verdict_json(report.verdict, Looked.NAMES),
        "last_committed_batch": report.plan.committed,
        "target_version": report.plan.target,
        "floor": report.plan.floor,
        "snapshots_written": report.snapshots_written,
        "files_deleted": report.files_deleted.total(),
        **fields_json(report, "bytes_deleted bytes_written"),
        "trash_files_deleted": report.emptied.files,
        "trash_bytes_deleted": report.emptied.bytes,
        "seconds": round(report.seconds, 3),
        "requests": dict(sorted(report.requests.items())),
        "stores": [
            {
                **store_json(store.after, store.target, store.findings),
                "outcome": store.state.value,
                "attestation": store.attestation and attestation_json(store.attestation),
            }
            for store in report.stores
        ],
        "withheld": [withheld_json(waiting) for waiting in report.withheld],
        "findings": findings_json(report.findings),
        **({} if planned is None else {"actions": planned}),
    }


def attestation_json(attestation: Attestation) -> Json:
    return fields_json(attestation, "path version digest rows bytes files start")


def id_json(store: StoreId) -> Json:
    return {"operator": store.operator, "partition": store.partition, "store": store.store}


def findings_json(findings: Iterable[Finding]) -> list[Json]:
    return [_finding_json(finding) for finding in findings]


def _finding_json(finding: Finding) -> Json:
    where = id_json(finding.store) if finding.store else {}
    facts = fields_json(finding, "version path offset")
    present = {name: value for name, value in facts.items() if value is not None}
    batches = {"batches": list(finding.batches)} if finding.batches else {}
    return {"code": finding.code.value, "detail": finding.detail, **where, **present, **batches}


# -- repairs, rollbacks and undos

UNDO = "undo"


def recovery_json(plan: RecoveryPlan) -> Json:
    """Returns the output of `repair --json` and `rollback --json` before any action is taken."""
    return {
        "verb": plan.verb.value,
        "checkpoint": plan.root,
        "query_id": plan.query_id,
        "batch": plan.batch,
        "actions": [_step_json(action) for action in plan.actions],
        "proofs": [
            {
                **(id_json(repair.store) if repair.store else {}),
                "version": repair.version,
                **asdict(repair.proof),
            }
            for repair in plan.repairs
            if repair.proof
        ],
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
        "removed": [_step_json(step) for step in removed],
        "written": [
            {
                **action_json(snapshot.action),
                "attestation": snapshot.attestation and attestation_json(snapshot.attestation),
            }
            for snapshot in written
        ],
        "unrepaired": list(plan.unrepaired),
        "findings": findings_json(plan.findings),
    }


def recovery_fingerprint(plan: RecoveryPlan) -> str:
    """Returns the fingerprint of a plan: its actions, with the size and time of every file."""
    decided = [plan.verb.value, plan.query_id, plan.batch]
    steps = [
        [_step_json(action), action.entry.modified]
        if isinstance(action, Remove)
        else [_step_json(action), *action.chain.paths, action.chain.size]
        for action in plan.actions
    ]
    proofs = [asdict(repair.proof) for repair in plan.repairs if repair.proof]
    return sha256(json.dumps([decided, steps, proofs]).encode()).hexdigest()


def _step_json(step: Remove | WriteSnapshot) -> Json:
    if isinstance(step, WriteSnapshot):
        return action_json(step)
    store = id_json(step.store) if step.store else {}
    version = {"version": step.version} if step.version else {}
    about = {"path": step.path, "bytes": step.entry.size, "reason": step.reason.value}
    return {"action": "remove", **store, **version, **about}


def undo_plan_json(plan: UndoPlan) -> Json:
    """Returns the output of `undo --dry-run --json`."""
    return {
        "verb": UNDO,
        "checkpoint": plan.root,
        "run": plan.run,
        "actions": [
            {"action": "restore", "path": file.path, "bytes": file.entry.size}
            for file in plan.coming
        ],
        "files": len(plan.coming),
        "bytes": plan.bytes,
        "left": list(plan.left),
        "reasons": plan.left,
        "fingerprint": undo_fingerprint(plan),
    }


def undo_fingerprint(plan: UndoPlan) -> str:
    """Returns the fingerprint of a plan: the decision about each file, with its size and time."""
    files = [[file.path, file.entry.size, file.entry.modified, file.reason] for file in plan.files]
    return sha256(json.dumps([UNDO, plan.run, files]).encode()).hexdigest()
