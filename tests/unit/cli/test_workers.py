"""`--workers`: each verb prints the same with any number of them."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from statemaint.cli.main import program
from statemaint.storage import LocalStorage
from tests.checkpoints.archive import contents
from tests.support.checkpoints import put_files

VERBS = [
    ("show",), ("show", "--limit", "3"), ("show", "--csv"),
    ("diff",), ("diff", "--from", "0", "--limit", "2"),
    ("stats",), ("repair",), ("rollback", "--to-batch", "11"), ("verify", "--deep"), ("digest",),
]  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return put_files(tmp_path, contents("4.3.0")["aggregation2"])


def run(root: Path, verb: str, *args: str) -> Result:
    return CliRunner().invoke(program, [verb, str(root), *args])


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["table", "json"])
def test_any_number_of_workers_prints_the_same(
    root: Path, verb: tuple[str, ...], form: tuple[str, ...]
) -> None:
    if "--csv" in verb and form:
        return
    alone = run(root, *verb, *form, "--workers", "1")
    together = run(root, *verb, *form, "--workers", "4")
    assert alone.exit_code == together.exit_code == 0, alone.output
    assert together.output == alone.output == run(root, *verb, *form).output
    assert alone.output


def test_no_worker_is_a_usage_error(root: Path) -> None:
    for verb in ("show", "diff", "stats", "repair"):
        assert run(root, verb, "--workers", "0").exit_code == 2


def test_apply_takes_it_for_a_rollback_too(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shown = run(root, "rollback", "--to-batch", "11", "--json")
    plan = tmp_path_factory.mktemp("plan") / "plan.json"
    plan.write_text(shown.output)
    done = CliRunner().invoke(program, ["apply", str(plan), "--workers", "3", "--json"])
    assert done.exit_code == 0, done.output
    assert not (root / "commits" / "12").exists()
    assert LocalStorage(root).read("commits/11")
