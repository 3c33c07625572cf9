"""The program as a person runs it: output, exit codes, one line for whatever is wrong."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import click
import pytest

from statemaint.cli.main import VERBS as NAMES
from statemaint.cli.main import program
from statemaint.execute.lease import acquire
from statemaint.records.claims import Holder
from statemaint.storage import LocalStorage
from tests.support.checkpoints import offsets_bytes
from tests.support.program import run as run_here

VERBS = [
    "completion", "scan", "plan", "apply", "maintain", "undo", "runs", "verify", "doctor",
    "repair", "rollback", "digest", "show", "diff", "stats", "queries", "exporter",
    "savepoint", "savepoints", "pin", "pins", "bootstrap", "policy",
]  # fmt: skip
TIGHT = ["--min-deltas-for-snapshot", "5", "--min-batches-to-retain", "8", "--grace", "0s"]


# Root may read and write everything: it has to lay that right down to see what others see.
AS_OWNER = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.getuid() == 0 else []


def run(*args: str, prefix: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    if not prefix:
        return run_here(*args)
    return subprocess.run(
        [*prefix, sys.executable, "-m", "statemaint", *args],
        capture_output=True,
        check=False,
        text=True,
        stdin=subprocess.DEVNULL,
    )


def run_json(*args: str) -> dict[str, object]:
    done = run(*args, "--json")
    found: dict[str, object] = json.loads(done.stdout)
    return found


RECORD, TREND = "_statemaint/metrics.json", "_statemaint/trend.json"


def tree(root: Path) -> str:
    """Returns a digest of every path and byte of a checkpoint but the record of its runs."""
    found = sha256()
    for file in sorted(set(root.rglob("*")) - {root / "_statemaint", root / RECORD, root / TREND}):
        found.update(str(file.relative_to(root)).encode())
        found.update(file.read_bytes() if file.is_file() else b"")
    return found.hexdigest()


def test_maintain_does_what_plan_listed(checkpoint: Path) -> None:
    before = tree(checkpoint)
    planned = run_json("plan", str(checkpoint), *TIGHT)
    assert tree(checkpoint) == before
    done = run("maintain", str(checkpoint), *TIGHT, "--json")
    assert done.returncode == 0
    ledger = [
        json.loads(line)
        for file in sorted((checkpoint / "_statemaint/ledger").rglob("*.jsonl"))
        for line in file.read_text().splitlines()
    ]
    fields = ("action", "operator", "partition", "store", "version", "path", "reason")
    assert [{name: line[name] for name in fields} for line in ledger] == planned["actions"]
    report = json.loads(done.stdout)
    assert (report["snapshots_written"], report["files_deleted"]) == (4, 32)


def test_a_dry_run_is_the_plan_and_writes_nothing(checkpoint: Path) -> None:
    before = tree(checkpoint)
    done = run("maintain", str(checkpoint), *TIGHT, "--dry-run")
    assert "dry run, nothing was done" in done.stdout
    assert "25 (chain too long), 17 (rebase)" in done.stdout
    assert tree(checkpoint) == before


def test_scan_json_has_the_contracts_fields(checkpoint: Path) -> None:
    found = run_json("scan", str(checkpoint))
    stores = found.pop("stores")
    assert found == {
        "format": 1,
        "checkpoint": str(checkpoint),
        "verdict": "healthy",
        "looked_at": "names",
        "query_id": "11111111-2222-3333-4444-555555555555",
        "last_committed_batch": 24,
        "target_version": 25,
        "floor": 17,
        "provider": "HDFSBackedStateStoreProvider",
        "codec": "lz4",
        "pins": [],
        "findings": [],
    }
    assert isinstance(stores, list)
    size = sum(file.stat().st_size for file in (checkpoint / "state/0/0").iterdir())
    assert stores[0] == {
        "operator": 0, "partition": 0, "store": "default", "versions": [1, 25], "snapshots": [],
        "chain_length": 25, "files": 25, "bytes": size, "findings": [],
    }  # fmt: skip


def test_a_missing_delta_halts_its_store_and_no_other(checkpoint: Path) -> None:
    (checkpoint / "state/0/0/20.delta").unlink()
    before = tree(checkpoint / "state/0/0")
    done = run("maintain", str(checkpoint), *TIGHT, "--json")
    assert done.returncode == 3
    assert tree(checkpoint / "state/0/0") == before
    assert len(list((checkpoint / "state/0/1").iterdir())) == 11
    report = json.loads(done.stdout)
    assert [one["outcome"] for one in report["stores"]] == ["halted", "done"]
    assert [one["code"] for one in report["findings"]] == ["BROKEN_CHAIN"]
    assert done.stderr.startswith("BROKEN_CHAIN: state/0/0/20.delta is missing")
    assert run("scan", str(checkpoint)).returncode == 3
    assert run("plan", str(checkpoint)).returncode == 3
    assert run("verify", str(checkpoint)).returncode == 3


def test_a_target_that_was_cleaned_away_is_superseded(checkpoint: Path) -> None:
    run("maintain", str(checkpoint), *TIGHT)
    for verb in ("plan", "maintain"):
        done = run(verb, str(checkpoint), "--target-version", "9")
        assert done.returncode == 6
        assert done.stderr.startswith("SUPERSEDED: ")


def test_many_findings_of_one_kind_are_counted(checkpoint: Path) -> None:
    for number in range(30):
        (checkpoint / f"state/0/0/foo.{number}").write_bytes(b"")
    lines = run("scan", str(checkpoint)).stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].endswith("(and 29 more of this store)")
    shown = run_json("scan", str(checkpoint))["stores"]
    assert isinstance(shown, list)
    assert len(shown[0]["findings"]) == 30


def test_verify_finds_a_flipped_bit(checkpoint: Path) -> None:
    file = checkpoint / "state/0/1/9.delta"
    content = bytearray(file.read_bytes())
    content[40] ^= 4
    file.write_bytes(bytes(content))
    done = run("verify", str(checkpoint), "--json")
    assert done.returncode == 3
    found = json.loads(done.stdout)
    assert (found["healthy"], found["findings"][0]["code"]) == (False, "CORRUPT_FILE")
    assert "state/0/1/9.delta" in found["findings"][0]["detail"]
    assert "at byte" in found["findings"][0]["detail"]


def test_doctor_divides_among_the_slots_that_it_is_told(checkpoint: Path) -> None:
    def slots(*args: str) -> object:
        found: Any = run_json("doctor", str(checkpoint), *args)
        return found["restart_forecast"]["slots"]

    assert (slots("--slots", "3"), slots()) == (3, 4)
    assert run("doctor", str(checkpoint), "--slots", "0").returncode == 2


def test_a_checkpoint_without_a_commit_has_nothing_to_do(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint / "commits")
    for offsets in (checkpoint / "offsets").iterdir():
        if offsets.name != "16":
            offsets.unlink()
    (checkpoint / "offsets/16").rename(checkpoint / "offsets/0")
    done = run("maintain", str(checkpoint), *TIGHT)
    assert done.returncode == 0
    assert "NO_COMMITTED_BATCH: no batch is committed yet: nothing to do" in done.stderr
    shown = done.stdout + "".join(run(verb, str(checkpoint)).stdout for verb in ("scan", "plan"))
    assert not [word for word in ("broken", "with findings", "halted") if word in shown]


def test_apply_carries_out_what_plan_printed_once(checkpoint: Path, tmp_path: Path) -> None:
    planned = run("plan", str(checkpoint), *TIGHT, "--json").stdout
    file = tmp_path / "plan.json"
    file.write_text(planned)
    moved = checkpoint.rename(tmp_path / "moved")
    done = run("apply", str(file), "--at", str(moved), "--json")
    assert done.returncode == 0
    report = json.loads(done.stdout)
    assert (report["snapshots_written"], report["files_deleted"]) == (4, 32)
    assert report["requests"]["delete"] >= 32
    before = tree(moved / "state")
    again = run("apply", str(file), "--at", str(moved))
    assert again.returncode == 6
    assert again.stderr.startswith(f"statemaint: SUPERSEDED: {moved}: the plan's files")
    assert len(again.stderr.splitlines()) == 1
    assert tree(moved / "state") == before


def test_what_a_run_deleted_comes_back(checkpoint: Path) -> None:
    uri, state = str(checkpoint), checkpoint / "state"
    before = {file: file.read_bytes() for file in state.rglob("*.delta")}
    report = run_json("maintain", uri, *TIGHT, "--trash-for", "1h")
    listed = json.loads(run("runs", uri, "--json").stdout)["runs"][0]
    assert listed["run"] == report["run"]
    assert (listed["files_deleted"], listed["snapshots_written"]) == (32, 4)
    assert (listed["exit_code"], listed["in_trash"], listed["tasks"]) == (0, True, 1)
    assert listed["run"] in run("runs", uri).stdout
    size = sum(len(content) for file, content in before.items() if not file.exists())
    done = run_json("undo", uri, listed["run"])
    assert done.pop("undo")
    assert done == {
        "format": 1, "checkpoint": uri, "run": listed["run"], "files": 32, "bytes": size,
        "left": [], "reasons": {},
    }  # fmt: skip
    assert {file: file.read_bytes() for file in state.rglob("*.delta")} == before
    assert run("verify", uri, "--deep").returncode == 0
    undone, first = json.loads(run("runs", uri, "--json").stdout)["runs"]
    assert (first["run"], first["in_trash"], first["undo_of"]) == (listed["run"], False, None)
    assert [(one["run"], one["files"], one["left"]) for one in first["undone"]] == [
        (undone["run"], 32, 0)
    ]
    assert (undone["undo_of"], undone["files_restored"]) == (listed["run"], 32)
    assert (undone["bytes_restored"], undone["exit_code"], undone["undone"]) == (size, 0, [])
    _, second, one, below = run("runs", uri).stdout.splitlines()
    assert (second.split()[-2:], one.split()[-1]) == (["is", "one"], "done")
    assert below.startswith(f"{listed['run']} was undone 20")
    assert below.endswith(f" by {undone['run']}: 32 files back")


def test_an_undo_is_shown_before_it_is_done_and_done_as_shown(
    checkpoint: Path, tmp_path: Path
) -> None:
    uri, before = str(checkpoint), {*(checkpoint / "state").rglob("*.delta")}
    deleted = str(run_json("maintain", uri, *TIGHT, "--trash-for", "1h")["run"])
    maintained = tree(checkpoint)
    shown = run("undo", uri, deleted, "--dry-run")
    assert (shown.returncode, shown.stderr) == (0, "")
    head, count, _, first, *_, last = shown.stdout.splitlines()
    assert head == f"dry run, nothing was done: {uri}"
    assert first.split() == ["state/0/1/16.delta", "83", "bytes", "comes", "back"]
    assert count.startswith(f"32 of 32 files of run {deleted} would come back (")
    assert last == "and 12 more files; --all shows them"
    file = tmp_path / "undo.json"
    file.write_text(run("undo", uri, deleted, "--dry-run", "--json").stdout)
    assert tree(checkpoint) == maintained
    done = run_json("apply", str(file))
    assert (done["run"], done["files"], done["left"]) == (deleted, 32, [])
    assert {*(checkpoint / "state").rglob("*.delta")} == before
    again = run("apply", str(file))
    assert (again.returncode, len(again.stderr.splitlines())) == (2, 1)


def test_an_undo_that_would_be_another_one_by_now_is_refused(
    checkpoint: Path, tmp_path: Path
) -> None:
    deleted = str(run_json("maintain", str(checkpoint), *TIGHT, "--trash-for", "1h")["run"])
    file = tmp_path / "undo.json"
    file.write_text(run("undo", str(checkpoint), deleted, "--dry-run", "--json").stdout)
    (checkpoint / "state/0/0/3.delta").write_bytes(b"another")
    before = tree(checkpoint)
    again = run("apply", str(file))
    assert again.returncode == 6
    assert again.stderr.startswith(f"statemaint: SUPERSEDED: {checkpoint}: the undo of run ")
    assert tree(checkpoint) == before
    file.write_text('{"verb": "undo", "run": "that"}')
    broken = run("apply", str(file))
    assert (broken.returncode, "not the plan of an undo" in broken.stderr) == (2, True)


def test_undo_tells_what_it_left(checkpoint: Path) -> None:
    report = run_json("maintain", str(checkpoint), *TIGHT, "--trash-for", "1h")
    (checkpoint / "state/0/0/3.delta").write_bytes(b"another")
    done = run("undo", str(checkpoint), str(report["run"]))
    assert done.returncode == 3
    assert done.stderr.splitlines()[0] == (
        "state/0/0/16.delta stays in the trash: state/0/0/3.delta was written after run "
        f"{report['run']}; leave it in the trash, `statemaint doctor` reports what the "
        "checkpoint needs"
    )
    assert "files stay in the trash" in done.stdout
    assert (checkpoint / "state/0/0/3.delta").read_bytes() == b"another"


@pytest.mark.parametrize("verb", ["maintain", "apply"])
def test_a_lease_that_is_held_is_exit_code_4(checkpoint: Path, tmp_path: Path, verb: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(run("plan", str(checkpoint), *TIGHT, "--json").stdout)
    acquire(LocalStorage(checkpoint), Holder("nightly"), seconds=86400.0)
    before = tree(checkpoint)
    args = {"maintain": [str(checkpoint), *TIGHT], "apply": [str(file)]}
    done = run(verb, *args[verb])
    assert (done.returncode, done.stdout) == (4, "")
    line = rf"statemaint: LEASE_HELD: .*: .*:{os.getpid()} \(run nightly\) .* until 2\d\d\d-.* UTC"
    assert re.match(line, done.stderr)
    assert len(done.stderr.splitlines()) == 1
    assert tree(checkpoint) == before


def use_gzip(root: Path) -> None:
    (root / "offsets/24").write_bytes(offsets_bytes(codec="gzip"))


def use_a_provider_of_their_own(root: Path) -> None:
    pinned = offsets_bytes({"providerClass": "x.OtherStateStoreProvider"})
    (root / "offsets/24").write_bytes(pinned)


def cut_commit(root: Path) -> None:
    (root / "commits/24").write_bytes(b"v1\n{")


def remove_logs(root: Path) -> None:
    for name in ("offsets", "commits"):
        shutil.rmtree(root / name)
    (root / "metadata").unlink()


def remove_all_of_it(root: Path) -> None:
    remove_logs(root)
    (root / "state").rename(root / "data")


SPOILT = (
    (remove_all_of_it, 2, "NOT_A_CHECKPOINT"),
    (remove_logs, 3, "UNREADABLE_OFFSET"),
    (use_gzip, 2, "compression.codec=gzip is not supported, only lz4, lzf, snappy, zstd"),
    (
        use_a_provider_of_their_own,
        2,
        "state store provider OtherStateStoreProvider is not supported",
    ),
    (cut_commit, 3, "UNREADABLE_COMMIT"),
)
READERS = ("scan", "plan", "maintain", "verify", "doctor", "digest", "show", "diff", "stats")


@pytest.mark.parametrize(
    ("verb", "spoil", "code", "text"),
    [
        (verb, *case)
        for number, verb in enumerate(READERS)
        for case in (SPOILT[number % 5], SPOILT[(number + 1) % 5], SPOILT[(number + 3) % 5])
    ],
)
def test_what_cannot_be_maintained_is_said_in_one_line(
    checkpoint: Path, verb: str, spoil: object, code: int, text: str
) -> None:
    spoil(checkpoint)  # type: ignore[operator]
    before = tree(checkpoint)
    done = run(verb, str(checkpoint))
    assert done.returncode == code
    # What is damaged is the very result of `doctor`.
    told = verb == "doctor" and code == 3
    assert text in (done.stdout if told else done.stderr)
    assert len(done.stderr.splitlines()) == (not told)
    assert "Traceback" not in done.stderr + done.stdout
    assert tree(checkpoint) == before


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["frobnicate"], "No such command 'frobnicate'"),
        (["scan"], "Missing argument 'URI'"),
        (["maintain", "CK", "--frobnicate"], "No such option"),
        (["maintain", "CK", "--min-deltas-for-snapshot", "-1"], "-1 is not in the range x>=1"),
        (["maintain", "CK", "--min-batches-to-retain", "0"], "0 is not in the range x>=1"),
        (["maintain", "CK", "--grace", "-5s"], "not a duration: '-5s'"),
        (["maintain", "CK", "--grace", "soon"], "not a duration: 'soon'"),
        (["maintain", "CK", "--partition", "9"], "no store matches"),
        (["verify", "CK", "--sample", "3/2"], "'3/2' is not a valid share; write it like 3/10"),
        (["verify", "CK", "--sample", "third"], "'third' is not a valid share; write it like 3/10"),
        (["maintain", "CK", "--target-version", "99"], "cannot be the target"),
        (["digest", "CK", "--version", "99"], "version 99 is not committed; the newest is 25"),
        (["show", "CK", "--version", "99"], "version 99 is not committed; the newest is 25"),
        (["show", "CK", "--version", "0"], "0 is not in the range x>=1"),
        (["show", "CK", "--operator", "7"], "no operator 7, partition (any), store (any)"),
        (["show", "CK", "--json", "--csv"], "--csv and --json are mutually exclusive"),
        (["diff", "CK", "--to", "99"], "version 99 is not committed; the newest is 25"),
        (["diff", "CK", "--from", "25", "--to", "24"], "version 25 is above version 24"),
        (["diff", "CK", "--to", "0"], "0 is not in the range x>=1"),
        (["diff", "CK", "--partition", "7"], "no operator 0, partition 7, store (any)"),
        (["stats", "CK", "--since", "99"], "version 99 is not committed; the newest is 25"),
        (["stats", "CK", "--operator", "7"], "no operator 7, partition (any), store (any)"),
        (["stats", "CK", "--top", "-1"], "-1 is not in the range x>=0"),
        (["undo", "CK", "no-such-run"], "nothing of run 'no-such-run' is in the trash"),
        (["apply", "CK/metadata"], "not a plan (checkpoint: Field required)"),
        (["apply", "CK/offsets/24"], "not a plan (the file: Invalid JSON"),
        (["apply", "CK/none.json"], "No such file or directory"),
        (["maintain", "CK", "--trash-for", "ever"], "not a duration: 'ever'"),
        (["verify", "CK", "--memory", "512"], "'512' is not a size of memory; write it like 512MB"),
        (["maintain", "CK", "--workers", "0"], "0 is not in the range x>=1"),
        (["bootstrap", "CK", "x", "--to", ""], "'--to': the address is empty"),
        (["bootstrap", "CK", "x", "--sink-log", " "], "'--sink-log': the address is empty"),
        (["savepoint", "CK", "CK/x", "--sink-log", ""], "'--sink-log': the address is empty"),
        (["apply", "CK/metadata", "--at", ""], "'--at': the address is empty"),
        (["doctor", "CK", "--event-log", ""], "'--event-log': the address is empty"),
        (["exporter", "--certificate", "", "--key", ""], "'--certificate': File '' does not exist"),
        (["scan", "nosuch://bucket/ck"], "storage 'nosuch' is not supported"),
        (["scan", "CK/nowhere"], "NOT_A_CHECKPOINT"),
        (["runs", "CK/nowhere"], "NOT_A_CHECKPOINT"),
        (["scan", "s3://key:secret@bucket/ck"], "has a secret in it, which would be shown; give"),
    ],
)
def test_bad_usage_is_told_with_exit_code_2(checkpoint: Path, args: list[str], text: str) -> None:
    before = tree(checkpoint)
    done = run(*(one.replace("CK", str(checkpoint)) for one in args))
    assert done.returncode == 2
    assert text in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "--json" in args or done.stdout == ""
    assert tree(checkpoint) == before


def test_the_memory_may_come_from_a_variable(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATEMAINT_MEMORY", "much")
    refused = run("verify", str(checkpoint))
    assert refused.returncode == 2
    assert "'much' is not a size of memory" in refused.stderr
    assert run("verify", str(checkpoint), "--memory", "1GB").returncode == 0


@pytest.fixture
def closed(checkpoint: Path) -> Iterator[Path]:
    folders = [checkpoint, *(file for file in checkpoint.rglob("*") if file.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    yield checkpoint
    for folder in folders:
        folder.chmod(0o755)


def test_no_right_to_write_is_exit_code_5(closed: Path) -> None:
    before = tree(closed)
    done = run("maintain", str(closed), *TIGHT, prefix=AS_OWNER)
    assert done.returncode == 5
    assert done.stderr == ("statemaint: STORAGE: _statemaint: Permission denied\n")
    assert tree(closed) == before


def test_a_partition_without_the_right_to_read_halts_alone(checkpoint: Path) -> None:
    (checkpoint / "state/0/1").chmod(0)
    try:
        done = run("maintain", str(checkpoint), *TIGHT, prefix=AS_OWNER)
    finally:
        (checkpoint / "state/0/1").chmod(0o755)
    assert done.returncode == 5
    assert "Permission denied" in done.stderr
    assert list((checkpoint / "state/0/0").glob("*.snapshot"))
    assert not list((checkpoint / "state/0/1").glob("*.snapshot"))


def test_an_event_log_that_is_a_file_is_no_damage_of_the_checkpoint(checkpoint: Path) -> None:
    file = checkpoint / "metadata"
    done = run("doctor", str(checkpoint), "--event-log", str(file))
    assert done.returncode == 2
    assert done.stderr == (
        f"statemaint: CONFIG: {file}: it is a file; give the folder of the event logs\n"
    )


@pytest.mark.parametrize("verb", ["doctor", "digest", "repair"])
def test_every_verb_ends_with_5_if_a_partition_cannot_be_read(checkpoint: Path, verb: str) -> None:
    (checkpoint / "state/0/1").chmod(0)
    try:
        done = run(verb, str(checkpoint), "--json", prefix=AS_OWNER)
    finally:
        (checkpoint / "state/0/1").chmod(0o755)
    assert done.returncode == 5
    assert "Permission denied" in done.stdout


@pytest.mark.parametrize("folder", ["", "commits", "state"])
def test_no_right_to_read_is_exit_code_5(checkpoint: Path, folder: str) -> None:
    (checkpoint / folder).chmod(0)
    try:
        done = run("maintain", str(checkpoint), *TIGHT, prefix=AS_OWNER)
    finally:
        (checkpoint / folder).chmod(0o755)
    assert done.returncode == 5
    assert "Permission denied" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    left = {one.name for one in (checkpoint / "_statemaint").glob("*")}
    assert left == ({"metrics.json", "trend.json"} if folder else set())


@pytest.mark.parametrize("verb", ["scan", "doctor", "verify", "maintain"])
def test_of_many_some_are_unknown_in_part_and_some_at_all(checkpoint: Path, verb: str) -> None:
    shutil.copytree(checkpoint, checkpoint.parent / "other")
    closed = checkpoint / "commits", checkpoint.parent / "other/state/0/1"
    for folder in closed:
        folder.chmod(0)
    try:
        done = run(verb, str(checkpoint.parent), prefix=AS_OWNER)
    finally:
        for folder in closed:
            folder.chmod(0o755)
    assert (done.returncode, done.stderr) == (5, "")
    rows = [line.split() for line in done.stdout.splitlines()[2:]]
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("ck", "unknown", "STORAGE"),
        ("other", "unknown", "STORAGE_FAILED"),
    ]


@pytest.mark.parametrize("verb", ["scan", "doctor", "verify", "maintain", "stats"])
def test_a_folder_that_cannot_be_listed_is_a_row_of_many(checkpoint: Path, verb: str) -> None:
    closed = checkpoint.parent / "lost+found"
    closed.mkdir(0o000)
    try:
        done = run(verb, str(checkpoint.parent), prefix=AS_OWNER)
    finally:
        closed.chmod(0o755)
    assert (done.returncode, done.stderr) == (5, "")
    rows = {line.split()[0]: line.split()[-1] for line in done.stdout.splitlines()[2:]}
    assert rows.keys() == {"ck", "lost+found"}
    assert rows["lost+found"] == "STORAGE"


def test_every_verb_is_listed_and_found() -> None:
    context = click.Context(program)
    assert program.list_commands(context) == sorted(VERBS)
    assert [getattr(program.get_command(context, one), "name", None) for one in NAMES] == [*NAMES]


HEAVY = {"boto3", "botocore", "numba", "numpy", "pydantic", "rich", "rocksdict", "yaml"}


@pytest.mark.parametrize(
    ("arguments", "unused"),
    [(["--version"], HEAVY), (["scan", "--help"], {"boto3", "numba", "yaml"})],
)
def test_a_verb_loads_no_library_of_another(arguments: list[str], unused: set[str]) -> None:
    script = f"""
