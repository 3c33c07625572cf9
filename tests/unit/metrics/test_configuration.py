from statemaint.metrics.catalogue import MOST_PROBLEMS
from statemaint.metrics.families import problem_families


def test_each_mistake_is_a_series_with_its_file_and_line_up_to_a_bound() -> None:
    many = [("/q.yaml", line, "") for line in range(2, 100)]
    count, places = problem_families([("/q.yaml", 1, "orders"), *many], {})
    assert [one.value for one in count.samples] == [99.0]
    assert len(places.samples) == MOST_PROBLEMS
    assert places.samples[0].labels == {"file": "/q.yaml", "line": "1", "query": "orders"}
    assert places.samples[1].labels == {"file": "/q.yaml", "line": "2"}


def test_a_mistake_of_a_whole_file_has_no_line() -> None:
    _, places = problem_families([("/q.yaml", 0, "")])
    assert [one.labels for one in places.samples] == [{"file": "/q.yaml"}]


def test_two_mistakes_of_one_line_are_one_series() -> None:
    count, places = problem_families([("/q.yaml", 1, "a"), ("/q.yaml", 1, "a")], {})
    assert [one.value for one in count.samples] == [2.0]
    assert len(places.samples) == 1
