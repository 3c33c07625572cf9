"""What a task publishes of itself, and what that may cost it: a Pushgateway that is a fake."""

import logging
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from statemaint.maintain import maintain
from statemaint.metrics import tasks
from statemaint.metrics.options import Named, Targets
from statemaint.metrics.publish import remove_textfiles
from statemaint.metrics.tasks import Task, TaskState, reporting
from tests.support.metrics import ORIGIN, TIGHT, neglected
from tests.unit.metrics.test_push import server

NOW = 1_800_000_000.0
HERE = Named("q", origin="here")
PATH = "/metrics/job/statemaint/origin/here/query/q/task/maintain-3"


def task(
    where: str | Path, name: str = "maintain-3", of: Named = HERE, earlier: Sequence[str] = ()
) -> Task:
    targets = Targets(textfile=where) if isinstance(where, Path) else Targets(where)
    return Task(of, name, targets, retries=2, earlier=earlier)


def clock() -> float:
    return NOW


def written(folder: Path, task: str = "maintain-3", origin: str = "here") -> str:
    return (folder / f"statemaint_q@{task}@{origin}.prom").read_text()


def test_a_task_is_pushed_when_it_begins_and_ends_and_replaces_its_group() -> None:
    with server() as asked, reporting(task(asked.url), clock=clock):
        pass
    assert {one[:2] for one in asked.requests} == {("PUT", PATH)}
    labels = 'origin="here",query="q",state="succeeded",task="maintain-3"'
    assert f"statemaint_task_state{{{labels}}} 1.0" in asked.bodies[-1]
    assert "statemaint_task_retries{" in asked.bodies[-1]
    assert "statemaint_task_ended_timestamp_seconds{" in asked.bodies[-1]


def test_a_task_is_pushed_although_its_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with server() as asked:
        both = [
            Task(HERE, name, Targets(asked.url, textfile=tmp_path / "file"))
            for name in ("maintain-3", "maintain-4")
        ]
        with reporting(*both, clock=clock):
            pass
    assert {path[-1] for _, path, _ in asked.requests} == {"3", "4"}


def test_a_task_that_works_is_pushed_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "EVERY", 0.01)
    with server() as asked, reporting(task(asked.url), clock=clock) as (progress,):
        progress.begin(8, 0)
        for done in range(3):
            progress.done(0)
            wanted = f"}} {done + 1:.1f}"
            while not any(
                wanted in line
                for body in list(asked.bodies)
                for line in body.splitlines()
                if line.startswith("statemaint_task_stores_done")
            ):
                threading.Event().wait(0.01)
    assert 'state="working"' in asked.bodies[-2]
    assert "task_ended" not in asked.bodies[-2]


def test_a_task_says_when_it_last_reported() -> None:
    times = iter((NOW, NOW + 15, NOW + 30, NOW + 45))

    def passing() -> float:
        return next(times)

    with server() as asked:
        with reporting(task(asked.url), clock=passing):
            while not asked.bodies:
                threading.Event().wait(0.01)
        reports = [
            line.rpartition(" ")[2]
            for body in asked.bodies
            for line in body.splitlines()
            if line.startswith("statemaint_task_reported_timestamp_seconds{")
        ]
    assert [float(value) for value in reports] == [NOW + 15, NOW + 45]


def test_figures_that_are_not_known_are_absent(tmp_path: Path) -> None:
    with reporting(task(tmp_path), clock=clock):
        pass
    assert "deleted" not in written(tmp_path)
    assert "stores" not in written(tmp_path)


def test_the_figures_of_maintenance_are_those_of_its_report(tmp_path: Path) -> None:
    with reporting(task(tmp_path), clock=clock) as (progress,):
        report = maintain(neglected(NOW, 8), TIGHT, on_outcome=progress.changes())
    assert progress.seen() == {
        "stores_planned": 8,
        "stores_done": 8,
        "snapshots_written": report.snapshots_written,
        "bytes_written": report.bytes_written,
        "files_deleted": report.files_deleted.total(),
        "bytes_deleted": report.bytes_deleted,
    }
    assert report.snapshots_written > 0


