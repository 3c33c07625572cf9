"""The JSON of checkpoints, plans and runs (`docs/json.md`): dictionaries in a stable order."""

import json
from collections import Counter
from collections.abc import Iterable
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
from statemaint.report.outcome import Report, StoreReport

Json = dict[str, Any]

_VERBS = {WriteSnapshot: "write_snapshot", Attest: "attest", Delete: "delete"}


def scan_json(
    checkpoint: Checkpoint, diagnosed: Iterable[tuple[Finding, ...]] | None = None
) -> Json:
    """Returns the output of `scan --json`; its floor is the one that the commit log requires.

    Args:
        checkpoint: the checkpoint.
        diagnosed: the result of `diagnose` for each store, if known.
    """
    if diagnosed is None:
        diagnosed = (diagnose(one, checkpoint) for one in checkpoint.stores)
    found = [*diagnosed]
    stores = zip(checkpoint.stores, found, strict=True)
    verdict = verdict_by_names(checkpoint, (*checkpoint.findings, *chain.from_iterable(found)))
    return _scan_json(
        checkpoint, [store_json(store, checkpoint.target, some) for store, some in stores], verdict
    )


def _scan_json(checkpoint: Checkpoint, stores: list[Json], verdict: Verdict) -> Json:
    return {
        "checkpoint": checkpoint.root,
        **verdict_json(verdict, Looked.NAMES),
        "query_id": checkpoint.query_id,
        "last_committed_batch": checkpoint.committed,
        "target_version": checkpoint.target,
        "floor": checkpoint.required,
        "provider": checkpoint.provider,
        "codec": checkpoint.codec,
        "pins": [pin_json(pin) for pin in checkpoint.pins],
        "stores": stores,
        "findings": findings_json(checkpoint.findings),
    }


def verdict_json(verdict: Verdict, looked: Looked) -> Json:
    return {"verdict": verdict.value, "looked_at": looked.value}


def pin_json(pin: Pin) -> Json:
    return {
        "id": pin.id,
        "batch": pin.batch,
        "version": pin.version,
        "created": pin.created,
        "until": pin.until,
        "by": pin.by,
    }


def plan_json(checkpoint: Checkpoint, plan: Plan) -> Json:
    """Returns the output of `plan --json`: `scan`'s fields, the actions, and the kept files."""
    stores = [store_json(one.store, plan.target, one.findings) for one in plan.stores]
    kept = Counter(kept.reason.value for store in plan.stores for kept in store.kept)
    kept.update(kept.reason.value for kept in plan.unclassified)
    return {
        **_scan_json(checkpoint, stores, plan.verdict),
        "target_version": plan.target,
        "floor": plan.floor,
        "findings": findings_json(plan.findings),
        "actions": [action_json(one) for one in plan.actions],
        "withheld": [withheld_json(one) for one in plan.withheld],
        "keep": dict(sorted(kept.items())),
        "now": plan.now,
        "policy": asdict(plan.policy),
        "request": _request_json(plan),
        "fingerprint": fingerprint(plan),
    }


def _request_json(plan: Plan) -> Json:
    """Returns the request with which `apply` plans again: the same target, despite new commits."""
    request = plan.request
    return {
        "target": plan.target,
        "force_snapshot": request.force_snapshot,
        "operators": sorted(request.operators),
        "partitions": sorted(request.partitions),
        "stores": sorted(request.stores),
    }


def fingerprint(plan: Plan) -> str:
    """Returns the fingerprint of a plan: the inputs of its decisions, and its actions.

    Each action is hashed with the size and time of every file that it concerns.
    """
    settings = asdict(plan.policy).items()
    policy = {name: None if value is None else float(value) for name, value in settings}
    decided_by = [plan.query_id, policy, float(plan.now), plan.target, plan.floor]
    steps = [decided_by, *(_step(one) for one in plan.actions)]
    return sha256(json.dumps(steps).encode()).hexdigest()


def _step(action: Action) -> list[Any]:
    if isinstance(action, WriteSnapshot):
        files = _files(action.chain)
    elif isinstance(action, Attest):
        files = [action.snapshot.entry, *(_files(action.against) if action.against else [])]
    else:
        files = [action.entry]
    return [action_json(action), [[one.path, one.size, one.modified] for one in files]]


def _files(chain: Chain) -> list[Entry]:
    base = [chain.base.entry] if chain.base else []
    return base + [delta.entry for delta in chain.deltas]


def store_json(store: Store, target: int | None, findings: Iterable[Finding]) -> Json:
    """Returns one store: its versions, its chain up to the target, and its size."""
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
        "action": _VERBS[type(action)],
        **id_json(action.store),
        "version": action.version,
        "path": action.path,
        "reason": action.reason.value,
    }


def withheld_json(withheld: Withheld) -> Json:
    """Returns one due snapshot that is not written."""
    return {
        **id_json(withheld.store),
        "version": withheld.version,
        "due": withheld.due.value,
        "chain_length": withheld.replay.chain,
        "reason": withheld.wait.reason.value,
        "until_version": withheld.wait.version,
        "until": withheld.wait.time,
    }


def report_json(report: Report) -> Json:
    """Returns the output of `maintain --json`; of a dry run with the actions of its plan."""
    planned = [action_json(one) for one in report.plan.actions] if report.dry_run else None
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
        "bytes_deleted": report.bytes_deleted,
        "bytes_written": report.bytes_written,
        "trash_files_deleted": report.emptied.files,
        "trash_bytes_deleted": report.emptied.bytes,
        "seconds": round(report.seconds, 3),
        "requests": dict(sorted(report.requests.items())),
        "stores": [_store_report_json(one) for one in report.stores],
        "withheld": [withheld_json(one) for one in report.withheld],
        "findings": findings_json(report.findings),
        **({} if planned is None else {"actions": planned}),
    }


def _store_report_json(store: StoreReport) -> Json:
    return {
        **store_json(store.after, store.target, store.findings),
        "outcome": store.state.value,
        "attestation": store.attestation and attestation_json(store.attestation),
    }


def attestation_json(attestation: Attestation) -> Json:
    return {
        "path": attestation.path,
        "version": attestation.version,
        "digest": attestation.digest,
        "rows": attestation.rows,
        "bytes": attestation.bytes,
        "files": attestation.files,
        "start": attestation.start,
    }


def id_json(store: StoreId) -> Json:
    return {"operator": store.operator, "partition": store.partition, "store": store.store}


def findings_json(findings: Iterable[Finding]) -> list[Json]:
    """Returns findings, each with the store, version, path, offset and batches that it concerns."""
    return [_finding_json(one) for one in findings]


def _finding_json(finding: Finding) -> Json:
    where = id_json(finding.store) if finding.store else {}
    facts = {name: getattr(finding, name) for name in ("version", "path", "offset")}
    present = {name: value for name, value in facts.items() if value is not None}
    batches = {"batches": list(finding.batches)} if finding.batches else {}
    return {"code": finding.code.value, "detail": finding.detail, **where, **present, **batches}
