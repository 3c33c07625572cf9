"""`policy`: settings tried on the batches of a checkpoint, and what is said of a restart."""

import json
import os
import re
from pathlib import Path

import pytest

from statemaint.storage import LocalStorage
from tests.support.checkpoints import write_checkpoint
from tests.support.program import run


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    (tmp_path / "ck").mkdir()
    write_checkpoint(LocalStorage(tmp_path / "ck"), last=25)
    for entry in (tmp_path / "ck" / "commits").glob("[0-9]*"):
        at = 1_700_000_000 + 3600 * int(entry.name)
        os.utime(entry, (at, at))
    return str(tmp_path / "ck")


def test_policy_tries_lengths_and_limits_and_recommends_one(checkpoint: str) -> None:
    done = run("policy", checkpoint, "--restart-within", "1h", "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    policies = [trial["policy"] for trial in found["trials"]]
    assert policies[0]["restart_within"] == 3600
    lengths = [it["min_deltas_for_snapshot"] for it in policies if it["restart_within"] is None]
    assert lengths == [5, 10, 30, 100, 300]
    assert found["batches_listed"] == 25
    assert found["recommended"]["bytes_written"] == 0, "an hour is never reached"
    assert found["trials"][1]["bytes_written"] > found["trials"][2]["bytes_written"] > 0


def test_policy_recommends_nothing_where_no_setting_keeps_the_limit(checkpoint: str) -> None:
    done = run("policy", checkpoint, "--restart-within", "1s")
    assert done.stdout.splitlines()[-1] == "recommended  none: no setting keeps the limit"


def test_policy_ends_however_fast_batches_are(checkpoint: str) -> None:
    for entry in (Path(checkpoint) / "commits").glob("[0-9]*"):
        at = 1_700_000_000 + int(entry.name) / 1000
        os.utime(entry, (at, at))
    found = json.loads(run("policy", checkpoint, "--json").stdout)
    assert found["batch_interval"] < 0.01
    assert found["trials"][0]["snapshots_written"] == 2 * 720


@pytest.mark.parametrize("price", ["nan", "inf", "-1", "1e3", "1."])
def test_a_price_that_is_no_decimal_number_is_refused(checkpoint: str, price: str) -> None:
    done = run("policy", checkpoint, "--request-price", price)
    assert done.returncode == 2
    assert f"'{price}' is not a valid price; write it like 5 or 0.4" in done.stderr


def test_requests_cost_their_price_of_a_million(checkpoint: str) -> None:
    found = json.loads(run("policy", checkpoint, "--request-price", "1000.5", "--json").stdout)
    trial = found["trials"][0]
    assert trial["requests"] > 1000
    assert trial["cost"] == round(trial["requests"] * 1000.5 / 1_000_000, 2)


def test_policy_writes_nothing(checkpoint: str) -> None:
    before = sorted(path.name for path in Path(checkpoint).rglob("*"))
    run("policy", checkpoint)
    assert sorted(path.name for path in Path(checkpoint).rglob("*")) == before


def test_maintain_ends_with_the_restart_before_and_after(checkpoint: str) -> None:
    before, after = run("maintain", checkpoint, "--grace", "0s").stdout.splitlines()[-2:]
    pattern = r"(before|after ) .*; a restart reads .* files \(.*\), in ([\d.]+) to ([\d.]+) s"
    found = [re.fullmatch(pattern, line) for line in (before, after)]
    assert all(found), (before, after)
    highs = [float(match[3]) for match in found if match]
    assert highs[1] <= highs[0]
