"""`bootstrap` as a person runs it: rows of `show --format parquet`, edited and put back."""

import json
import re
import shlex
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from statemaint.audit import digest_stores
from statemaint.cli.show import _groups
from statemaint.codec.rows.unsafe_write import encode_row
from statemaint.execute.lease import acquire
from statemaint.records.claims import Holder
from statemaint.state.arrow import read_table
from statemaint.storage import LocalStorage
from tests.support.checkpoints import delta_bytes, put_files
from tests.support.paths import ROOT
from tests.support.program import run
from tests.unit.cli.test_extras import without
from tests.unit.cli.test_savepoint import files
from tests.unit.cli.test_show import AGGREGATION, unpacked
from tests.unit.provider.test_bootstrap import VALUE, checkpoint, schema_file

INDEXED = ("--store", "left-keyWithIndexToValue")
KINDS: list[tuple[str, tuple[str, ...]]] = [
    (AGGREGATION, ()),
    ("dedup", ()),
    ("session-window", ()),
    ("pandas-state-timeout", ()),
    ("join2", INDEXED),
    ("rocks-aggregation-ids", ()),
    ("rocks-join2-ids", INDEXED),
    ("rocks-join3-ids", ("--family", "right-keyWithIndexToValue")),
    ("rocks-join4", ("--family", "left-keyWithTsToValues")),
    ("rocks-timed", ("--family", "total")),
    ("rocks-timed", ("--family", "amounts")),
    ("rocks-timed", ("--family", "hours")),
    ("rocks-timed", ("--family", "$eventTimers_keyToTimestamp")),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return unpacked(AGGREGATION, tmp_path / "ck")


def exported(root: Path, *flags: str) -> tuple[Path, list[str]]:
    """Writes rows to a Parquet file; returns it, and the words of the command that was printed."""
    file = root.parent / f"{root.name}.parquet"
    done = run("show", str(root), "--format", "parquet", "--output", str(file), *flags)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    rows_line, back = done.stderr.splitlines()
    assert re.fullmatch(rf"{file}: [0-9,]+ rows? of version \d+ \(batch \d+\)", rows_line)
    return file, shlex.split(back.removeprefix("edited, it is put back by statemaint "))


def test_a_query_starts_from_an_address_that_is_the_same_everywhere(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, _ = exported(root)
    monkeypatch.chdir(root.parent)
    done = run("bootstrap", str(root), str(file), "--to", "dest")
    assert f'start     .option("checkpointLocation", "{root.parent}/dest")\n' in done.stdout


def rows(root: Path, *flags: str) -> Any:
    return json.loads(run("show", str(root), "--json", *flags).stdout)["rows"]


@pytest.mark.parametrize(("kind", "flags"), KINDS)
def test_rows_that_show_has_written_are_put_back_by_the_command_that_it_prints(
    tmp_path: Path, kind: str, flags: tuple[str, ...]
) -> None:
    root = unpacked(kind, tmp_path / kind)
    before = digest_stores(LocalStorage(root))
    file, words = exported(root, *flags)
    table = pq.read_table(file)
    assert table.num_rows
    where: dict[str, Any] = {flag[2:]: name for flag, name in pairwise(flags)}
    assert table == read_table(str(root), **where)
    done = run(*words)
    assert done.returncode == 0, done.stderr
    assert digest_stores(LocalStorage(root)) == (before[0] + 1, before[1])
    again, of_batch = pq.read_table(exported(root, *flags)[0]), ["batchId"]
    assert again.drop_columns(of_batch) == table.drop_columns(of_batch)
    assert run("verify", str(root), "--deep").returncode == 0


def edited(file: Path, change: Any) -> None:
    """Replaces the value of the first row."""
    table = pq.read_table(file)
    (first, *others) = table.to_pylist()
    first["value"] = change(first["value"])
    pq.write_table(pa.Table.from_pylist([first, *others], table.schema), file)


def test_an_edited_value_is_stored_and_a_rollback_takes_it_back(root: Path) -> None:
    before = digest_stores(LocalStorage(root))
    file, words = exported(root)
    edited(file, lambda value: {**value, "count": 99})
    done = run(*words)
    assert done.returncode == 0
    batch = before[0]
    undo = f"undo      statemaint rollback {root} --to-batch {batch - 1}"
    assert undo in done.stdout.splitlines()
    assert [row["value"]["count"] for row in rows(root)].count(99) == 1
    counts = run("diff", str(root), "--json").stdout
    assert json.loads(counts)["total"]["changed"] == 1
    assert run(*shlex.split(undo)[2:], "--apply").returncode == 0
    assert digest_stores(LocalStorage(root)) == before
    # The offsets of the batch are in the trash too, so that other rows can be put in its place.
    assert not (root / f"offsets/{batch}").exists()
    assert run(*words).returncode == 0


def test_the_log_of_the_sink_gets_the_batch_and_the_way_back_names_its_entry(
    root: Path, tmp_path: Path
) -> None:
    batch = digest_stores(LocalStorage(root))[0]
    log = tmp_path / "output/_spark_metadata"
    log.mkdir(parents=True)
    (log / str(batch - 2)).write_bytes(b"v1")
    words = [*exported(root)[1], "--sink-log", str(log.parent)]
    refused = run(*words)
    assert refused.returncode == 2
    assert f"where batch {batch} follows batch {batch - 1}; give the folder" in refused.stderr
    assert not (root / f"offsets/{batch}").exists()
    (log / str(batch - 1)).write_bytes(b"v1")
    done = run(*words)
    assert done.returncode == 0, done.stderr
    (added,) = {path.name for path in log.glob("[0-9]*")} - {str(batch - 2), str(batch - 1)}
    assert added.partition(".")[0] == str(batch)
    assert f"then delete {log}/{batch} or {log}/{batch}.compact" in done.stdout


def test_a_null_value_removes_a_key_and_keys_that_the_file_lacks_stay(root: Path) -> None:
    before = rows(root)
    file, words = exported(root, "--limit", "1")
    assert pq.read_table(file).num_rows == 1
    edited(file, lambda _: None)
    assert run(*words).returncode == 0
    assert len(rows(root)) == len(before) - 1


def test_a_dry_run_shows_what_would_be_written_and_writes_nothing(root: Path) -> None:
    file, words = exported(root)
    before = files(root)
    done = run(*words, "--dry-run")
    assert (done.returncode, files(root)) == (0, before)
    first, second, third, head, *lines = done.stdout.splitlines()
    count = pq.read_table(file).num_rows
    assert first == f"rows      {count} rows in {len(lines)} partitions"
    assert second == f"batch     13 (version 14) of {root}"
    assert third == "files     one for each of 2 stores, and an entry of both logs"
    assert head.split() == ["partition", "rows"]
    assert sum(int(line.split()[1]) for line in lines) == count
    assert done.stderr == "nothing was written; leave --dry-run away to write it\n"


def test_rows_of_an_older_version_follow_their_batch_in_another_folder(root: Path) -> None:
    before = files(root)
    file, words = exported(root, "--version", "10")
    assert words[-4:] == ["--at", "10", "--to", "DEST"]
    refused = run(*words[:-2])
    assert (refused.returncode, refused.stdout, len(refused.stderr.splitlines())) == (6, "", 1)
    assert "rows at batch 10 are to follow 9; show and edit the rows again" in refused.stderr
    edited(file, lambda value: {**value, "count": 99})
    dest = root.parent / "dest"
    done = run(*words[:-1], str(dest), "--json")
    document = json.loads(done.stdout)
    assert (document["savepoint"], document["batch"], document["version"]) == (str(dest), 10, 11)
    assert {path for path in files(root) - before if "_statemaint" not in path} == set()
    assert [row["value"]["count"] for row in rows(dest)].count(99) == 1
    assert len(rows(dest)) == len(rows(root, "--version", "10"))
    assert run("verify", str(dest), "--deep").returncode == 0
    again = run(*words[:-1], str(dest))
    assert again.returncode == 2
    assert "it has the savepoint of batch 9 already; give a new folder" in again.stderr


def test_a_query_that_runs_is_refused_unless_the_rows_go_to_another_folder(root: Path) -> None:
    _, words = exported(root)
    newest = int(words[-1]) - 1
    shutil.copy(root / f"offsets/{newest}", root / f"offsets/{newest + 1}")
    refused = run(*words)
    assert refused.returncode == 6
    assert refused.stderr.startswith("statemaint: LIVE_CHECKPOINT: ")
    assert run(*words, "--to", str(root.parent / "dest")).returncode == 0


def test_the_run_is_listed_with_the_way_back(root: Path) -> None:
    _, words = exported(root)
    done = json.loads(run(*words, "--json").stdout)
    (listed,) = json.loads(run("runs", str(root), "--json").stdout)["runs"]
    assert (listed["run"], listed["batch"]) == (done["run"], done["batch"])
    assert "rollback" in run("runs", str(root)).stdout
    shown = run("runs", str(root), done["run"]).stdout
    assert f"undo     statemaint rollback {root} --to-batch {done['batch'] - 1}" in shown


def test_a_held_lease_is_exit_code_4(root: Path) -> None:
    _, words = exported(root)
    acquire(LocalStorage(root), Holder("nightly"), seconds=86400.0)
    assert run(*words).returncode == 4
    assert run(*words, "--dry-run").returncode == 0


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["a", "b"], "several files need their names: NAME=FILE for each"),
        (["x=a", "x=b"], "each name takes one file"),
        (["missing.parquet"], "missing.parquet: no table of rows"),
        (["left=FILE"], "takes rows without a name"),
        (["FILE", "--operator", "7"], "operator 7 is not there"),
        (["FILE", "--at", "0"], "--at"),
        (["OTHER"], "rows.parquet: column 'count' is missing"),
    ],
)
def test_what_cannot_be_put_back_is_one_line(root: Path, args: list[str], text: str) -> None:
    file, _ = exported(root)
    other = root.parent / "rows.parquet"
    pq.write_table(pa.table({"n": [1]}), other)
    before = files(root)
    given = [one.replace("FILE", str(file)).replace("OTHER", str(other)) for one in args]
    done = run("bootstrap", str(root), *given)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert text in line
    assert {path for path in files(root) if "_statemaint" not in path} <= before


