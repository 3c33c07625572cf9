"""From a checkpoint to the HTML of its page; this module neither reads storage nor uses Airflow."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from statemaint.airflow.texts import size
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.files import Snapshot
from statemaint.model.findings import Finding, damaged
from statemaint.model.ids import UnitId
from statemaint.model.policy import Policy
from statemaint.plan import diagnose
from statemaint.report.to_json import chain_length

_TEMPLATES = Path(__file__).with_name("templates")


@dataclass(frozen=True, slots=True)
class Row:
    """One store of the page.

    Attributes:
        unit: its partition.
        store: its name.
        chain: the number of deltas that a restart replays; `None` when the target does not load.
        percent: the length of the chain's bar.
        mark: the colour of the bar: `good`, `long`, `broken`.
        snapshot: the newest snapshot at or below the target, in words.
        files: the number of its files.
        bytes: their size.
        findings: its findings.
    """

    unit: UnitId
    store: str
    chain: int | None
    percent: int
    mark: str
    snapshot: str
    files: int
    bytes: int
    findings: tuple[Finding, ...]

    @property
    def codes(self) -> tuple[tuple[str, bool], ...]:
        """Returns each kind of finding once, and whether it is damage."""
        return tuple(sorted({(one.code.value, one.damage) for one in self.findings}))


def state_page(query: str, checkpoint: Checkpoint, policy: Policy) -> str:
    """Returns the page of one query."""
    rows = state_rows(checkpoint, policy)
    findings = (*checkpoint.findings, *(one for row in rows for one in row.findings))
    return _render(
        "state.html",
        query=query,
        checkpoint=checkpoint,
        rows=rows,
        findings=findings,
        damage=sum(1 for one in findings if one.damage),
        longest=max((row.chain or 0 for row in rows), default=0),
        limit=policy.min_deltas_for_snapshot,
        files=sum(row.files for row in rows),
        bytes=sum(row.bytes for row in rows),
    )


def state_rows(checkpoint: Checkpoint, policy: Policy) -> tuple[Row, ...]:
    """Returns a row for each store, in order."""
    lengths = {one.id: chain_length(one, checkpoint.target) for one in checkpoint.stores}
    limit = policy.min_deltas_for_snapshot
    longest = max((length or 0 for length in lengths.values()), default=0)
    return tuple(
        _row(store, checkpoint, lengths[store.id], limit, max(longest, limit))
        for store in sorted(checkpoint.stores, key=lambda one: one.id)
    )


def queries_page(dags: Mapping[str, str]) -> str:
    """Returns the list of queries, each with the id of its DAG."""
    return _render("queries.html", dags=dags)


def error_page(code: str, detail: str) -> str:
    """Returns the page that shows an error in one line."""
    return _render("error.html", code=code, detail=detail)


def _row(store: Store, checkpoint: Checkpoint, chain: int | None, limit: int, full: int) -> Row:
    findings = diagnose(store, checkpoint)
    return Row(
        unit=store.id.unit,
        store=store.id.store,
        chain=chain,
        percent=round(100 * (chain or 0) / full),
        mark=_mark(chain, limit, findings),
        snapshot=_newest(store, checkpoint.target),
        files=len(store.files),
        bytes=sum(file.entry.size for file in store.files),
        findings=findings,
    )


def _mark(chain: int | None, limit: int, findings: tuple[Finding, ...]) -> str:
    if damaged(findings):
        return "broken"
    return "long" if chain is not None and chain > limit else "good"


def _newest(store: Store, target: int | None) -> str:
    found = None if target is None else store.versions.base(target)
    return "none" if found is None else f"version {found.version}{_written(found)}"


def _written(snapshot: Snapshot) -> str:
    modified = snapshot.entry.modified
    if modified is None:
        return ""
    return f", {datetime.fromtimestamp(modified, UTC):%Y-%m-%d %H:%M} UTC"


def _render(template: str, **values: object) -> str:
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["size"] = size
    return environment
