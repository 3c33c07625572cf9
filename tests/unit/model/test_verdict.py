import pytest

from statemaint.model.verdict import Looked, Verdict, worst


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ("", Verdict.EMPTY),
        ("committed", Verdict.HEALTHY),
        ("committed damaged", Verdict.DEGRADED),
        ("damaged", Verdict.DEGRADED),
        ("committed damaged blocked", Verdict.BROKEN),
        ("committed damaged blocked unread", Verdict.UNKNOWN),
    ],
)
def test_the_verdict_follows_from_four_facts(facts: str, expected: Verdict) -> None:
    names = ("unread", "blocked", "damaged", "committed")
    assert Verdict.of(**{name: name in facts.split() for name in names}) is expected


def test_the_words_and_exit_codes_are_those_of_the_contract() -> None:
    assert {one.value: one.exit_code for one in Verdict} == {
        "healthy": 0, "empty": 0, "degraded": 3, "broken": 3, "unknown": 5,
    }  # fmt: skip


def test_the_rank_of_a_verdict_finds_it_again() -> None:
    assert [Verdict.ranked(one.rank) for one in Verdict] == list(Verdict)


def test_broken_is_the_worst_and_healthy_the_best() -> None:
    assert worst(Verdict) is Verdict.BROKEN
    assert worst([Verdict.HEALTHY, Verdict.EMPTY]) is Verdict.EMPTY


def test_looks_are_ordered_by_their_depth() -> None:
    assert [one.depth for one in Looked] == [0, 1, 2, 3]
    assert [one.value for one in Looked] == ["names", "ends", "files", "rows"]