def test_a_row_of_a_join_is_corrected_by_its_index_and_only_where_there_is_one(
    tmp_path: Path,
) -> None:
    name = INDEXED[1]
    root = unpacked("join2", tmp_path / "join2")
    file, words = exported(root, *INDEXED)
    table = pq.read_table(file)
    (first, *_) = table.to_pylist()
    absent = {**first, "key": {**first["key"], "index": 10**6}}
    for rows_, text in [
        ([absent], "has no row here to correct; left adds rows"),
        ([{**first, "value": None}], "cannot be removed by itself; left adds rows, and removes"),
    ]:
        pq.write_table(pa.Table.from_pylist(rows_, table.schema), file)
        done = run(*words)
        assert (done.returncode, text in done.stderr) == (2, True), done.stderr
    both = run("bootstrap", str(root), f"{name}={file}", f"left={file}")
    assert f"takes left or {name}, not both" in both.stderr


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--format", "parquet"], "--format parquet needs --output FILE"),
        (["--format", "parquet", "--csv"], "--csv and --format parquet are mutually exclusive"),
        (["--format", "csv", "--json"], "--format csv and --json are mutually exclusive"),
        (["--csv", "--json"], "--csv and --json are mutually exclusive"),
    ],
)
def test_flags_of_show_that_disagree_are_refused(root: Path, flags: list[str], text: str) -> None:
    done = run("show", str(root), *flags)
    assert done.returncode == 2
    assert text in done.stderr


