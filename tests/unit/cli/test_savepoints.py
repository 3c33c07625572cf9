"""`savepoints`: what it lists, what it would delete, what it deletes, and how it ends."""

import json
from pathlib import Path
from typing import Any

import pytest

from statemaint.records.savepoints import SAVEPOINT, Shape
from statemaint.storage import LocalStorage
from tests.support.checkpoints import NOW, write_checkpoint
from tests.support.program import run
from tests.support.savepoints import savepoint_on_disk

DAY = 86400.0


@pytest.fixture
def dest(tmp_path: Path) -> Path:
    """Five daily savepoints of one query, and one of another."""
    folder = tmp_path / "to"
    for day in range(5):
        batch = 100 + day
        savepoint_on_disk(folder / f"clicks/{batch}", batch=batch, ended=NOW - (4 - day) * DAY)
    savepoint_on_disk(folder / "orders/7", batch=7, source="s3://lake/orders")
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def listed(*args: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("savepoints", *args, "--json").stdout)
    return found


def test_a_listing_shows_each_querys_newest_first_and_deletes_nothing(dest: Path) -> None:
    before = tree(dest)
    done = run("savepoints", str(dest))
    assert (done.returncode, done.stderr) == (0, "")
    names = [line.split()[0] for line in done.stdout.splitlines()]
    batches = [f"clicks/{batch}" for batch in (104, 103, 102, 101, 100)]
    assert names == [f"{dest}:", "savepoint", *batches, "orders/7"]
    assert tree(dest) == before


def test_without_delete_it_says_what_would_go(dest: Path) -> None:
    before = tree(dest)
    done = run("savepoints", str(dest), "--keep", "last=2,weekly=1")
    assert done.returncode == 0
    assert "newest last weekly" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("3 savepoints would be deleted (")
    assert tree(dest) == before


def test_delete_deletes_what_was_said(dest: Path) -> None:
    would = listed(str(dest), "--keep", "last=2")
    expiring = [one["address"] for one in would["savepoints"] if one["kept"] == []]
    found = listed(str(dest), "--keep", "last=2", "--delete")
    assert [one["address"] for one in found["savepoints"] if one["deleted"]] == expiring
    assert sorted(one.name for one in (dest / "clicks").iterdir()) == ["103", "104"]
    assert (dest / "orders/7/metadata").exists()
    assert found["keep"] == {"last": 2, "daily": 0, "weekly": 0, "monthly": 0}
    again = run("savepoints", str(dest), "--keep", "last=2", "--delete")
    assert (again.returncode, again.stderr, "deleted" in again.stdout) == (0, "", False)


def test_a_file_that_no_record_names_stays_and_is_reported(dest: Path) -> None:
    notes = dest / "clicks/100/notes.txt"
    notes.write_text("before the deployment")
    done = run("savepoints", str(dest), "--keep", "last=4", "--delete")
    assert done.returncode == 3
    assert "deleted in part" in done.stdout
    [line] = done.stderr.splitlines()
    assert line.startswith(f"{dest}/clicks/100: notes.txt is not named by the savepoint's record")
    assert notes.exists()
    assert listed(str(dest))["savepoints"][4]["state"] == "expiring"


def test_a_checkpoint_of_a_query_that_was_started_is_kept(dest: Path) -> None:
    (dest / "clicks/100/commits/101").write_text("v1")
    found = listed(str(dest), "--keep", "last=1", "--delete")["savepoints"]
    states = {one["batch"]: (one["state"], one["kept"], one["unknown_files"]) for one in found}
    assert states[100] == ("started", ["started"], 1)
    assert (dest / "clicks/100/metadata").exists()
    assert not (dest / "clicks/101").exists()


def test_a_damaged_and_an_unreadable_savepoint_are_kept_and_reported(dest: Path) -> None:
    (dest / "clicks/100/commits/100").unlink()
    (dest / "clicks/101" / SAVEPOINT).write_text("[")
    done = run("savepoints", str(dest), "--keep", "last=1", "--delete")
    assert done.returncode == 3
    no_record = "not a savepoint's record that this version of statemaint can read"
    assert sorted(done.stderr.splitlines()) == [
        f"{dest}/clicks/100: damaged, commits/100 is missing or has another size",
        f"{dest}/clicks/101: unreadable, {SAVEPOINT}: {no_record} (at byte 0)",
    ]
    assert sorted(one.name for one in (dest / "clicks").iterdir()) == ["100", "101", "104"]


