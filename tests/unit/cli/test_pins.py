"""`pin` and `pins` as an operator uses them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import run

PINS = "_statemaint/pins"
LEAN = ("--min-deltas-for-snapshot", "5", "--min-batches-to-retain", "2", "--grace", "0s")


def run_json(*args: str) -> Any:
    return json.loads(run(*args, "--json").stdout)


def purge_log(root: Path, before: int) -> None:
    """Removes the entries of batches from the commit log, as Spark does."""
    for batch in range(before):
        (root / f"commits/{batch}").unlink(missing_ok=True)


def test_a_batch_is_pinned_listed_heeded_and_ended(checkpoint: Path) -> None:
    uri = str(checkpoint)
    done = run("pin", uri, "--batch", "18", "--for", "7d", "--note", "before 2.1")
    assert (done.returncode, done.stderr) == (0, "")
    pinned, ends = done.stdout.splitlines()
    assert re.fullmatch(
        r"pinned +batch 18 \(version 19\) until 20\d\d-\d\d-\d\d [\d:]{8} UTC", pinned
    )
    purge_log(checkpoint, 24)
    (pin,) = run_json("pins", uri)["pins"]
    assert ends.split()[-1] == pin["id"]
    assert (pin["batch"], pin["version"]) == (18, 19)
    assert pin["until"] - pin["created"] == 7 * 86400
    assert pin["by"].startswith("before 2.1 (")
    assert run_json("scan", uri)["pins"] == run_json("plan", uri)["pins"] == [pin]
    assert "pinned      batch 18 (version 19) until 20" in run("scan", uri).stdout
    floor = run("plan", uri, *LEAN).stdout.splitlines()[3]
    assert floor.startswith(
        "floor       version 19: it and all above stay loadable (pinned: batch 18"
    )
    assert run("maintain", uri, *LEAN).returncode == 0
    assert (checkpoint / "state/0/0/20.delta").exists()
    assert "what a pinned batch needs is kept: batch 18" in run("plan", uri, *LEAN).stdout
    assert run("pins", uri).stdout.splitlines()[1].split()[:2] == [pin["id"], "18"]
    assert run("pins", uri, "--end", pin["id"]).stdout == "no batch is pinned\n"
    assert run_json("maintain", uri, *LEAN, "--min-deltas-for-snapshot", "1")["files_deleted"]
    assert not (checkpoint / "state/0/0/20.delta").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--batch", "99", "--for", "7d"],
            "batch 99 is not committed, the commit log has batches 16",
        ),
        (
            ["--batch", "3", "--for", "7d"],
            "batch 3 is not committed, the commit log has batches 16",
        ),
        (["--batch", "20", "--for", "91d"], "a pin lasts more than 0s and at most 90d, not 91d"),
        (["--batch", "20", "--for", "0s"], "a pin lasts more than 0s and at most 90d, not 0s"),
        (["--batch", "20", "--for", "soon"], "not a duration: 'soon'"),
        (["--batch", "20"], "Missing option '--for'"),
        (["--for", "7d"], "Missing option '--batch'"),
        (["--batch", "-1", "--for", "7d"], "Invalid value for '--batch'"),
    ],
)
def test_what_cannot_be_pinned_is_refused_in_one_line(
    checkpoint: Path, arguments: list[str], message: str
) -> None:
    done = run("pin", str(checkpoint), *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert message in line
    assert [*checkpoint.glob(f"{PINS}/*")] == []


def test_a_batch_that_does_not_load_is_refused_in_one_line(checkpoint: Path) -> None:
    (checkpoint / "state/0/1/20.delta").unlink()
    done = run("pin", str(checkpoint), "--batch", "22", "--for", "1h")
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert "batch 22 cannot be pinned: state/0/1/20.delta is missing" in line
    assert [*checkpoint.glob(f"{PINS}/*")] == []
    assert run("pin", str(checkpoint), "--batch", "17", "--for", "1h").returncode == 0


def test_no_folder_but_a_checkpoint_gets_a_pin(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    done = run("pin", str(tmp_path), "--batch", "0", "--for", "1h")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert [one.name for one in tmp_path.iterdir()] == ["notes.txt"]


def test_a_link_in_the_place_of_the_pins_is_not_followed(checkpoint: Path, tmp_path: Path) -> None:
    (other := tmp_path / "other").mkdir()
    (checkpoint / "_statemaint").mkdir()
    (checkpoint / PINS).symlink_to(other)
    for verb in (("pin", "--batch", "20", "--for", "1h"), ("pins",), ("maintain", *LEAN)):
        done = run(verb[0], str(checkpoint), *verb[1:])
        assert (done.returncode, done.stdout) == (3, "")
        assert "REFUSED_LINK" in done.stderr
    assert [*other.iterdir()] == []
    assert len([*checkpoint.glob("state/0/*/*")]) == 50


def test_a_pin_that_is_not_there_cannot_be_ended(checkpoint: Path) -> None:
    done = run("pins", str(checkpoint), "--end", "18-0a1b2c3d")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "there is no pin '18-0a1b2c3d'; `statemaint pins` lists them" in done.stderr


def test_a_file_that_is_no_pin_is_listed_reported_and_can_be_ended(checkpoint: Path) -> None:
    (checkpoint / PINS).mkdir(parents=True)
    (checkpoint / PINS / "\x1b[31m.json").write_text(json.dumps({"format": 2}))
    plan = run("plan", str(checkpoint), *LEAN)
    assert plan.returncode == 0
    assert plan.stderr.startswith("UNREADABLE_PIN: _statemaint/pins/")
    assert "delete 0 files" in plan.stdout
    listed = run("pins", str(checkpoint)).stdout
    assert "every" in listed
    assert "\x1b" not in listed + plan.stderr
    assert run("pins", str(checkpoint), "--end", "\x1b[31m").stdout == "no batch is pinned\n"
