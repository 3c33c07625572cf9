"""`--publish`: what each verb that writes leaves where the queries file says."""

from pathlib import Path

import pytest
import yaml

from statemaint.storage import LocalStorage
from tests.support.checkpoints import write_checkpoint
from tests.support.metrics import series_of
from tests.unit.cli.test_program import run

TORN = "state/0/0/20.snapshot"


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    (tmp_path / "ck").mkdir()
    storage = write_checkpoint(LocalStorage(tmp_path / "ck"))
    storage.write(TORN, [b"torn"])
    file = tmp_path / "queries.yaml"
    entries = {"orders": {"checkpoint": str(tmp_path / "ck")}}
    file.write_text(yaml.safe_dump({"textfile": str(tmp_path / "text"), "queries": entries}))
    return file


def published(queries: Path) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Returns the series of the only file, which is deleted."""
    (file,) = (queries.parent / "text").iterdir()
    found = series_of(file.read_text(), "orders")
    file.unlink()
    return found


def test_a_verification_a_repair_a_rollback_and_its_undo_publish_as_maintenance_does(
    queries: Path,
) -> None:
    flags = ("--queries", str(queries), "--publish")
    assert run("verify", "orders", *flags).returncode == 3
    assert published(queries)["last_verify_failed", ()] == 1
    assert run("repair", "orders", *flags).returncode == 0
    assert not [*(queries.parent / "text").iterdir()]
    assert run("repair", "orders", "--apply", *flags).returncode == 0
    assert published(queries)["last_run_files_deleted", (("reason", "bad_snapshot"),)] == 1
    done = run("rollback", "orders", "--to-batch", "22", "--apply", *flags)
    assert done.returncode == 0
    assert published(queries)["runs_total", (("result", "succeeded"),)] == 2
    assert run("undo", "orders", done.stdout.split()[-1], *flags).returncode == 0
    assert published(queries)["runs_total", (("result", "succeeded"),)] == 3


def test_a_savepoint_is_published(queries: Path) -> None:
    (queries.parent / "ck" / TORN).unlink()
    flags = ("--queries", str(queries), "--publish")
    assert run("savepoint", "orders", str(queries.parent / "to"), *flags).returncode == 0
    assert published(queries)["last_savepoint_bytes", ()] > 0
    assert run("savepoint", "orders", "/to", "--dry-run", *flags).returncode == 0
    assert not [*(queries.parent / "text").iterdir()]


@pytest.mark.parametrize(
    "verb", ["verify", "repair", "rollback --to-batch 22", "undo x", "savepoint /to"]
)
def test_an_address_is_refused_before_anything_is_done(queries: Path, verb: str) -> None:
    name, *rest = verb.split()
    rest += ["--apply"] if name.startswith("r") else []
    done = run(name, str(queries.parent / "ck"), *rest, "--publish")
    assert done.returncode == 2
    assert "--publish needs a query's name in the queries file, not an address" in done.stderr
    assert not (queries.parent / "ck/_statemaint").exists()
