"""The verbs on a fleet, each of which returns a DataFrame."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from statemaint.errors import ConfigError
from statemaint.model.policy import Value
from statemaint.records.runs import new_run_id
from statemaint.records.savepoints import SAME, Shape
from statemaint.spark import frames
from statemaint.spark.engine import FleetRun, run_fleet
from statemaint.spark.fleet import Queries, fleet_of, reading_of
from statemaint.spark.history import History
from statemaint.spark.outcomes import summaries
from statemaint.spark.reporting import reporting
from statemaint.spark.savepoints import save_fleet
from statemaint.spark.units import Piece, check, make_plan, take_inventory, waits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)


def inventory(spark: "SparkSession", queries: Queries) -> "DataFrame":
    """Returns the inventory: a row for each store, and for each query with findings of its own.

    It is read by an action, and again by the next one: `cache()` it, or write it. Nothing is
    written to a checkpoint. The fleet is a queries file, its path, addresses by name, or `Target`s.
    """
    pieces = map(Piece, fleet_of(queries))
    return _named(_spread(spark, pieces, take_inventory, frames.INVENTORY))


def plan_fleet(
    spark: "SparkSession",
    queries: Queries,
    *,
    policy: Mapping[str, Value] | None = None,
    force: bool = False,
) -> "DataFrame":
    """Returns the plan of maintenance: a row for each action, and for each finding.

    It is planned by an action, and again by the next one. Nothing is written (S13). The `policy`
    has settings for every query; by `force`, snapshots are planned where chains are short, too.
    """
    options = {"force_snapshot": force}
    pieces = (Piece(target, options) for target in fleet_of(queries, policy))
    return _named(_spread(spark, pieces, make_plan, frames.PLAN))


def verify_fleet(
    spark: "SparkSession", queries: Queries, *, deep: bool = False, shares: int = 1
) -> "DataFrame":
    """Returns whether every retained version loads: a row for each share of each query.

    By `deep` everything is read and compared, as `statemaint verify --deep` does. As many tasks as
    there are `shares` share a query's partitions; each reports findings of logs.
    """
    pieces = (
        Piece(target, {"deep": deep, "share": [share, shares]})
        for target in fleet_of(queries)
        for share in range(1, shares + 1)
    )
    return _spread(spark, pieces, check, frames.VERIFIED)


def maintain_fleet(  # noqa: PLR0913 -- each is a choice of its own
    spark: "SparkSession",
    queries: Queries,
    *,
    policy: Mapping[str, Value] | None = None,
    force: bool = False,
    run: str | None = None,
    attempt: int | None = None,
    wait: float | None = None,
    history: str | History | None = None,
    tell: Callable[[str], object] | None = None,
) -> "DataFrame":
    """Maintains every query once, and returns the outcomes: a row for each store and each query.

    It works immediately, and once: the DataFrame has the outcomes, and computes nothing. A
    repeated task returns the outcome of the first, unless that is a failure that may pass; a killed
    driver's leases end within a minute, and the next run continues. Of a queries file, each query's
    task is published where the file says, as the program does.

    Args:
        spark: the session.
        queries: the fleet, as for `inventory`.
        policy: settings for every query.
        force: write a snapshot at the target even if the chain is short.
        run: the run's id in the ledgers; a new one by default.
        attempt: the number of the attempt at that run; a later one ends the leases of an earlier.
        wait: seconds to wait for leases that other runs hold; without it their queries are `held`.
        history: the Parquet dataset to which the outcomes are added, or its address.
        tell: receives the progress, in lines.

    Raises:
        StorageError: when the outcomes cannot be added to the history; the fleet is maintained.
    """
    reading = reading_of(queries)
    fleet = fleet_of(reading or queries, policy)
    name, number = run or new_run_id(time.time()), 1 if attempt is None else attempt
    fleet_run = FleetRun(name, number, force, wait or 0.0, tell or _log.info)
    kept = History.at(history) if isinstance(history, str) else history
    with reporting(reading, fleet, "maintain", attempt=number) as ended:
        table = run_fleet(spark, fleet, fleet_run, kept.costs() if kept else {})
        ended(summaries(frames.rows_of(table)))
    if kept:
        kept.add(name, table, time.time(), attempt=number)
    return _named(frames.frame_of(spark, table, frames.OUTCOMES))


def savepoint_fleet(  # noqa: PLR0913 -- as above
    spark: "SparkSession",
    queries: Queries,
    *,
    run: str | None = None,
    shape: Shape = SAME,
    to: str | None = None,
    pin: bool = True,
    history: str | History | None = None,
    tell: Callable[[str], object] | None = None,
) -> "DataFrame":
    """Makes a savepoint of each query that says where its savepoints are, of its newest batch.

    Returns the outcomes: a row for each store and each query. It works immediately, and once. A
    query whose savepoint is there already is left as it is; one that was interrupted is completed
    as long as no newer batch is committed.

    Args:
        spark: the session.
        queries: the fleet, as for `inventory`.
        run: the run's id in the history; a new one by default.
        shape: what is to be other than in the checkpoint, of a single query.
        to: the address of the savepoint of a single query, in place of the one in its file.
        pin: keep maintenance from deleting what is being read.
        history: the Parquet dataset to which the outcomes are added, or its address.
        tell: receives the progress, in lines.

    Raises:
        ConfigError: when the fleet cannot be used, or none of it says where its savepoints are.
        StorageError: when the outcomes cannot be added to the history; the savepoints are there.
    """
    reading = reading_of(queries)
    fleet = [
        replace(target, savepoint=to or target.savepoint) for target in fleet_of(reading or queries)
    ]
    fleet = [target for target in fleet if target.savepoint or target.mistake]
    if (to or shape != SAME) and (len(fleet) != 1 or not to):
        raise ConfigError(
            "--to and another shape are of one query (--query); the latter needs --to"
        )
    if not fleet:
        raise ConfigError("no query says where its savepoints are: add `savepoint: {to: ADDRESS}`")
    name = run or new_run_id(time.time())
    kept = History.at(history) if isinstance(history, str) else history
    with reporting(reading, fleet, "savepoint") as ended:
        table = save_fleet(spark, fleet, name, shape=shape, pin=pin, tell=tell or (lambda _: None))
        ended(summaries(frames.rows_of(table)))
    if kept:
        kept.add(name, table, time.time(), verb="savepoint")
    return _named(frames.frame_of(spark, table, frames.OUTCOMES))


def _spread(
    spark: "SparkSession", pieces: Iterable[Piece], work: frames.Work, columns: Mapping[str, str]
) -> "DataFrame":
    weighted = [(piece.to_json(), 1.0) for piece in pieces]
    frame: DataFrame = frames.spread(spark, weighted, work, columns, waits=waits)
    return frame


def _named(frame: "DataFrame") -> "DataFrame":
    """Adds the columns that name a store as Spark does, beside those of earlier releases."""
    names = (f"`{old}` AS `{new}`" for new, old in frames.NAMES_OF_SPARK.items())
    named: DataFrame = frame.selectExpr("*", *names)
    return named
