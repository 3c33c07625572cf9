"""`maintain` of several checkpoints: a folder, names, a tag, or all queries of a file."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import yaml

from statemaint.maintain.record import read_record
from statemaint.storage import LocalStorage
from statemaint.workers import Workers
from tests.support.checkpoints import write_checkpoint
from tests.support.serving import served
from tests.support.terminal import at_terminal
from tests.unit.cli.test_program import run

TIGHT = ("--min-batches-to-retain", "4", "--grace", "0s")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Returns a folder of three checkpoints, of which one is damaged."""
    root = tmp_path / "checkpoints"
    for name in ("orders", "clicks", "visits"):
        (root / name).mkdir(parents=True)
        write_checkpoint(LocalStorage(root / name))
    (root / "clicks/state/0/0/20.delta").unlink()
    return root


@pytest.fixture
def queries(folder: Path) -> str:
    tags = {"orders": ["team:shop"], "clicks": [], "visits": ["team:shop", "small"]}
    entries: dict[str, Any] = {
        f"q_{name}": {"checkpoint": str(folder / name), "tags": found}
        for name, found in tags.items()
    }
    entries["q_visits"]["policy"] = {"min_deltas_for_snapshot": 100}
    entries["q_off"] = {"checkpoint": str(folder / "nowhere"), "enabled": False}
    file = folder.parent / "queries.yaml"
    file.write_text(yaml.safe_dump({"queries": entries}))
    return str(file)