def test_the_form_csv_is_that_of_the_flag(root: Path) -> None:
    assert (
        run("show", str(root), "--format", "csv").stdout == run("show", str(root), "--csv").stdout
    )


def test_a_file_has_the_rows_of_one_kind_and_of_one_key(tmp_path: Path) -> None:
    root, file = unpacked("rocks-timed", tmp_path / "timed"), tmp_path / "rows.parquet"
    flags = ("--format", "parquet", "--output", str(file))
    done = run("show", str(root), *flags)
    assert (done.returncode, file.exists()) == (2, False)
    assert "choose a store or family (--store, --family) of default / $eventT" in done.stderr
    assert run("show", str(root), *flags, "--family", "total", "--key", "k3").returncode == 0
    assert pq.read_table(file)["key"].to_pylist() == [{"key": "k3"}]
    # What Spark derives from other rows is not put back by itself.
    done = run("show", str(root), *flags, "--family", "$rowCounter_amounts")
    assert (done.returncode, len(done.stderr.splitlines())) == (0, 1)


@pytest.mark.parametrize(
    "args", [["show", "--format", "parquet", "--output", "x.parquet"], ["bootstrap", "x.parquet"]]
)
def test_a_missing_pyarrow_is_one_line(root: Path, tmp_path: Path, args: list[str]) -> None:
    verb, *rest = args
    rest = [one.replace("x.parquet", str(tmp_path / "x.parquet")) for one in rest]
    done = without("pyarrow", verb, str(root), *rest)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.endswith("pyarrow is not installed; `pip install 'statemaint[arrow]'`")
    assert not (tmp_path / "x.parquet").exists()


