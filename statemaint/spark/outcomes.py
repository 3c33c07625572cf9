"""From checkpoints, plans and reports to rows, and from these to a summary of each query. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from statemaint.errors import LeaseHeldError, StatemaintError
from statemaint.model.checkpoint import Checkpoint
from statemaint.model.findings import Finding
from statemaint.plan.actions import Action, Attest, Delete, Plan
from statemaint.plan.findings.health import diagnose
from statemaint.plan.withheld import by_reason
from statemaint.report.outcome import StoreReport
from statemaint.report.run import WORST_FIRST, Report, exit_code_of, worst_code
from statemaint.report.task import Failure
from statemaint.report.to_json import action_json, chain_length, fields_json, id_json, store_json
from statemaint.spark.fleet import Target

_SUMMED = (
    *("files", "bytes", "snapshots_written", "bytes_written", "files_deleted", "bytes_deleted"),
    *("reclaimable_bytes", "versions_checked"),
)
Row = dict[str, Any]


def of_query(target: Target) -> Row:
    return {"query": target.query, "checkpoint": target.checkpoint}


def error_row(target: Target, error: Exception) -> Row:
    return {
        **of_query(target),
        "outcome": "held" if isinstance(error, LeaseHeldError) else "failed",
        "exit_code": getattr(error, "exit_code", StatemaintError.exit_code),
        "error": " ".join(Failure.of(error).reason.split()),
    }


def findings_columns(findings: Iterable[Finding]) -> Row:
    """Returns the columns of findings, and of the exit code that they give."""
    listed = tuple(findings)
    rows = [{"code": finding.code.value, "detail": finding.detail} for finding in listed]
    return {"findings": rows, "exit_code": exit_code_of(listed)}


def inventory_rows(target: Target, checkpoint: Checkpoint) -> Iterator[Row]:
    """Yields a row for each store, and one for the query if its checkpoint has findings."""
    common = {
        **of_query(target),
        "provider": checkpoint.provider.value,
        "target_version": checkpoint.target,
    }
    if checkpoint.findings:
        yield {**common, **findings_columns(checkpoint.findings)}
    for store in checkpoint.stores:
        shown = store_json(store, checkpoint.target_of(store.id), ())
        first, last = shown.pop("versions") or (None, None)
        versions = {"first_version": first, "last_version": last}
        yield {**common, **shown, **versions, **findings_columns(diagnose(store, checkpoint))}


def plan_rows(target: Target, plan: Plan) -> Iterator[Row]:
    """Yields a row for each finding, each action, and each due snapshot that is not written."""
    common = {**of_query(target), "exit_code": 0}
    for finding in plan.all_findings:
        yield {
            **common,
            **(id_json(finding.store) if finding.store else {}),
            **fields_json(finding, "version path detail"),
            "action": "finding",
            "reason": finding.code.value,
            "exit_code": exit_code_of((finding,)),
        }
    for action in plan.actions:
        yield {**common, **action_json(action), "bytes": _bytes(action)}
    for snapshot in plan.withheld:
        yield {
            **common,
            **id_json(snapshot.store),
            "action": "withheld",
            "version": snapshot.version,
            "reason": snapshot.wait.reason.value,
            "detail": " ".join(str(waiting) for waiting in by_reason([snapshot])),
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
    if report.plan.findings:
        yield {**common, **findings_columns(report.plan.findings)}
    seconds = round(report.seconds, 3) if unit else None
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
        **fields_json(store, "snapshots_written bytes_written bytes_deleted"),
        "files_deleted": store.files_deleted.total(),
        "reclaimable_bytes": store.reclaimable,
        **(fields_json(proof, "rows digest") if proof else {}),
        **findings_columns(store.findings),
    }


def query_row(target: Target, run: str, rows: Sequence[Mapping[str, Any]]) -> Row:
    """Returns the one row of a query itself, from all notes of its tasks."""
    findings = {
        (finding["code"], finding["detail"]): finding
        for row in rows
        for finding in row.get("findings") or ()
    }
    errors = sorted({row["error"] for row in rows if row.get("error")})
    outcomes = {row.get("outcome") for row in rows}
    worst_first = (outcome for outcome in ("failed", "held", "halted") if outcome in outcomes)
    return {
        **of_query(target),
        "run": run,
        "outcome": next(worst_first, "done"),
        "findings": list(findings.values()),
        "exit_code": worst_code(row.get("exit_code") or 0 for row in rows),
        "error": "; ".join(errors) or None,
    }


# -- summaries


@dataclass(slots=True)
class QuerySummary:
    """The summary of the rows of a query."""

    query: str
    checkpoint: str
    stores: int = 0
    chain: int | None = None  # the longest of a store
    sums: Counter[str] = field(default_factory=Counter)  # of each counted column of the rows
    actions: Counter[str] = field(default_factory=Counter)  # of each kind in its plan
    codes: set[str] = field(default_factory=set)  # of its findings
    halted: int = 0  # stores
    errors: list[str] = field(default_factory=list)  # why a part of it could not be processed
    exit_code: int = 0

    def add(self, row: Mapping[str, Any]) -> None:
        self.exit_code = worst_code((self.exit_code, row["exit_code"] or 0))
        self.codes |= {finding["code"] for finding in row.get("findings") or ()}
        if row.get("error") and row["error"] not in self.errors:  # shares have the same
            self.errors.append(row["error"])
        if row.get("action"):
            self._add_action(row)
        elif row.get("operator") is not None or "share" in row:
            self._add_store(row)

    def _add_action(self, row: Mapping[str, Any]) -> None:
        kind = row["action"]
        if kind == "finding":
            self.codes.add(row["reason"])
        elif kind == "error":
            self.errors.append(row["detail"])
        else:
            self.actions[kind] += 1
            if kind == "delete":
                self.sums["bytes"] += row["bytes"] or 0

    def _add_store(self, row: Mapping[str, Any]) -> None:
        self.stores += row["stores"] or 0 if "stores" in row else 1
        self.halted += row.get("outcome") == "halted"
        for name in _SUMMED:
            if row.get(name) is not None:
                self.sums[name] += row[name]
        for name in ("chain_length", "chain_after"):
            if row.get(name) is not None:
                self.chain = max(self.chain or 0, row[name])

    def to_json(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "checkpoint": self.checkpoint,
            "exit_code": self.exit_code,
            "stores": self.stores,
            "longest_chain": self.chain,
            **self.sums,
            **({"actions": self.actions} if self.actions else {}),
            "halted": self.halted,
            "findings": sorted(self.codes),
            "errors": self.errors,
        }


def summaries(rows: Iterable[Mapping[str, Any]]) -> list[QuerySummary]:
    by_query: dict[str, QuerySummary] = {}
    for row in rows:
        summary = by_query.setdefault(row["query"], QuerySummary(row["query"], row["checkpoint"]))
        summary.add(row)

    def badness(summary: QuerySummary) -> tuple[Any, ...]:
        order = WORST_FIRST.index(summary.exit_code)
        return order, -summary.halted, -len(summary.errors), -(summary.chain or 0), summary.query

    return sorted(by_query.values(), key=badness)
