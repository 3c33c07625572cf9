import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemaint.airflow.bundles import Bundle, bundles
from statemaint.model.ids import UnitId


def units(operator: int, count: int) -> list[UnitId]:
    return [UnitId(operator, partition) for partition in range(count)]


def labels(found: tuple[Bundle, ...]) -> list[str]:
    return [bundle.label for bundle in found]


def test_each_partition_has_a_task_while_there_are_few() -> None:
    found = bundles(units(0, 3), target=25, most=64)
    assert found == (Bundle(0, (0,), 25), Bundle(0, (1,), 25), Bundle(0, (2,), 25))
    assert labels(found) == ["op 0 / part 0", "op 0 / part 1", "op 0 / part 2"]


def test_more_partitions_than_tasks_are_bundled_evenly() -> None:
    found = bundles(units(0, 200), target=25, most=64)
    assert len(found) == 50
    assert {len(bundle.partitions) for bundle in found} == {4}
    assert labels(found)[:2] == ["op 0 / parts 0-3", "op 0 / parts 4-7"]


def test_a_bundle_never_mixes_operators() -> None:
    found = bundles([*units(0, 5), *units(1, 2)], target=25, most=4)
    assert labels(found) == [
        "op 0 / part 0",
        "op 0 / parts 1-2",
        "op 0 / parts 3-4",
        "op 1 / parts 0-1",
    ]


def test_every_operator_has_a_bundle_even_where_that_is_too_many() -> None:
    found = bundles([*units(0, 3), *units(1, 3), *units(2, 3)], target=25, most=2)
    assert labels(found) == ["op 0 / parts 0-2", "op 1 / parts 0-2", "op 2 / parts 0-2"]


def test_a_bundle_with_gaps_says_how_many_it_holds() -> None:
    busy = [UnitId(0, partition) for partition in (1, 4, 9)]
    assert labels(bundles(busy, target=25, most=1)) == ["op 0 / parts 1-9 (3 of them)"]


def test_nothing_to_do_is_no_bundle() -> None:
    assert bundles([], target=25, most=64) == ()


@pytest.mark.parametrize("bundle", [Bundle(0, (3,), 25), Bundle(1, (0, 1, 5), 7)])
def test_a_bundle_survives_xcom(bundle: Bundle) -> None:
    assert Bundle.from_json(bundle.to_json()) == bundle


@given(
    st.sets(st.builds(UnitId, st.integers(0, 3), st.integers(0, 300))),
    st.integers(1, 100),
)
def test_every_partition_is_in_exactly_one_bundle(busy: set[UnitId], most: int) -> None:
    found = bundles(busy, target=1, most=most)
    covered = [UnitId(one.operator, part) for one in found for part in one.partitions]
    assert sorted(covered) == sorted(busy)
    assert len(found) <= max(most, len({unit.operator for unit in busy}))
    assert len({one.label for one in found}) == len(found)
