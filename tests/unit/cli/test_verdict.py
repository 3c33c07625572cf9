"""The verdict is one: the same word, exit code and colour from every verb, each with its depth."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from statemaint.maintain.record import read_record
from statemaint.model.verdict import Looked, Verdict
from statemaint.storage import LocalStorage
from tests.support.checkpoints import write_checkpoint
from tests.support.terminal import at_terminal
from tests.unit.cli.test_program import run

LOOKS = {"scan": "names", "plan": "names", "verify": "ends", "doctor": "files"}


def read_json(*args: str) -> tuple[int, dict[str, Any]]:
    done = run(*args, "--json")
    return done.returncode, json.loads(done.stdout)


def sound(_root: Path) -> None:
    """Leaves the checkpoint as it is."""


def gap(root: Path) -> None:
    (root / "state/0/0/20.delta").unlink()


def old_commit(root: Path) -> None:
    (root / "commits/18").write_bytes(b"v1\n{")


def stray(root: Path) -> None:
    (root / "state/0/0/foo.bar").write_bytes(b"?")


def nothing_committed(root: Path) -> None:
    for folder in ("commits", "offsets", "state"):
        shutil.rmtree(root / folder)
        (root / folder).mkdir()


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        (sound, Verdict.HEALTHY),
        (stray, Verdict.HEALTHY),
        (gap, Verdict.BROKEN),
        (old_commit, Verdict.DEGRADED),
    ],
)
def test_every_verb_has_the_same_verdict_and_its_exit_code(
    checkpoint: Path, change: Callable[[Path], None], verdict: Verdict
) -> None:
    change(checkpoint)
    for verb, looked in LOOKS.items():
        code, found = read_json(verb, str(checkpoint))
        assert (found["verdict"], found["looked_at"], code) == (
            verdict.value, looked, verdict.exit_code,
        ), verb  # fmt: skip
    code, found = read_json("maintain", str(checkpoint))
    assert (found["verdict"], found["looked_at"], code) == (verdict, "names", verdict.exit_code)
    assert verdict.value in run("maintain", str(checkpoint)).stdout
    record = read_record(LocalStorage(checkpoint))
    assert record
    assert record.verdicts == {Looked.NAMES: verdict, Looked.ENDS: verdict}


def test_a_checkpoint_without_a_batch_is_empty(checkpoint: Path) -> None:
    nothing_committed(checkpoint)
    code, found = read_json("scan", str(checkpoint))
    assert (found["verdict"], code) == ("empty", 0)


def test_what_only_a_deeper_look_sees_is_in_its_verdict(checkpoint: Path) -> None:
    (checkpoint / "state/0/1/21.delta").write_bytes(b"LZ4Block")
    assert read_json("scan", str(checkpoint))[1]["verdict"] == "healthy"
    assert read_json("verify", str(checkpoint))[1]["verdict"] == "broken"
    # A run has read the bad file for a snapshot, which a restart would read as well.
    code, found = read_json("maintain", str(checkpoint))
    assert (found["verdict"], code) == ("broken", 3)


def test_a_verdict_has_one_colour(checkpoint: Path) -> None:
    gap(checkpoint)
    for verb in LOOKS:
        assert "\x1b[1;31mbroken\x1b[0m" in at_terminal(verb, str(checkpoint)), verb


def test_a_folder_is_sorted_by_the_verdict(tmp_path: Path) -> None:
    changes = {"a": sound, "b": old_commit, "c": gap, "d": nothing_committed, "e": sound}
    for name, change in changes.items():
        (tmp_path / name).mkdir()
        write_checkpoint(LocalStorage(tmp_path / name))
        change(tmp_path / name)
    printed = run("scan", str(tmp_path)).stdout.splitlines()
    rows = [line.split()[:2] for line in printed[2:]]
    assert rows == [
        ["c", "broken"], ["b", "degraded"], ["d", "empty"], ["a", "healthy"], ["e", "healthy"],
    ]  # fmt: skip
    assert "1 broken" in printed[0]
    assert printed[0].endswith("by the logs, and the names and sizes of files")
