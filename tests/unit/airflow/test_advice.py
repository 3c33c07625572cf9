from statemaint.airflow.advice import is_damaged


def test_a_failing_storage_is_no_damage_of_the_checkpoint() -> None:
    passing = [{"code": "STORAGE_FAILED"}, {"code": "SUPERSEDED"}]
    assert not is_damaged(passing)
    assert is_damaged([*passing, {"code": "BROKEN_CHAIN"}])
    assert not is_damaged([])
