"""What the driver does with the bundles that Airflow hands over, without a JVM."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from statemaint.errors import ConfigError
from statemaint.execute.lease import acquire
from statemaint.maintain.bundles import Bundle
from statemaint.maintain.work import WorkOrder, hand_over
from statemaint.model.policy import Policy
from statemaint.records.claims import Holder
from statemaint.records.runs import read_document, work_path, write_document
from statemaint.spark.engine import carry_out
from statemaint.storage import LocalStorage
from tests.support.checkpoints import write_checkpoint

Work = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Numbers:
    """Spark's numbers from 0, each of which is a task of its own, in this process."""

    def __init__(self, count: int) -> None:
        self._count = count

    def mapInArrow(self, work: Work, _columns: str) -> Any:  # noqa: N802 -- Spark's name
        tasks = (pa.record_batch({"id": [number]}) for number in range(self._count))
        table = pa.Table.from_batches([batch for task in tasks for batch in work([task])])
        selected = lambda *names: SimpleNamespace(toArrow=lambda: table.select(list(names)))  # noqa: E731
        return SimpleNamespace(select=selected)


class Session:
    """A session of two cores."""

    _sc = SimpleNamespace(defaultParallelism=2)

    def range(self, _start: int, end: int, *_: int) -> Numbers:
        return Numbers(end)


def handed(checkpoint: Path) -> tuple[str, str]:
    """Hands over a checkpoint as Airflow's `plan` does; returns its address, and the key."""
    checkpoint.mkdir()
    storage = write_checkpoint(LocalStorage(checkpoint), last=9, batches=range(6, 9), partitions=2)
    holder = Holder(f"run.{checkpoint.name}")
    acquire(storage, holder)
    policy = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=2, grace=0)
    order = WorkOrder(checkpoint.name, policy, "run", (Bundle(0, (0, 1), 9, holder),))
    hand_over(storage, order)
    return str(checkpoint), order.key


def by_another_build(place: tuple[str, str]) -> None:
    storage, path = LocalStorage(Path(place[0])), work_path(place[1])
    order = read_document(storage, path)
    del order["every_unit"]
    write_document(storage, path, order)


def test_a_plan_of_another_build_stops_no_other_query(tmp_path: Path) -> None:
    lines: list[str] = []
    other, own = handed(tmp_path / "other"), handed(tmp_path / "own")
    by_another_build(other)
    (report,) = carry_out(Session(), [other, own], attempt=1, tell=lines.append)
    assert (report.failure, report.done) == (None, 2)
    text = "another build of statemaint made the plan of this run; repeat the whole run"
    assert lines[0] == f"{other[0]}: CONFIG: {text} (WorkOrder without every_unit)"


def test_a_single_plan_of_another_build_is_refused(tmp_path: Path) -> None:
    other = handed(tmp_path / "other")
    by_another_build(other)
    with pytest.raises(ConfigError, match="another build of statemaint made the plan"):
        carry_out(Session(), [other], attempt=1, tell=print)


def test_an_outcome_of_another_build_stops_no_other_unit(tmp_path: Path) -> None:
    places = [handed(tmp_path / name) for name in ("other", "own")]
    assert not any(one.failure for one in carry_out(Session(), places, attempt=1, tell=print))
    (outcome,) = (tmp_path / "other").glob("_statemaint/units/**/outcome.json")
    rows = json.loads(outcome.read_bytes())
    note = json.loads(rows[-1]["note"])
    del note["bytes_written"]
    rows[-1]["note"] = json.dumps(note)
    outcome.write_text(json.dumps(rows))
    other, own = carry_out(Session(), places, attempt=2, tell=print)
    assert own.failure is None
    assert other.failure is not None
    assert other.failure.reason == (
        "CONFIG: another build of statemaint maintained this unit before; repeat the whole run "
        "(BundleReport without bytes_written)"
    )
