"""The bundles of runs that Airflow's `plan` has handed over, maintained by executors.

The lease of each query is that of its run, which `plan` has taken: the driver joins and renews it,
and leaves its end to Airflow's `report`. Executors do the work of Airflow's tasks, by the same
functions.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from statemaint.errors import LeaseLostError, StatemaintError
from statemaint.execute import Guarded
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
from statemaint.spark.packing import MOST_TASKS_A_CORE, deal
from statemaint.spark.units import Piece, must_go_on, task_workers
from statemaint.wording import counted

_COLUMNS = {"query": "string", "outcome": "string"}
# Concurrent requests of the driver, to the storages of all queries together.
_AT_A_TIME = 16


@dataclass(frozen=True, slots=True)
class _Read:
    """The handed-over work of a query.

    Attributes:
        target: the query, with the policy that its run was planned with.
        work: its units.
        key: the key of the handover.
    """

    target: Target
    work: Handed
    key: str


def carry_out(
    spark: Any, handed: Sequence[tuple[str, str]], *, attempt: int, tell: Tell
) -> list[PartOutcome]:
    """Maintains the handed-over bundles, and stores the outcomes of each query; safe to repeat.

    A bundle with an outcome that counts is not maintained again by a later attempt. A query whose
    storage fails has no outcomes, and does not stop the others (S16).

    Args:
        spark: the session.
        handed: for each query, the address of its checkpoint for driver and executors, and the key
            of its handover.
        attempt: the number of this attempt.
        tell: receives the progress, in lines.

    Raises:
        StatemaintError: when nothing can be read of any query.
    """
    works = _read(handed, tell)
    units = counted(sum(len(one.work.bundles) for one in works), "unit")
    names = [one.work.query for one in works]
    of = names[0] if len(names) == 1 else counted(len(names), "query", "queries")
    tell(f"maintaining {units} of {of}")
    outcomes = _leased(spark, works)

    def store(one: _Read) -> None:
        store_outcomes(one.target.open(), one.key, attempt, outcomes[one.target.query])

    for place, error in _each(store, works):
        tell(f"{place.work.query}: the outcomes are not stored: {error.code}: {error}")
    return [one for each in outcomes.values() for one in each]


def _read(handed: Sequence[tuple[str, str]], tell: Tell) -> list[_Read]:
    works: list[_Read] = []

    def read(place: tuple[str, str]) -> None:
        checkpoint, key = place
        work = read_handed(Target("", checkpoint).open(), key)
        works.append(_Read(Target(work.query, checkpoint, work.policy), work, key))

    failed = list(_each(read, handed))
    for (checkpoint, _), error in failed:
        tell(f"{checkpoint}: {error.code}: {error}")
    if failed and not works:
        raise failed[0][1]
    return sorted(works, key=lambda one: one.work.query)


def _each(
    work: Callable[[Any], object], places: Iterable[Any]
) -> list[tuple[Any, StatemaintError]]:
    """Works on many places at a time, and returns those that failed, each with its error."""

    def tried(place: Any) -> tuple[Any, StatemaintError] | None:
        try:
            work(place)
        except StatemaintError as error:
            return place, error
        return None

    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return [one for one in pool.map(tried, places) if one]


def _leased(spark: Any, works: Sequence[_Read]) -> dict[str, list[PartOutcome]]:
    """Returns the outcomes of each query; errors if its lease cannot be taken."""
    holders = {one.target: one.work.bundles[0].holder for one in works}
    with leases() as held:
        held.take({target: holder for target, holder in holders.items() if holder})
        outcomes: dict[str, list[PartOutcome]] = {one.target.query: [] for one in works}
        pieces = []
        for place in works:
            refused = held.refused.get(place.target.query)
            for unit in place.work.bundles:
                if refused:
                    outcomes[place.target.query].append(PartOutcome.of_error(unit.label, refused))
                else:
                    pieces.append((_piece(place.target, unit, place.work), unit.weight))
        for row in _rows(spark, pieces):
            outcomes[row["query"]].append(PartOutcome(**json.loads(row["outcome"])))
    return outcomes


def _rows(spark: Any, pieces: Sequence[tuple[str, float]]) -> list[Row]:
    if not pieces:
        return []
    tasks = deal(pieces, cores_of(spark) * MOST_TASKS_A_CORE)
    table = collected(spread(spark, tasks, maintain_handed, _COLUMNS), _COLUMNS)
    rows: list[Row] = table.to_pylist()
    return rows


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
    yield {"query": given.target.query, "outcome": json.dumps(row)}


def _counts(rows: list[Row]) -> bool:
    return not any(row["retry"] for row in rows)


def _outcome(given: Piece, bundle: Bundle, storage: Guarded) -> Row:
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
            repeated=storage.repeated or bool(bundle.holder and bundle.holder.attempt > 1),
        )
    except LeaseLostError:
        raise  # perhaps the unit's own lease: `once` decides
    except StatemaintError as error:
        return PartOutcome.of_error(bundle.label, error).to_json()
    outcome = PartOutcome.of_report(bundle, report, every_unit=options["every_unit"])
    return outcome.to_json()