import sys
from statemaint.cli import main
sys.argv = ["statemaint", *{arguments!r}]
try:
    main()
finally:
    print(sorted({unused!r} & set(sys.modules)), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stderr == "[]\n"


def test_maintenance_of_a_small_state_loads_no_more_than_it_needs(checkpoint: Path) -> None:
    others = {f"statemaint.storage.{one}.storage" for one in ("s3", "hadoop")}
    unused = HEAVY - {"rich"} | others
    script = f"""
import sys
from statemaint.cli import main
sys.argv = ["statemaint", "maintain", {str(checkpoint)!r}]
try:
    main()
finally:
    print(sorted({unused!r} & set(sys.modules)), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1] == "[]"


def test_without_a_verb_it_explains_itself() -> None:
    done = run()
    assert done.returncode == 2
    assert "Exit codes: 0 done or healthy" in done.stderr
    assert "maintain" in done.stderr


def test_tells_its_version() -> None:
    assert run("--version").stdout == "statemaint, version 0.2.0\n"


@pytest.mark.parametrize(
    ("flags", "left"),
    [([], True), (["--record"], True), (["--dry-run"], False), (["--partition", "0"], True)],
)
def test_every_run_that_writes_leaves_the_record_and_a_dry_one_none(
    checkpoint: Path,
    flags: list[str],
    left: bool,  # noqa: FBT001 -- of the table above
) -> None:
    assert run("maintain", str(checkpoint), *TIGHT, *flags).returncode == 0
    assert (checkpoint / "_statemaint/metrics.json").exists() == left
