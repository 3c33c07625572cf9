"""The bundles of a run that Airflow's `plan` has handed over, maintained by executors.

The lease is the run's, which `plan` has taken: the driver joins and renews it, and leaves its end
to Airflow's `report`. Executors do what Airflow's tasks do, by the same functions.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from statemaint.errors import LeaseLostError, StatemaintError
from statemaint.maintain.bundles import Bundle
from statemaint.maintain.handed import Handed, claim_of, read_handed, store_outcomes
from statemaint.maintain.outcomes import PartOutcome
from statemaint.maintain.parts import maintain_part
from statemaint.scan import Handover
from statemaint.spark.engine import Tell
from statemaint.spark.fleet import Target
from statemaint.spark.frames import collected, cores_of, spread
from statemaint.spark.leases import leases
from statemaint.spark.outcomes import Row
from statemaint.spark.packing import TASKS_A_CORE, deal
from statemaint.spark.units import Piece, must_go_on, task_workers
from statemaint.storage import Storage

_COLUMNS = {"label": "string", "outcome": "string"}


def carry_out(
    spark: Any, checkpoint: str, key: str, *, attempt: int, tell: Tell
) -> list[PartOutcome]:
    """Maintains what was handed over, and stores the outcomes; safe to repeat.

    A bundle with an outcome that counts is not maintained again by a later attempt.

    Args:
        spark: the session.
        checkpoint: the address of the checkpoint, as driver and executors reach it.
        key: the key of what was handed over.
        attempt: the number of this attempt.
        tell: told of the progress, in lines.

    Raises:
        StorageError: when the storage fails.
    """
    target = Target("", checkpoint)
    work = read_handed(target.open(), key)
    target = Target(work.query, checkpoint, work.policy)
    tell(f"maintaining {len(work.bundles)} units of {work.query}")
    outcomes = _leased(spark, target, work)
    store_outcomes(target.open(), key, attempt, outcomes)
    return outcomes


def _leased(spark: Any, target: Target, work: Handed) -> list[PartOutcome]:
    holder = work.bundles[0].holder
    with leases() as held:
        if holder:
            held.take({target: holder})
        if refused := held.refused.get(target.query):
            return [PartOutcome.of_error(one.label, refused) for one in work.bundles]
        pieces = [(_piece(target, one, work), one.weight) for one in work.bundles]
        tasks = deal(pieces, cores_of(spark) * TASKS_A_CORE * 4)
        table = collected(spread(spark, tasks, maintain_handed, _COLUMNS), _COLUMNS)
    return [PartOutcome(**json.loads(text)) for text in table["outcome"].to_pylist()]


def _piece(target: Target, bundle: Bundle, work: Handed) -> str:
    options = {
        "run": work.run,
        "bundle": bundle.to_json(),
        "handover": work.handover,
        "force_snapshot": work.force_snapshot,
        "every_unit": work.every_unit,
    }
    return Piece(target, options).to_json()


def maintain_handed(piece: str) -> Iterator[Row]:
    """Yields the outcome of a bundle, whatever happens; on an executor.

    A failure that may pass is not stored, so that the next attempt works on the bundle again.
    """
    given = Piece.from_json(piece)
    bundle = Bundle.from_json(given.options["bundle"])
    try:
        place = given.target.open()
        claim = replace(claim_of(place, bundle), counts=_counts)
        (row,) = claim.once(
            lambda storage: [_outcome(given, bundle, storage)],
            again=lambda: must_go_on(place, bundle),
        )
    except Exception as error:  # noqa: BLE001 -- one bundle must not stop the others (S16)
        row = PartOutcome.of_error(bundle.label, error).to_json()
    yield {"label": bundle.label, "outcome": json.dumps(row)}


def _counts(rows: list[Row]) -> bool:
    return not any(row["retry"] for row in rows)


def _outcome(given: Piece, bundle: Bundle, storage: Storage) -> Row:
    options, handover = given.options, given.options["handover"]
    try:
        must_go_on(storage, bundle)
        report = maintain_part(
            storage,
            given.target.policy,
            bundle,
            run=options["run"],
            force_snapshot=options["force_snapshot"],
            handover=Handover.from_json(handover) if handover else None,
            workers=task_workers(storage),
        )
    except LeaseLostError:
        raise  # the unit's own, perhaps: `once` knows
    except StatemaintError as error:
        return PartOutcome.of_error(bundle.label, error).to_json()
    found = PartOutcome.of_report(bundle, report, every_unit=options["every_unit"])
    return found.to_json()