@pytest.mark.parametrize(
    ("error", "state"), [(OSError, "failed"), (KeyboardInterrupt, "failed"), (KeyError, "waiting")]
)
def test_a_task_that_raises_has_ended_too(
    tmp_path: Path, error: type[BaseException], state: str
) -> None:
    endings: dict[type[BaseException], TaskState] = {KeyError: TaskState.WAITING}
    with (
        pytest.raises(error),
        reporting(task(tmp_path), clock=clock, endings=endings),
    ):
        raise error
    assert f'state="{state}"' in written(tmp_path)


def test_a_task_that_says_it_has_failed_has_failed(tmp_path: Path) -> None:
    with reporting(task(tmp_path), clock=clock) as (progress,):
        progress.failed = True
    assert 'state="failed"' in written(tmp_path)


def test_a_pushgateway_that_hangs_neither_stops_nor_fails_a_task(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tasks, "ENDING_SECONDS", 0.05)
    held = threading.Event()
    with server(hold=held) as asked, reporting(task(asked.url), clock=clock):
        pass
    assert "the end of maintain-3 is not published: no answer in time" in caplog.text


def test_lost_pushes_are_logged_once_and_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tasks, "EVERY", 0.01)
    with server(status=503) as asked, reporting(task(asked.url), clock=clock):
        while len(asked.requests) < 5:
            threading.Event().wait(0.01)
    assert caplog.text.count("the progress of maintain-3 is not published: the Pushgat") == 1
    assert "publications of maintain-3 were lost" in caplog.text
    assert all(one.levelno == logging.WARNING for one in caplog.records)


def test_the_first_task_of_a_run_deletes_the_files_of_the_run_before(tmp_path: Path) -> None:
    earlier = [f"maintain-{number}" for number in range(16)]
    above = "maintain-63"  # of a run with a larger max_tasks
    there = Named("q", origin="there")
    for each in (
        task(tmp_path),
        task(tmp_path, of=there),
        task(tmp_path, "verify-0"),
        task(tmp_path, above),
        task(tmp_path, "maintain-plan", earlier=earlier),
    ):
        with reporting(each, clock=clock):
            pass
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "statemaint_q@maintain-3@there.prom",
        "statemaint_q@maintain-plan@here.prom",
        "statemaint_q@verify-0@here.prom",
    ]


def test_an_installation_that_gets_a_name_deletes_the_files_of_its_tasks_before(
    tmp_path: Path,
) -> None:
    with reporting(task(tmp_path, of=Named("q", origin="digest")), clock=clock):
        pass
    named = Named("q", origin="here", former="digest")
    with reporting(task(tmp_path, "maintain-plan", named, ["maintain-0"]), clock=clock):
        pass
    assert [one.name for one in tmp_path.iterdir()] == ["statemaint_q@maintain-plan@here.prom"]


def test_the_files_of_a_missing_querys_tasks_are_deleted(tmp_path: Path) -> None:
    for query in ("gone", "kept"):
        for origin in (ORIGIN, "theirs"):
            with reporting(task(tmp_path, of=Named(query, origin=origin)), clock=clock):
                pass
    assert remove_textfiles(tmp_path, Named("q", origin=ORIGIN), known=frozenset({"kept"})) == [
        "gone"
    ]
    assert sorted(one.name.partition("@")[0] for one in tmp_path.iterdir()) == [
        "statemaint_gone",
        "statemaint_kept",
        "statemaint_kept",
    ]


def test_the_tasks_of_several_queries_report_in_turn_and_one_of_them_fails(tmp_path: Path) -> None:
    queries = [Named(name, origin="here") for name in ("q", "r")]
    with reporting(*(task(tmp_path, of=one) for one in queries), clock=clock) as progress:
        progress[1].add(stores_done=3)
        progress[1].failed = True
    assert 'state="succeeded"' in written(tmp_path)
    assert "stores" not in written(tmp_path)
    other = (tmp_path / "statemaint_r@maintain-3@here.prom").read_text()
    assert 'state="failed"' in other
    assert "statemaint_task_stores_done" in other
