"""From checkpoints, plans and reports to rows. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from statemaint.errors import LeaseHeldError, StatemaintError
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.findings import Finding
from statemaint.plan.actions import Action, Attest, Delete, Plan
from statemaint.plan.findings.health import diagnose
from statemaint.plan.withheld import by_reason
from statemaint.report.outcome import StoreReport
from statemaint.report.run import Report, exit_code_of, worst_code
from statemaint.report.task import Failure
from statemaint.report.to_json import action_json, chain_length, id_json, store_json
from statemaint.spark.fleet import Target

Row = dict[str, Any]


def of_query(target: Target) -> Row:
    """Returns the common columns of the rows of a query."""
    return {"query": target.query, "checkpoint": target.checkpoint}


def error_row(target: Target, error: Exception) -> Row:
    """Returns the row of a query, or of a unit, that could not be processed."""
    return {
        **of_query(target),
        "outcome": "held" if isinstance(error, LeaseHeldError) else "failed",
        "exit_code": getattr(error, "exit_code", StatemaintError.exit_code),
        "error": " ".join(Failure.of(error).reason.split()),
    }


def findings_rows(findings: Iterable[Finding]) -> list[dict[str, str]]:
    """Returns findings in the form of a column."""
    return [{"code": finding.code.value, "detail": finding.detail} for finding in findings]


def inventory_rows(target: Target, checkpoint: Checkpoint) -> Iterator[Row]:
    """Yields a row for each store, and one for the query if its checkpoint has findings."""
    if checkpoint.findings:
        yield {
            **of_query(target),
            "provider": checkpoint.provider.value,
            "target_version": checkpoint.target,
            "findings": findings_rows(checkpoint.findings),
            "exit_code": exit_code_of(checkpoint.findings),
        }
    for store in checkpoint.stores:
        findings = diagnose(store, checkpoint)
        shown = store_json(store, checkpoint.target, ())
        versions = shown.pop("versions") or [None, None]
        yield {
            **of_query(target),
            **shown,
            "provider": checkpoint.provider.value,
            "target_version": checkpoint.target,
            "first_version": versions[0],
            "last_version": versions[1],
            "findings": findings_rows(findings),
            "exit_code": exit_code_of(findings),
        }


def plan_rows(target: Target, plan: Plan) -> Iterator[Row]:
    """Yields a row for each finding, each action, and each due snapshot that is not written."""
    for finding in plan.all_findings:
        yield {
            **of_query(target),
            **(id_json(finding.store) if finding.store else {}),
            "action": "finding",
            "version": finding.version,
            "path": finding.path,
            "reason": finding.code.value,
            "detail": finding.detail,
            "exit_code": exit_code_of((finding,)),
        }
    for action in plan.actions:
        yield {
            **of_query(target),
            **action_json(action),
            "bytes": _bytes(action),
            "exit_code": 0,
        }

    for snapshot in plan.withheld:
        yield {
            **of_query(target),
            **id_json(snapshot.store),
            "action": "withheld",
            "version": snapshot.version,
            "reason": snapshot.wait.reason.value,
            "detail": " ".join(str(waiting) for waiting in by_reason([snapshot])),
            "exit_code": 0,
        }


def _bytes(action: Action) -> int | None:
    match action:
        case Delete(entry=entry):
            return entry.size
        case Attest(snapshot=snapshot):
            return snapshot.entry.size
        case _:
            return None


def report_rows(target: Target, report: Report, *, run: str, unit: str | None) -> Iterator[Row]:
    """Yields a row for each store of a report, and one for the query if it has findings."""
    common = {**of_query(target), "run": run, "unit": unit, "started": report.started}
    seconds = round(report.seconds, 3) if unit else None
    if report.plan.findings:
        yield {
            **common,
            "findings": findings_rows(report.plan.findings),
            "exit_code": exit_code_of(report.plan.findings),
        }
    for store in report.stores:
        yield {**common, **_store_row(store), "seconds": seconds}


def _store_row(store: StoreReport) -> Row:
    proof = store.attestation
    return {
        **id_json(store.before.id),
        "outcome": store.state.value,
        "version": store.target,
        "chain_before": chain_length(store.before, store.target),
        "chain_after": chain_length(store.after, store.target),
        "files": len(store.after.files),
        "bytes": store.after.size,
        "snapshots_written": store.snapshots_written,
        "bytes_written": store.bytes_written,
        "files_deleted": store.files_deleted.total(),
        "bytes_deleted": store.bytes_deleted,
        "reclaimable_bytes": store.reclaimable,
        "rows": proof.rows if proof else None,
        "digest": proof.digest if proof else None,
        "findings": findings_rows(store.findings),
        "exit_code": exit_code_of(store.findings),
    }


def query_row(target: Target, run: str, rows: Sequence[Mapping[str, Any]]) -> Row:
    """Returns the one row of a query itself, from all notes of its tasks."""
    findings = {
        (finding["code"], finding["detail"]): finding
        for row in rows
        for finding in row["findings"] or ()
    }
    errors = sorted({row["error"] for row in rows if row["error"]})
    outcomes = {row["outcome"] for row in rows}
    outcome = next(
        (outcome for outcome in ("failed", "held", "halted") if outcome in outcomes), "done"
    )
    return {
        **of_query(target),
        "run": run,
        "outcome": outcome,
        "findings": list(findings.values()),
        "exit_code": worst_code(row["exit_code"] or 0 for row in rows),
        "error": "; ".join(errors) or None,
    }