# -- the recipe of the documents


def test_the_recipe_corrects_and_removes_keys_and_takes_them_back(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root.parent)
    text = (ROOT / "docs/provider.md").read_text().partition("## Correcting keys")[2]
    text = text.partition("### Which rows")[0].replace(
        "/data/checkpoints/hourly_revenue", str(root)
    )
    text = text.replace("25", "13").replace("24", "12").replace("DEST", str(root.parent / "dest"))
    before, states = run("digest", str(root)).stdout, list[list[Any]]()
    for kind, block in re.findall(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if kind == "python":
            exec(block, {})  # noqa: S102
            continue
        for command in re.findall(r"^\$ statemaint (.*)$", block, re.MULTILINE):
            done = run(*shlex.split(command))
            assert done.returncode == 0, done.stderr
            if command.startswith("bootstrap") and "--dry-run" not in command:
                states.append(rows(root.parent / "dest" if "--to" in command else root))
            if command.startswith("digest"):
                assert done.stdout == before
    here, there = states
    assert here == there
    old = {json.dumps(row["key"]): row["value"] for row in rows(root)}
    new = {json.dumps(row["key"]): row["value"] for row in here}
    assert old.keys() - new.keys() == {key for key in old if '"key": "k4"' in key} != set()
    changed = {key for key in new if new[key] != old[key]}
    assert changed == {key for key in old if '"key": "k3"' in key} != set()
    assert all(new[key] == {**old[key], "sum": old[key]["sum"] * 100} for key in changed)


def test_a_row_group_ends_with_the_batch_that_exceeds_its_size() -> None:
    batch = pa.record_batch({"value": [b"x" * (6 * 1024 * 1024)]})
    assert [len(group) for group in _groups(iter([batch] * 7))] == [3, 3, 1]


def test_a_file_for_a_key_that_no_partition_can_have_has_no_rows(tmp_path: Path) -> None:
    numbered = checkpoint(batches=1)
    key = {"type": "struct", "fields": [{"name": "k", "type": "long", "nullable": True}]}
    numbered["state/0/0/_metadata/schema"] = schema_file(key, VALUE)
    numbered |= {f"state/0/{part}/1.delta": delta_bytes([]) for part in range(2)}
    file, _ = exported(put_files(tmp_path / "ck", numbered), "--key", "abc")
    assert pq.read_table(file).num_rows == 0
    assert pq.read_schema(file).field("key").type == pa.struct([("k", pa.int64())])


def test_rows_that_parquet_cannot_store_leave_no_file_and_name_other_forms(root: Path) -> None:
    """The key of a total has no columns, and Parquet no struct without any."""
    bare = schema_file({"type": "struct", "fields": []}, VALUE)
    total = checkpoint(batches=1)
    total |= {"state/0/0/_metadata/schema": bare}
    total |= {f"state/0/{part}/1.delta": delta_bytes([]) for part in range(2)}
    key, value = encode_row((), {"type": "struct", "fields": []}), encode_row((7,), VALUE)
    total["state/0/0/1.delta"] = delta_bytes([(key, value)])
    place, file = put_files(root.parent / "total", total), root.parent / "rows.parquet"
    done = run("show", str(place), "--format", "parquet", "--output", str(file))
    assert (done.returncode, file.exists()) == (2, False)
    (line,) = done.stderr.splitlines()
    assert "Parquet cannot store these rows" in line
    assert line.endswith("print them by --format csv or --json")
    assert run("show", str(place), "--format", "csv").stdout.endswith(",7\n")