def test_a_query_that_began_as_its_savepoint_expired_can_start_again(dest: Path) -> None:
    root = dest / "clicks/105"
    savepoint_on_disk(root, batch=105, whole=False, expired=NOW)
    (root / "commits/106").write_text("v1")
    run("savepoints", str(dest), "--keep", "last=1")
    assert "id" not in (root / "metadata").read_text()  # nothing is written without --delete
    run("savepoints", str(dest), "--keep", "last=1", "--delete")
    assert "id" in (root / "metadata").read_text()
    assert not (dest / "clicks/103").exists()


def test_a_folder_without_savepoints_is_no_error(tmp_path: Path) -> None:
    done = run("savepoints", str(tmp_path / "nowhere"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "no savepoint in this folder" in done.stdout
    assert listed(str(tmp_path))["savepoints"] == []


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((), "Missing argument 'DEST'"),
        (("DEST", "--delete"), "--delete needs --keep"),
        (("DEST", "--keep", "last=0", "--delete"), "write them like last=7,weekly=4"),
        (("DEST", "--keep", "hourly=3"), "not rules of what to keep: 'hourly=3'"),
        (("",), "address is empty"),
        (("s3://key:secret@bucket/to",), "has a secret in it"),
        (("nosuch://bucket/to",), "storage 'nosuch' is not supported"),
    ],
)
def test_bad_usage_is_one_line_and_deletes_nothing(
    dest: Path, args: tuple[str, ...], text: str
) -> None:
    before = tree(dest)
    done = run("savepoints", *(str(dest) if one == "DEST" else one for one in args))
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert text in line
    assert tree(dest) == before


# -- by the name of a query


@pytest.fixture
def queries(tmp_path: Path) -> str:
    root = tmp_path / "ck"
    root.mkdir()
    write_checkpoint(LocalStorage(root))
    (tmp_path / "to").mkdir()
    file = tmp_path / "queries.yaml"
    to = f"{{to: '{tmp_path}/to/{{query}}-{{batch}}', keep: {{last: 1}}}}"
    file.write_text(
        f"queries: {{clicks: {{checkpoint: {root}, savepoint: {to}}}, none: {{checkpoint: /none}}}}"
    )
    return str(file)


def test_a_querys_savepoints_are_made_and_expire_as_the_queries_file_has_it(
    tmp_path: Path, queries: str
) -> None:
    by_name = ("clicks", "--queries", queries)
    for batch in ("23", "24"):
        assert run("savepoint", *by_name, "--batch", batch).returncode == 0
    newest = json.loads(run("savepoint", *by_name, "--json").stdout)
    assert newest["savepoint"] == f"{tmp_path}/to/clicks-24"
    savepoint_on_disk(tmp_path / "to/other-1", batch=1, ended=1.6e9)
    savepoint_on_disk(tmp_path / "to/other-2", batch=2, ended=1.7e9)
    found = listed(*by_name, "--delete")["savepoints"]
    assert [(one["batch"], one["deleted"]) for one in found] == [(24, False), (23, True)]
    left = sorted(one.name for one in (tmp_path / "to").iterdir())
    assert left == ["clicks-24", "other-1", "other-2"]
    found = listed(*by_name, "--keep", "last=5")["savepoints"]
    assert [one["kept"] for one in found] == [["newest", "last"]]


@pytest.mark.parametrize("verb", ["savepoint", "savepoints"])
def test_a_query_without_savepoints_in_the_file_is_one_line(queries: str, verb: str) -> None:
    done = run(verb, "none", "--queries", queries)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert "query 'none' has no `savepoint`; add" in line


def test_dest_is_needed_for_an_address(tmp_path: Path) -> None:
    done = run("savepoint", str(tmp_path))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "DEST is missing" in done.stderr


def test_a_savepoint_in_another_shape_says_what_is_other(tmp_path: Path) -> None:
    savepoint_on_disk(tmp_path / "to/24", shape=Shape(codec="zstd", row_checksums=True))
    document = json.loads(run("savepoints", str(tmp_path / "to"), "--json").stdout)
    changes = ["codec lz4 to zstd", "row checksums off to on"]
    assert document["savepoints"][0]["changes"] == changes
    assert f"whole, {', '.join(changes)}" in run("savepoints", str(tmp_path / "to")).stdout
