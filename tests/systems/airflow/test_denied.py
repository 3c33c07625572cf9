"""A storage that denies access fails a task at once: another attempt would fail in the same way."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from statemaint.airflow.settings import Options, QuerySettings
from statemaint.airflow.tasks import plan_query
from statemaint.maintain.bundles import Bundle
from statemaint.model.policy import Policy
from statemaint.records.claims import Holder
from tests.support.users import STRANGER, as_user, shared_folder
from tests.systems.airflow.support import TARGET, neglected, work_on

POLICY = Policy(min_batches_to_retain=5, grace=0.0)
OPTIONS = Options()
_T = TypeVar("_T")


@pytest.fixture
def checkpoint() -> Iterator[Path]:
    with shared_folder() as folder:
        made = neglected(folder / "c")
        (made / "_statemaint").mkdir()
        (made / "_statemaint").chmod(0o777)
        yield made
        for place in (made, made / "state/0/1"):
            place.chmod(0o755)  # an ordinary user has to delete it


def unprivileged(work: Callable[[], _T]) -> _T:
    """Returns what some work returns without the rights of root."""
    return work() if os.geteuid() else as_user(work, uid=STRANGER, gid=STRANGER)


def settings(checkpoint: Path) -> QuerySettings:
    return QuerySettings("hourly", str(checkpoint), POLICY)


def test_a_plan_that_may_not_write_its_lease_is_not_tried_again(checkpoint: Path) -> None:
    (checkpoint / "_statemaint").rmdir()
    checkpoint.chmod(0o555)
    where = settings(checkpoint)
    failure = unprivileged(lambda: plan_query(where, OPTIONS, Holder("run"))).failure
    assert failure
    assert failure.reason == "STORAGE: _statemaint: Permission denied"
    assert not failure.retry


def test_a_partition_that_may_not_be_written_is_not_tried_again(checkpoint: Path) -> None:
    (checkpoint / "state/0/1").chmod(0o555)
    where, bundle = settings(checkpoint), Bundle(0, (1,), TARGET)
    failure = unprivileged(lambda: work_on(where, bundle, OPTIONS, run="r")).failure
    assert failure
    assert failure.reason.startswith("STORAGE_FAILED: state/0/1/")
    assert "Permission denied" in failure.reason
    assert not failure.retry


def test_a_partition_that_may_not_be_listed_is_not_tried_again(checkpoint: Path) -> None:
    (checkpoint / "state/0/1").chmod(0o000)
    where, bundle = settings(checkpoint), Bundle(0, (1,), TARGET)
    failure = unprivileged(lambda: work_on(where, bundle, OPTIONS, run="r")).failure
    assert failure
    assert failure.reason.startswith("STORAGE_FAILED: state/0/1: Permission denied")
    assert not failure.retry
