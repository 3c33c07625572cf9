"""The fit, on points whose costs are known."""

from dataclasses import asdict

import numpy as np
import pytest
from numpy.random import default_rng

from statemaint.model.restart_costs import Costs
from tests.restarts.fit import Line, fit
from tests.restarts.run import grid
from tests.restarts.shapes import Shape

_TRUE = Costs(0.7, 0.03, 0.002, 2e-9, 8e-7, 0.0015, 3e-9, 1.2e-6, 0.0)


def _line(shape: Shape, costs: Costs, noise: float) -> Line:
    work = {
        "snapshot_files": shape.stores * bool(shape.base),
        "snapshot_bytes": shape.stores * shape.base * (900 if shape.wide else 32),
        "snapshot_records": shape.stores * shape.base,
        "change_files": shape.stores * shape.deltas,
        "change_bytes": shape.stores * shape.deltas * shape.changes * (950 if shape.wide else 40),
        "change_records": shape.stores * shape.deltas * shape.changes,
    }
    shared = min(2, shape.stores)
    fields = asdict(costs)
    took = costs.start + sum(
        fields[name] * value / shared for name, value in {**work, "stores": shape.stores}.items()
    )
    return {"work": work, "slots": 2, "shape": asdict(shape), "seconds": [took * noise]}


def test_the_fit_finds_the_costs_that_the_points_were_made_with() -> None:
    lines = [_line(shape, _TRUE, 1.0) for shape in grid("hdfs", 60, 1)]
    found = fit(lines)
    assert found.start == pytest.approx(_TRUE.start, rel=0.01)
    assert found.change_records == pytest.approx(_TRUE.change_records, rel=0.02)
    assert found.change_files == pytest.approx(_TRUE.change_files, rel=0.02)
    assert found.error == pytest.approx(1 / 3), "however well it fits"


def test_noise_and_an_accident_leave_the_fit_within_its_error() -> None:
    rng = default_rng(5)
    shapes = grid("hdfs", 60, 1)
    lines = [_line(shape, _TRUE, 1 + 0.1 * rng.standard_normal()) for shape in shapes]
    lines[7]["seconds"] = [40.0]
    found = fit(lines)
    assert found.start == pytest.approx(_TRUE.start, rel=0.1)
    assert found.error == pytest.approx(1 / 3)
    assert all(value >= 0 for value in asdict(found).values())


def test_a_range_covers_nineteen_of_twenty_points() -> None:
    rng = default_rng(6)
    noise = np.exp(0.25 * rng.standard_normal(60))
    shapes = grid("hdfs", 60, 1)
    found = fit([_line(shape, _TRUE, by) for shape, by in zip(shapes, noise, strict=True)])
    assert 1 / 3 < found.error < 1


def test_cold_points_fit_a_start_and_a_factor_of_the_warm_costs() -> None:
    cold = Costs(*(value * 1.5 for value in asdict(_TRUE).values()))
    lines = [_line(shape, cold, 1.0) for shape in grid("hdfs", 8, 3)]
    found = fit(lines, like=_TRUE)
    assert found.start == pytest.approx(cold.start, rel=0.02)
    assert found.change_records == pytest.approx(cold.change_records, rel=0.02)


def test_a_grid_is_the_same_for_a_seed_and_spread_over_sizes() -> None:
    shapes = grid("rocksdb", 60, 1)
    assert shapes == grid("rocksdb", 60, 1) != grid("rocksdb", 60, 2)
    assert {1, 200} <= {shape.stores for shape in shapes}
    assert min(shape.deltas for shape in shapes) == 0
    assert max(shape.deltas for shape in shapes) == 500
    assert sum(shape.wide for shape in shapes) >= 12
