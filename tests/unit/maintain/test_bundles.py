import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.maintain.bundles import Bundle, bundles, costs_of, task_count
from statemaint.model.ids import UnitId
from statemaint.report.task import dumped, loaded


def units(operator: int, count: int) -> dict[UnitId, float]:
    return {UnitId(operator, partition): 1.0 for partition in range(count)}


def labels(found: tuple[Bundle, ...]) -> list[str]:
    return [bundle.label for bundle in found]


def test_each_partition_has_a_task_while_there_are_few() -> None:
    found = bundles(units(0, 3), target=25, most=16)
    assert [bundle.partitions for bundle in found] == [(0,), (1,), (2,)]
    assert labels(found) == ["op 0 / part 0", "op 0 / part 1", "op 0 / part 2"]


def test_more_partitions_than_tasks_are_bundled_evenly() -> None:
    found = bundles(units(0, 400), target=25, most=16)
    assert len(found) == 16
    assert {len(bundle.partitions) for bundle in found} == {25}


def test_a_heavy_partition_has_a_bundle_of_its_own() -> None:
    weights = units(0, 10) | {UnitId(0, 4): 100.0}
    found = bundles(weights, target=25, most=3)
    assert (4,) in [bundle.partitions for bundle in found]
    assert sorted(bundle.weight for bundle in found) == [4.0, 5.0, 100.0]


def test_a_bundle_never_mixes_operators() -> None:
    found = bundles(units(0, 5) | units(1, 2), target=25, most=4)
    shares = [(bundle.operator, len(bundle.partitions)) for bundle in found]
    assert sorted(shares) == [(0, 1), (0, 2), (0, 2), (1, 2)]


def test_every_operator_has_a_bundle_even_where_that_is_too_many() -> None:
    found = bundles(units(0, 3) | units(1, 3) | units(2, 3), target=25, most=2)
    assert labels(found) == ["op 0 / parts 0-2", "op 1 / parts 0-2", "op 2 / parts 0-2"]


def test_a_bundle_with_gaps_says_how_many_it_holds() -> None:
    busy = {UnitId(0, partition): 1.0 for partition in (1, 4, 9)}
    assert labels(bundles(busy, target=25, most=1)) == ["op 0 / parts 1-9 (3 of them)"]


def test_nothing_to_do_is_no_bundle() -> None:
    assert bundles({}, target=25, most=64) == ()


@pytest.mark.parametrize("bundle", [Bundle(0, (3,), 25), Bundle(1, (0, 1, 5), 7)])
def test_a_bundle_survives_xcom(bundle: Bundle) -> None:
    assert loaded(Bundle, dumped(bundle)) == bundle


@given(
    st.dictionaries(
        st.builds(UnitId, st.integers(0, 3), st.integers(0, 300)), st.floats(1.0, 1e9), max_size=300
    ),
    st.integers(1, 100),
)
def test_every_partition_is_in_exactly_one_bundle(busy: dict[UnitId, float], most: int) -> None:
    found = bundles(busy, target=1, most=most)
    covered = [unit for one in found for unit in one.units]
    assert sorted(covered) == sorted(busy)
    assert len(found) <= max(most, len({unit.operator for unit in busy}))
    assert len(found) == len(busy) or len(found) >= min(most, len(busy))


@given(st.lists(st.floats(1.0, 1e6), min_size=1, max_size=200), st.integers(1, 30))
def test_no_bundle_is_heavier_than_the_mean_and_one_partition(
    sizes: list[float], most: int
) -> None:
    busy = {UnitId(0, number): size for number, size in enumerate(sizes)}
    found = bundles(busy, target=1, most=most)
    mean = sum(sizes) / len(found)
    assert max(bundle.weight for bundle in found) <= mean + max(sizes) + 1e-6 * sum(sizes)


def test_the_cost_of_a_partition_is_that_of_its_bundle_in_the_last_run() -> None:
    planned = (Bundle(0, (0,), 25, weight=10.0), Bundle(0, (1, 2), 25, weight=40.0))
    costs = costs_of(planned, {"op 0 / part 0": 5.0, "op 0 / parts 1-2": 2.0})
    assert costs == {"op 0 / part 0": 0.5, "op 0 / part 1": 0.05, "op 0 / part 2": 0.05}
    assert costs_of(planned, {}) == {}


def test_there_are_as_many_tasks_as_the_work_is_worth() -> None:
    many = units(0, 400)
    known = {f"op 0 / part {number}": 0.0625 for number in range(400)}  # seconds for each weight
    assert task_count(many, known) == 5  # 25 seconds
    assert task_count(many, dict.fromkeys(known, 0.001)) == 4
    assert task_count(many, dict.fromkeys(known, 9.0)) == 16


def test_the_operators_number_of_tasks_wins_over_the_estimate() -> None:
    small, large = units(0, 400), {UnitId(0, one): 1e12 for one in range(400)}
    assert [task_count(some, {}, chosen) for some in (small, large) for chosen in (8, 64)] == [
        8, 64, 8, 64,
    ]  # fmt: skip


def test_without_an_earlier_run_the_work_is_estimated_by_its_bytes() -> None:
    assert task_count({UnitId(0, one): 16e6 for one in range(400)}, {}) == 7
    assert task_count({UnitId(0, one): 16e6 for one in range(400)}, {"op 0 / part 0": 0.0}) == 7


def test_few_partitions_have_a_task_each_however_little_there_is_to_do() -> None:
    few = units(0, 16)
    assert len(bundles(few, target=25, most=task_count(few, {}))) == 16
