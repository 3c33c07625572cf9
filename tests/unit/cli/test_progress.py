"""Progress: of every verb that may take minutes, with a rate and the time that is left."""

import re
from pathlib import Path
from threading import Thread

import pytest

from statemaint.audit import verify
from statemaint.audit.row_rules import check_units
from statemaint.cli import progress
from statemaint.cli.output import Settings, in_force
from statemaint.cli.progress import Meter
from statemaint.metrics.tasks import Progress
from statemaint.progress import watched
from statemaint.storage import LocalStorage
from tests.support.checkpoints import write_checkpoint
from tests.support.program import run
from tests.support.terminal import at_terminal
from tests.unit.cli.test_show import AGGREGATION, unpacked

RATE = r"(\d+(\.\d)? ([kM]?B|bytes)|[\d,]+\.\d \w+) a second"


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def test_a_line_has_the_rate_and_the_time_that_is_left() -> None:
    clock = Clock()
    meter = Meter("verifying", clock=clock)
    meter.begin(800, 0)
    clock.time += 12
    for _ in range(120):
        meter.done(0)
    assert meter.line() == (
        "verifying: 120 of 800 stores in 12 s, 10.0 stores a second, 1 min 8 s left"
    )


def test_bytes_tell_more_than_stores() -> None:
    clock = Clock()
    meter = Meter("reading", clock=clock)
    meter.begin(2, 4_000_000)
    clock.time += 2
    meter.done(3_000_000)
    assert meter.line() == "reading: 1 of 2 stores in 2.0 s, 1.5 MB a second, 0.7 s left"


def test_work_in_several_passes_counts_its_stores_once() -> None:
    clock = Clock()
    meter = Meter("planning", clock=clock)
    for _ in range(2):
        meter.begin(4, 0)
        clock.time += 2
        for _ in range(4):
            meter.done(0)
    assert meter.line().startswith("planning: 4 of 4 stores in 2.0 s, 2.0 stores a second")


def test_a_line_counts_what_the_work_is_of(tmp_path: Path) -> None:
    clock = Clock()
    meter = Meter("verifying", clock=clock)
    write_checkpoint(LocalStorage(tmp_path), partitions=3)
    lines = []
    with watched(meter):
        checkpoint = verify(LocalStorage(tmp_path), workers=1).checkpoint
        lines.append(meter.line())
        check_units(LocalStorage(tmp_path), checkpoint)
        lines.append(meter.line())
    assert [line.split(" in ")[0] for line in lines] == [
        "verifying: 3 of 3 stores",
        "verifying: 3 of 3 partitions",
    ]


def test_a_task_that_looks_deep_counts_each_store_once(tmp_path: Path) -> None:
    write_checkpoint(LocalStorage(tmp_path), partitions=3)
    figures = Progress()
    with watched(figures):
        verify(LocalStorage(tmp_path), deep=True, workers=1)
    assert figures.seen() == {"stores_planned": 3, "stores_done": 3}


def test_elsewhere_than_on_a_terminal_a_line_comes_every_half_minute(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    meter = Meter("verifying", clock=clock)
    meter.begin(100, 0)
    for _ in range(100):
        clock.time += 1
        meter.done(0)
    lines = capsys.readouterr().err.splitlines()
    assert [re.findall(r"\d+ of 100", line) for line in lines] == [
        ["30 of 100"],
        ["60 of 100"],
        ["90 of 100"],
    ]


def test_a_thread_is_as_quiet_as_the_call(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with in_force(Settings(quiet=True)):
        meter = Meter("verifying", clock=clock)
        meter.begin(1, 0)
        clock.time += 60
        thread = Thread(target=meter.done, args=(0,))
        thread.start()
        thread.join()
    assert capsys.readouterr().err == ""


def test_what_takes_less_than_a_second_has_none(tmp_path: Path) -> None:
    write_checkpoint(LocalStorage(tmp_path))
    assert "\r" not in at_terminal("verify", str(tmp_path))
    assert run("verify", str(tmp_path)).stderr == ""


VERBS = [
    "verify", "verify --deep", "doctor", "digest", "show", "diff", "stats", "rollback --to-batch 9",
    "maintain --min-deltas-for-snapshot 5", "savepoint DEST --batch 10",
]  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_that_reads_state_has_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setattr(progress, "_SHOWN_AFTER", 0.0)
    monkeypatch.setattr(progress, "_BETWEEN_LINES", 0.0)
    root = unpacked(AGGREGATION, tmp_path)
    name, *flags = verb.replace("DEST", f"{tmp_path}-savepoint").split()
    lines = run(name, str(root), *flags).stderr.splitlines()
    assert re.fullmatch(rf"\w+: 1 of \d \w+ in 0\.\d s, {RATE}(, [\d.]+ s left)?", lines[0])
    assert run(name, str(root), *flags, "--quiet").stderr == ""


def test_a_folder_of_checkpoints_counts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_SHOWN_AFTER", 0.0)
    monkeypatch.setattr(progress, "_BETWEEN_LINES", 0.0)
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        write_checkpoint(LocalStorage(tmp_path / name), partitions=4)
    for verb in (["scan"], ["verify"], ["doctor", "--workers", "1"]):
        lines = run(verb[0], str(tmp_path), *verb[1:]).stderr.splitlines()
        assert [line.partition(" in ")[0] for line in lines] == [
            f"reading: {number} of 3 checkpoints" for number in (1, 2, 3)
        ]