def rows(*args: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Returns the exit code, and the row of each checkpoint by the name of its folder."""
    done = run("maintain", *args, "--json")
    found = json.loads(done.stdout)["checkpoints"]
    return done.returncode, {one["checkpoint"].rpartition("/")[2]: one for one in found}


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("gateway:9091", "not a web address; write it like http://pushgateway:9091"),
        ("http://user:word@gateway:9091", "the address has a secret in it"),
    ],
)
def test_a_wrong_pushgateway_is_refused_before_the_work(
    folder: Path, address: str, why: str
) -> None:
    done = run("maintain", str(folder), "--push", address)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"statemaint: CONFIG: Invalid value for '--push': {why}")
    assert "word@" not in done.stderr
    assert not (folder / "orders/_statemaint").exists()


def test_a_fault_in_one_leaves_the_others_their_rows(queries: str) -> None:
    file = Path(queries)
    entries = yaml.safe_load(file.read_text())
    entries["queries"]["q_zero"] = {"checkpoint": "/zero\0byte"}
    file.write_text(yaml.safe_dump(entries))
    code, found = rows("--queries", queries)
    assert code == 1
    assert found.keys() == {"orders", "clicks", "visits", "zero\0byte"}
    assert found["orders"]["snapshots_written"] == 2
    message = "ValueError: embedded null byte"
    assert found["zero\0byte"]["error"] == {"code": "FAULT", "message": message}


def test_a_folder_is_maintained_with_a_row_each_and_the_exit_code_of_the_worst(
    folder: Path,
) -> None:
    code, found = rows(str(folder), *TIGHT)
    assert code == 3
    assert {name: one["verdict"] for name, one in found.items()} == {
        "orders": "healthy", "visits": "healthy", "clicks": "broken",
    }  # fmt: skip
    sound = found["orders"]
    assert (sound["snapshots_written"], sound["longest_chain_before"]) == (4, 25)
    assert (sound["longest_chain"], sound["files_deleted"]) == (0, 32)
    for name, one in found.items():
        record = read_record(LocalStorage(folder / name))
        assert record
        assert record.last
        assert record.last.run == one["run"]


def test_a_folder_with_a_line_break_in_its_name_is_one_row(folder: Path) -> None:
    (folder / "orders").rename(folder / "a\nb\x1b[31m")
    done = run("scan", str(folder))
    assert len(done.stdout.splitlines()) == 2 + 3
    assert r"a\nb\u001b[31m " in done.stdout


def test_a_dry_run_of_a_folder_writes_nothing(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    code, found = rows(str(folder), "--dry-run", *TIGHT)
    assert (code, found["orders"]["snapshots_written"]) == (3, 0)
    assert found["orders"]["actions"] == 36
    assert sorted(folder.rglob("*")) == before


def test_one_summary_begins_with_the_worst(folder: Path) -> None:
    first, head, *lines = run("maintain", str(folder), *TIGHT).stdout.splitlines()
    assert first.startswith(f"{folder}: 3 checkpoints, 10 snapshots written, 80 files ("), first
    assert ", 1 broken, 2 healthy, by " in first
    assert head.split()[:2] == ["checkpoint", "verdict"]
    assert [line.split()[:2] for line in lines] == [
        ["clicks", "broken"], ["orders", "healthy"], ["visits", "healthy"],
    ]  # fmt: skip
    assert "25 -> 0" in lines[1]
    narrow = at_terminal("maintain", str(folder), "--dry-run", "--quiet", NO_COLOR="1")
    assert max(map(len, narrow.splitlines()[1:])) <= 80


def test_every_enabled_query_of_a_file_has_its_own_policy(queries: str) -> None:
    code, found = rows("--queries", queries)
    assert code == 3
    assert {one["query"] for one in found.values()} == {"q_orders", "q_clicks", "q_visits"}
    assert (found["orders"]["snapshots_written"], found["visits"]["snapshots_written"]) == (2, 0)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--tag", "team:shop"], {"orders", "visits"}),
        (["--tag", "small"], {"visits"}),
        (["--tag", "small", "--tag", "team:shop"], {"orders", "visits"}),
        (["q_orders", "q_visits"], {"orders", "visits"}),
        (["q_clicks", "--tag", "small"], {"clicks", "visits"}),
    ],
)
def test_names_and_tags_choose_queries(queries: str, words: list[str], expected: set[str]) -> None:
    code, found = rows(*words, "--queries", queries)
    assert {*found} == expected
    assert code == (3 if "clicks" in expected else 0)


def test_everything_is_maintained_only_where_the_file_is_given(
    queries: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("maintain").returncode == 2
    monkeypatch.setenv("STATEMAINT_QUERIES", queries)
    refused = run("maintain")
    assert refused.returncode == 2
    assert "give URI, or --queries FILE for all queries of a file" in refused.stderr
    assert rows("--tag", "small")[0] == 0
    unknown = run("maintain", "--tag", "none")
    assert (unknown.returncode, "no enabled query has such a tag" in unknown.stderr) == (2, True)


def test_a_mistake_in_the_file_does_not_hide_the_other_queries(queries: str) -> None:
    file = Path(queries)
    file.write_text(file.read_text() + "  q_wrong: {}\n")
    done = run("maintain", "--queries", queries, "--tag", "team:shop")
    assert done.returncode == 2
    assert "q_wrong" in done.stderr
    assert "2 healthy" in done.stdout


def test_several_checkpoints_share_the_memory() -> None:
    whole = Workers(4, 8 * 1024**3)
    parts = whole.split(4)
    assert parts.number == 1
    assert parts.budget().total * 4 <= whole.budget().total * 1.1


@pytest.fixture
def gateway() -> Iterator[tuple[str, list[str]]]:
    """Yields the address of a Pushgateway, and the paths that are pushed to it."""
    pushed: list[str] = []

    class Gateway(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            pushed.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()

    with served(Gateway) as url:
        yield url, pushed


def test_the_metrics_of_each_are_pushed(folder: Path, gateway: tuple[str, list[str]]) -> None:
    url, pushed = gateway
    done = run("maintain", str(folder), "--push", url)
    assert (done.returncode, done.stderr) == (3, "")
    names = {path.rpartition("query/")[2].partition("/")[0] for path in pushed}
    assert names == {"orders", "clicks", "visits"}
    dry = run("maintain", str(folder), "--push", url, "--dry-run")
    assert (dry.returncode, len(pushed)) == (3, 3)


def test_the_metrics_of_a_relative_address_are_those_of_the_whole_one(
    folder: Path, gateway: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, pushed = gateway
    run("maintain", str(folder / "orders"), "--push", url)
    monkeypatch.chdir(folder / "orders")
    for address in (".", "../orders", "../orders/"):
        run("maintain", address, "--push", url)
    assert len(pushed) == 4
    assert len({*pushed}) == 1
