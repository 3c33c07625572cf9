"""The plans that `--json` prints, as `apply` reads them back: of each document what it needs."""

import json
from dataclasses import dataclass
from typing import Any

from statemaint.errors import ConfigError
from statemaint.model.ids import RecoveryVerb
from statemaint.model.policy import Policy
from statemaint.plan.actions import Request
from statemaint.report.to_json import UNDO


@dataclass(frozen=True, slots=True)
class MaintenanceFile:
    """The fields of the document of `plan --json`."""

    checkpoint: str
    query_id: str
    now: float
    policy: Policy
    request: Request
    fingerprint: str


@dataclass(frozen=True, slots=True)
class RecoveryFile:
    """The fields of the document of `repair --json` or `rollback --json`."""

    verb: RecoveryVerb
    checkpoint: str
    batch: int | None
    trash_for: float
    fingerprint: str
    query_id: str | None = None  # Airflow passes on no more than the rest


@dataclass(frozen=True, slots=True)
class UndoFile:
    """The fields of the document of `undo --dry-run --json`."""

    checkpoint: str
    run: str
    fingerprint: str


PlanFile = MaintenanceFile | RecoveryFile | UndoFile

_MADE_BY: dict[type[PlanFile], tuple[str, str]] = {
    MaintenanceFile: ("a plan", "`statemaint plan --json`"),
    RecoveryFile: (
        "the plan of a repair or rollback",
        "`statemaint repair --json` or `statemaint rollback --json`",
    ),
    UndoFile: ("the plan of an undo", "`statemaint undo --dry-run --json`"),
}


def parse_plan(name: str, content: bytes) -> PlanFile:
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 -- takes as long as a scan

    kind = _kind(content)
    try:
        return TypeAdapter(kind).validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        what, commands = _MADE_BY[kind]
        raise ConfigError(
            f"{name}: not {what} ({where}: {first['msg']}); use the output of {commands}"
        ) from None


def _kind(content: bytes) -> type[PlanFile]:
    try:
        document: Any = json.loads(content)
    except (ValueError, RecursionError):
        return MaintenanceFile
    if not isinstance(document, dict) or "verb" not in document:
        return MaintenanceFile
    return UndoFile if document["verb"] == UNDO else RecoveryFile
