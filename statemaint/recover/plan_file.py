"""Carries out a reviewed repair or rollback (S14)."""

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from statemaint.errors import ConfigError
from statemaint.model.ids import RecoveryVerb
from statemaint.recover.carry_out import RecoveryReport
from statemaint.recover.repair import repair
from statemaint.recover.rollback import rollback
from statemaint.scan import must_be_of_query
from statemaint.storage import Storage
from statemaint.workers import Workers


class RecoveryFile(BaseModel):
    """The fields that `apply` needs from the document of `repair --json` or `rollback --json`."""

    model_config = ConfigDict(frozen=True)

    verb: RecoveryVerb
    checkpoint: str
    batch: int | None
    trash_for: float
    fingerprint: str
    query_id: str | None = None  # Airflow passes on no more than the rest


def parse_recovery(name: str, content: bytes) -> RecoveryFile | None:
    """Returns the content of the file of a repair or a rollback; `None` for any other file.

    Raises:
        ConfigError: when it is such a file, and a field is missing or not valid.
    """
    if not _has_verb(content):
        return None
    try:
        return RecoveryFile.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            f"{name}: not the plan of a repair or rollback ({where}: {first['msg']}); "
            "give the output of `statemaint repair --json` or `statemaint rollback --json`"
        ) from None


def _has_verb(content: bytes) -> bool:
    try:
        document: Any = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and "verb" in document


def apply_recovery(
    storage: Storage, plan_file: RecoveryFile, *, workers: Workers | int | None = None
) -> RecoveryReport:
    """Carries out exactly the repair or rollback that was reviewed, or nothing.

    Raises:
        Superseded: when its files have changed.
        ConfigError: when it is of another query's checkpoint, or a rollback without a batch.
        StatemaintError: as `repair` and `rollback` do.
    """
    if plan_file.query_id is not None:
        must_be_of_query(storage, plan_file.query_id, plan_file.checkpoint)
    if plan_file.verb is RecoveryVerb.REPAIR:
        return repair(
            storage, trash_for=plan_file.trash_for, expected=plan_file.fingerprint, workers=workers
        )
    if plan_file.batch is None:
        raise ConfigError("a rollback needs the batch to roll back to")
    return rollback(
        storage,
        plan_file.batch,
        trash_for=plan_file.trash_for,
        expected=plan_file.fingerprint,
        workers=workers,
    )
