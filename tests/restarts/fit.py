"""Fits the costs of a restart to measured points, and writes `statemaint/model/restart_costs.py`.

Non-negative least squares of relative errors: a second too much of a long restart is a small
error, of a short one a large one.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import astuple
from datetime import UTC, datetime
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from statemaint.model import restart_costs
from statemaint.model.checkpoint import Provider
from statemaint.model.restart_costs import QUANTITIES, Costs, Replay
from statemaint.model.restart_time import Load
from tests.restarts.run import PROVIDERS, SPARKS
from tests.support.paths import ROOT

Line = dict[str, Any]
Matrix = NDArray[np.float64]

NAMES = {"hdfs": Provider.HDFS_BACKED, "rocksdb": Provider.ROCKSDB}
_MODULE = ROOT / "statemaint" / "model" / "restart_costs.py"
_ROUNDS = 5000
# More than nine of ten points, since a fit is better than what follows, and no less than a third.
_WITHIN, _LEAST = 0.95, 1 / 3
# Within ever smaller weights, a point far off the others' line is an accident of the machine.
_REWEIGHTED, _ACCIDENT = 5, 0.25


def fit(lines: Sequence[Line], like: Costs | None = None) -> Costs:
    """Returns the costs of points of one provider and Spark.

    With `like`, only the start and a factor of all other costs are fitted: for the few points of
    cold restarts, which are taken to be off by as much at least.
    """
    rows = np.array([_row(line) for line in lines])
    seconds = np.array([_seconds(line) for line in lines])
    if like is None:
        found = _robust(rows, seconds)
    else:
        slopes = np.array(astuple(like)[1:-1])
        start, factor = _robust(np.stack([rows[:, 0], rows[:, 1:] @ slopes], axis=1), seconds)
        found = np.concatenate([[start], factor * slopes])
    errors = np.maximum(rows @ found / seconds, seconds / (rows @ found)) - 1
    error = max(float(np.quantile(errors, _WITHIN)), like.error if like else _LEAST)
    return Costs(**dict(zip(("start", *QUANTITIES), map(float, found), strict=True)), error=error)


def _robust(rows: Matrix, seconds: Matrix) -> Matrix:
    relative, weights = rows / seconds[:, None], np.ones(len(seconds))
    for _ in range(_REWEIGHTED):
        found = _non_negative(relative * weights[:, None], weights)
        off = np.abs(relative @ found - 1)
        weights = np.minimum(1.0, _ACCIDENT / np.maximum(off, 1e-9)) ** 0.5
    return found


def _non_negative(rows: Matrix, targets: Matrix) -> Matrix:
    """Returns the least-squares solution without negative values, by Lawson and Hanson."""
    scale = np.maximum(np.linalg.norm(rows, axis=0), 1e-12)
    rows = rows / scale
    found, active = np.zeros(rows.shape[1]), np.zeros(rows.shape[1], np.bool_)
    for _ in range(_ROUNDS):
        slope = rows.T @ (targets - rows @ found)
        if active.all() or slope[~active].max() < 1e-10:
            break
        active[np.argmax(np.where(active, -np.inf, slope))] = True
        while True:
            tried = np.zeros_like(found)
            tried[active] = np.linalg.lstsq(rows[:, active], targets, rcond=None)[0]
            if (tried[active] > 0).all():
                found = tried
                break
            low = active & (tried <= 0)
            step = np.min(found[low] / np.maximum(found[low] - tried[low], 1e-300))
            found = found + step * (tried - found)
            active &= found > 1e-14
            found[~active] = 0.0
    solution: Matrix = found / scale
    return solution


def _row(line: Line) -> list[float]:
    work = line["work"]
    shared = min(line["slots"], line["shape"]["stores"])
    values = {**work, "stores": line["shape"]["stores"]}
    return [1.0, *(values[name] / shared for name in QUANTITIES)]


def _seconds(line: Line) -> float:
    """Returns the middle of what a point took."""
    return float(np.median(line["seconds"]))


def load_of(line: Line) -> Load:
    """Returns a point's load: its stores are all alike."""
    stores = line["shape"]["stores"]
    total = Replay(stores=stores, **line["work"])
    return Load(total, Replay(*(value // stores for value in astuple(total))))


def of(lines: Iterable[Line], provider: str, spark: str, *, warm: bool) -> list[Line]:
    return [
        line
        for line in lines
        if (line["shape"]["provider"], line["spark"], line["warm"]) == (provider, spark, warm)
    ]


def fitted(lines: Sequence[Line]) -> dict[restart_costs.Restart, Costs]:
    """Returns the costs of every provider and Spark that has points."""
    costs = {}
    for provider, spark in product(PROVIDERS, SPARKS):
        name, warm = NAMES[provider], of(lines, provider, spark, warm=True)
        if not warm:
            continue
        warm_costs = fit(warm)
        costs[restart_costs.Restart(name, spark, warm=True)] = warm_costs
        if cold := of(lines, provider, spark, warm=False):
            costs[restart_costs.Restart(name, spark, warm=False)] = fit(cold, like=warm_costs)
    return costs


def write(lines: Sequence[Line]) -> None:
    """Writes the fitted costs into the package; those without points stay as they are."""
    found = {**restart_costs.COSTS, **fitted(lines)}
    entries = []
    for key, costs in found.items():
        name = "_ROCKS" if key.provider is Provider.ROCKSDB else "_HDFS"
        values = ", ".join(f"{value:.3g}" for value in astuple(costs))
        entries.append(
            f'    Restart({name}, "{key.spark}", warm={key.warm}): '
            f"Costs(\n        {values}\n    ),\n"
        )
    today = datetime.now(UTC).date().isoformat()
    measured = f'MEASURED = "{today}, by {len(lines)} restarts"'
    text = re.sub(r"COSTS = \{.*?\n\}", f"COSTS = {{\n{''.join(entries)}}}", _MODULE.read_text(),
                  flags=re.DOTALL)  # fmt: skip
    _MODULE.write_text(re.sub(r"MEASURED = .*", measured, text))
