"""Summaries of the rows of a fleet, one for each query, the worst first. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from statemaint.report.run import WORST_FIRST, worst_code

_SUMMED = (
    *("files", "bytes", "snapshots_written", "bytes_written", "files_deleted", "bytes_deleted"),
    *("reclaimable_bytes", "versions_checked"),
)
_CHAINS = ("chain_length", "chain_after")


@dataclass(slots=True)
class QuerySummary:
    """The summary of the rows of a query.

    Attributes:
        query: its name.
        checkpoint: the address of its checkpoint.
        stores: the number of its stores.
        chain: the longest chain of a store.
        sums: the sum of each counted column that the rows have.
        actions: the number of actions of each kind in its plan.
        codes: the codes of its findings.
        halted: the stores that are halted.
        errors: why it, or a part of it, could not be processed.
        exit_code: the worst of its rows.
    """

    query: str
    checkpoint: str
    stores: int = 0
    chain: int | None = None
    sums: dict[str, int] = field(default_factory=dict)
    actions: dict[str, int] = field(default_factory=dict)
    codes: set[str] = field(default_factory=set)
    halted: int = 0
    errors: list[str] = field(default_factory=list)
    exit_code: int = 0

    def add(self, row: Mapping[str, Any]) -> None:
        self.exit_code = worst_code((self.exit_code, row["exit_code"] or 0))
        self.codes |= {finding["code"] for finding in row.get("findings") or ()}
        if row.get("error"):
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
            self.actions[kind] = self.actions.get(kind, 0) + 1
            if kind == "delete":
                self._sum("bytes", row["bytes"])

    def _add_store(self, row: Mapping[str, Any]) -> None:
        self.stores += row["stores"] or 0 if "stores" in row else 1
        self.halted += row.get("outcome") == "halted"
        for name in _SUMMED:
            if row.get(name) is not None:
                self._sum(name, row[name])
        for name in _CHAINS:
            if row.get(name) is not None:
                self.chain = max(self.chain or 0, row[name])

    def _sum(self, name: str, value: int | None) -> None:
        self.sums[name] = self.sums.get(name, 0) + (value or 0)

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
    """Returns a summary of each query, the worst first."""
    by_query: dict[str, QuerySummary] = {}
    for row in rows:
        summary = by_query.setdefault(row["query"], QuerySummary(row["query"], row["checkpoint"]))
        summary.add(row)
    return sorted(by_query.values(), key=_badness)


def _badness(summary: QuerySummary) -> tuple[Any, ...]:
    order = WORST_FIRST.index(summary.exit_code)
    return order, -summary.halted, -len(summary.errors), -(summary.chain or 0), summary.query
