import json

import pytest

pytest.importorskip("airflow", reason="the extra `airflow`")

from statemaint.airflow.figures import FindingRow
from statemaint.airflow.pages.query import (
    MOST_CELLS,
    MOST_WORST,
    advise,
    buttons,
    commands,
    heat_map,
    undo_button,
    worst_units,
)
from statemaint.report.facts import Unit


def unit(partition: int = 0, **figures: int | None) -> Unit:
    """A partition in order, except for some figures."""
    sound = Unit(0, partition, 1, 10, 1000, 2, 200, 0, 0, 0)
    return sound._replace(**figures)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("chain", "level"),
    [(0, "0"), (10, "0"), (11, "1"), (21, "2"), (51, "3"), (201, "4"), (10**9, "4"), (None, "x")],
)
def test_a_chain_is_as_bad_as_it_is_longer_than_the_limit(chain: int | None, level: str) -> None:
    ((cell,),) = heat_map([unit(chain=chain)], 10).operators.values()
    assert cell.levels[0] == level
    assert cell.texts[0] == ("no" if chain is None else str(chain))


def test_bytes_are_compared_with_the_largest() -> None:
    sizes = (0, 1, 5_000, 50_000, 500_000, 1_000_000)
    units = [unit(n, bytes=size) for n, size in enumerate(sizes)]
    (cells,) = heat_map(units, 10).operators.values()
    levels = [int(cell.levels[1]) for cell in cells]
    assert levels == sorted(levels)
    assert (levels[0], levels[-1]) == (0, 4)


@pytest.mark.parametrize("partitions", [1, 400])
def test_partitions_of_one_size_are_not_in_the_strongest_colour(partitions: int) -> None:
    (cells,) = heat_map([unit(n, bytes=10**9) for n in range(partitions)], 10).operators.values()
    assert {cell.levels[1] for cell in cells} == {"1"}


def test_a_partition_that_is_much_larger_than_the_others_is_in_the_strongest_colour() -> None:
    units = [*(unit(n, bytes=1000) for n in range(399)), unit(399, bytes=10**6)]
    (cells,) = heat_map(units, 10).operators.values()
    assert [cells[0].levels[1], cells[-1].levels[1]] == ["0", "4"]


def test_findings_are_none_notices_or_damage() -> None:
    units = [unit(0), unit(1, notices=2), unit(2, damage=1, notices=2)]
    (cells,) = heat_map(units, 10).operators.values()
    assert [cell.levels[2] for cell in cells] == ["0", "2", "x"]
    assert [cell.texts[2] for cell in cells] == ["none", "2", "3"]


def test_a_cell_says_everything_in_words() -> None:
    ((cell,),) = heat_map([unit(3, chain=None, damage=1)], 10).operators.values()
    assert cell.label == "op 0 / part 3: does not load, 1.0 kB, findings: 1"


def test_of_too_many_partitions_the_worst_have_a_cell() -> None:
    units = [unit(number) for number in range(MOST_CELLS + 5)]
    units[-1] = units[-1]._replace(chain=None)
    found = heat_map(units, 10)
    (cells,) = found.operators.values()
    assert found.left_out == 5
    assert cells[-1].unit == units[-1]


def test_the_worst_are_those_that_do_not_load_then_damage_then_length() -> None:
    units = [unit(0), unit(1, chain=5), unit(2, damage=1), unit(3, chain=None)]
    assert [one.partition for one in worst_units(units)] == [3, 2, 1, 0]
    assert len(worst_units([unit(number) for number in range(100)])) == MOST_WORST


def test_a_partition_with_nothing_to_say_is_not_among_the_worst() -> None:
    units = [unit(n, chain=0) for n in range(8)]
    assert worst_units(units) == ()
    units[3] = units[3]._replace(notices=1)
    units[5] = units[5]._replace(reclaimable=10)
    assert [one.partition for one in worst_units(units)] == [3, 5]


def test_findings_are_grouped_by_code_with_the_next_command() -> None:
    told = [
        FindingRow(code="UNKNOWN_FILE", detail="foo.bar", damage=False),
        FindingRow(code="BROKEN_CHAIN", detail="1.delta is missing", damage=True),
        FindingRow(code="BROKEN_CHAIN", detail="7.delta is missing", damage=True),
    ]
    broken, unknown = advise(told, "/data/a b")
    assert (broken.code, broken.damage) == ("BROKEN_CHAIN", True)
    assert broken.details == ("1.delta is missing", "7.delta is missing")
    assert broken.command == "statemaint doctor '/data/a b'"
    assert (unknown.code, unknown.damage, unknown.command) == ("UNKNOWN_FILE", False, "")


def test_buttons_start_the_dags_with_the_options_of_their_forms() -> None:
    made = buttons("statemaint__a", "a", own=True, refused={})
    assert [(one.label, one.dag, json.loads(one.conf)) for one in made] == [
        ("Dry run", "statemaint__a", {"dry_run": True}),
        ("Compact", "statemaint__a", {"force_snapshot": True}),
        ("Verify", "statemaint_verify", {"query": "a"}),
        ("Savepoint", "statemaint_savepoint__a", {}),
        ("Repair", "statemaint_repair", {"query": "a"}),
        ("Roll back", "statemaint_rollback", {"query": "a"}),
    ]
    assert [bool(one.asks) for one in made] == [False, True, False, False, True, True]
    assert [one.field for one in made] == ["", "", "", "", "", "batch"]
    assert not any(one.refused for one in made)


def test_the_buttons_of_a_query_that_shares_its_dag_run_it_only() -> None:
    made = buttons("statemaint_together_hourly", "a", own=True, refused={})
    assert [json.loads(one.conf) for one in made] == [
        {"dry_run": True, "queries": ["a"]},
        {"force_snapshot": True, "queries": ["a"]},
        {"query": "a"},
        {},
        {"query": "a"},
        {"query": "a"},
    ]


def test_a_button_says_why_it_cannot_be_pressed() -> None:
    made = buttons("dag", "a", own=False, refused={"statemaint_verify": "No right."})
    assert ["tasks other than" in one.refused for one in made] == [True, True] + 4 * [False]
    assert made[2].refused == "No right."


def test_a_run_of_the_ledger_has_the_button_that_undoes_it() -> None:
    made = undo_button("a", None, "20261129-1")
    assert (made.dag, json.loads(made.conf)) == (
        "statemaint_undo", {"query": "a", "run": "20261129-1"}
    )  # fmt: skip
    assert (made.refused, made.asks[:19]) == ("", "Undo of 20261129-1 ")
    assert undo_button("a", "There is no DAG.", "r").refused == "There is no DAG."


def test_commands_are_those_of_the_checkpoint() -> None:
    assert [command for _, command in commands("/data/a b")] == [
        "statemaint doctor '/data/a b'",
        "statemaint repair '/data/a b'",
        "statemaint rollback '/data/a b' --to-batch BATCH",
    ]
