"""What a person at a terminal meets in the first hour: mistakes, names, many checkpoints."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from statemaint.cli.main import EXAMPLES
from statemaint.cli.main import VERBS as NAMES
from statemaint.storage import LocalStorage
from tests.support.checkpoints import write_checkpoint
from tests.support.paths import ROOT
from tests.support.terminal import at_terminal
from tests.unit.cli.test_program import TIGHT, run, run_json
from tests.unit.cli.test_show import AGGREGATION, unpacked
from tools.cli_reference import reference


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder of twelve checkpoints in teams, of which three are damaged."""
    root = tmp_path_factory.mktemp("many")
    for number in range(12):
        place = root / f"team_{number % 2}" / f"query_{number}"
        place.mkdir(parents=True)
        write_checkpoint(LocalStorage(place), partitions=1 + number % 3)
    (root / "team_1/query_3/state/0/0/20.delta").unlink()
    (root / "team_0/query_4/commits/24").write_bytes(b"v1\n{")
    (root / "team_1/query_5/state/0/1/21.delta").write_bytes(b"LZ4Block")
    (root / "_trash").mkdir()
    return root


def test_a_wide_terminal_has_every_column(checkpoint: Path) -> None:
    narrow = at_terminal("scan", str(checkpoint), columns=40, NO_COLOR="1")
    assert "(omitted to fit the width: versions, snapshots)" in " ".join(narrow.split())
    wide = at_terminal("scan", str(checkpoint), columns=160, NO_COLOR="1")
    assert "left out" not in wide
    assert re.search(r"store +versions +snapshots +chain +files +bytes +findings", wide)


def test_nothing_is_wrapped_in_a_pipe(tmp_path: Path) -> None:
    root = tmp_path / ("a" * 120) / ("b" * 120)
    root.mkdir(parents=True)
    write_checkpoint(LocalStorage(root))
    printed = run("scan", str(root)).stdout.splitlines()
    assert printed[0] == f"checkpoint  {root}"
    assert all(line == line.rstrip() for line in printed)


def test_colour_has_a_meaning_and_can_be_refused(checkpoint: Path) -> None:
    (checkpoint / "state/0/0/20.delta").unlink()
    red = "\x1b[1;31m"
    assert f"{red}broken" in at_terminal("doctor", str(checkpoint))
    assert f"{red}broken" in at_terminal("verify", str(checkpoint))
    assert "\x1b[" not in at_terminal("doctor", str(checkpoint), NO_COLOR="1")
    assert "\x1b[" not in at_terminal("doctor", str(checkpoint), "--color", "never")
    assert "\x1b[" not in run("doctor", str(checkpoint)).stdout
    assert red in run("doctor", str(checkpoint), "--color", "always").stdout


def test_many_stores_are_a_total_and_the_worst(tmp_path: Path) -> None:
    write_checkpoint(LocalStorage(tmp_path), partitions=30)
    (tmp_path / "state/0/17/20.delta").unlink()
    printed = run("scan", str(tmp_path)).stdout.splitlines()
    assert any(
        re.match(r"in all +30 stores, 749 files .*1 store with findings", one) for one in printed
    )
    rows = [line.split()[0] for line in printed if re.match(r"\d+/\d+ ", line)]
    assert (rows[0], len(rows)) == ("0/17", 1)
    assert printed[-3].startswith("29 stores alike: ")
    everything = run("scan", str(tmp_path), "--all").stdout
    assert len(re.findall(r"^\d+/\d+ ", everything, re.MULTILINE)) == 30


def test_a_floor_of_the_commit_log_is_explained(checkpoint: Path) -> None:
    tight = ["--min-deltas-for-snapshot", "5", "--min-batches-to-retain", "2", "--grace", "0s"]
    planned = run("plan", str(checkpoint), *tight).stdout
    assert "the commit log reaches back to it, further than min_batches_to_retain" in planned
    run("maintain", str(checkpoint), *tight)
    again = run("maintain", str(checkpoint), *tight).stdout
    assert "nothing was deleted: the commit log still has the batch of version 17" in again


def test_the_trash_and_the_way_back_are_named(checkpoint: Path) -> None:
    done = run("maintain", str(checkpoint), *TIGHT, "--trash-for", "7d").stdout
    assert "32 files (2.7 kB) moved to the trash" in done
    undo = re.search(r"they stay there for 7d: statemaint undo (\S+) (\S+)", done)
    assert undo is not None
    assert run("undo", undo[1], undo[2]).returncode == 0


def test_a_key_that_no_row_has_is_said(tmp_path: Path) -> None:
    root = unpacked("dedup", tmp_path)
    done = run("show", str(root), "--key", "nope")
    assert (done.returncode, done.stdout) == (
        0,
        "no row has a key column equal to 'nope' at version 13\n",
    )


QUERIES = """
defaults: {{min_batches_to_retain: 7, min_deltas_for_snapshot: 3, grace: 0s}}
queries:
  hourly_revenue: {{checkpoint: {root}}}
"""


@pytest.mark.parametrize("way", ["flag", "variable", "folder"])
def test_a_query_is_known_by_its_name(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    file = tmp_path / "statemaint_queries.yaml"
    file.write_text(QUERIES.format(root=checkpoint))
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    flags = ["--queries", str(file)] if way == "flag" else []
    if way == "variable":
        monkeypatch.setenv("STATEMAINT_QUERIES", str(file))
    if way == "folder":
        monkeypatch.chdir(tmp_path)
    assert run_json("scan", "hourly_revenue", *flags)["checkpoint"] == str(checkpoint)
    planned: Any = run_json("plan", "hourly_revenue", *flags)
    assert planned["policy"]["min_batches_to_retain"] == 7
    kept: Any = run_json("plan", "hourly_revenue", "--min-batches-to-retain", "5", *flags)
    assert kept["policy"]["min_batches_to_retain"] == 5
    assert kept["policy"]["min_deltas_for_snapshot"] == 3
    wrong = run("scan", "hourly_revenu", *flags)
    assert wrong.returncode == 2
    assert "did you mean 'hourly_revenue'?" in wrong.stderr


@pytest.mark.parametrize("verb", ["scan", "doctor", "verify"])
def test_a_folder_of_checkpoints_is_a_row_each_and_the_worst_first(many: Path, verb: str) -> None:
    done = run(verb, str(many))
    assert done.returncode == 3
    first, head, *rows = done.stdout.splitlines()
    damaged = 2 if verb == "scan" else 3
    assert first.startswith(f"{many}: 12 checkpoints, ")
    assert f", {damaged} broken, {12 - damaged} healthy, by " in first
    assert head.startswith("checkpoint")
    assert len(rows) == 12
    names = {"team_1/query_3", "team_0/query_4", "team_1/query_5"}
    worst = {row.split()[0] for row in rows[:damaged]}
    assert worst <= names
    found: Any = run_json(verb, str(many))
    assert found["folder"] == str(many)
    assert len(found["checkpoints"]) == 12
    lines = run(verb, str(many), "--json-lines") if verb != "doctor" else None
    assert lines is None or len(lines.stdout.splitlines()) == 13


def test_a_checkpoint_in_a_folder_that_cannot_be_read_does_not_hide_the_others(
    many: Path, tmp_path: Path
) -> None:
    root = tmp_path / "copy"
    shutil.copytree(many, root)
    offsets = root / "team_0/query_0/offsets/24"
    offsets.write_text(offsets.read_text().replace("lz4", "gzip"))
    done = run("scan", str(root))
    assert done.returncode == 3
    assert re.search(r"^team_0/query_0 +unknown +UNSUPPORTED$", done.stdout, re.MULTILINE)
    found: Any = run_json("scan", str(root))
    errors = [one["error"]["code"] for one in found["checkpoints"] if "error" in one]
    assert errors == ["UNSUPPORTED"]


@pytest.mark.parametrize(
    ("below", "text"),
    [
        ("state", "it is a part of the checkpoint {root}"),
        ("state/0/1", "it is a part of the checkpoint {root}"),
        ("metadata", "it is a part of the checkpoint {root}"),
        ("../empty", "it is empty or does not exist"),
        ("../plain", "it is a file"),
    ],
)
@pytest.mark.parametrize("verb", ["scan", "doctor", "maintain", "runs"])
def test_what_is_no_checkpoint_is_told_apart(
    checkpoint: Path, verb: str, below: str, text: str
) -> None:
    (checkpoint.parent / "empty").mkdir()
    (checkpoint.parent / "plain").write_bytes(b"text")
    done = run(verb, f"{checkpoint}/{below}")
    assert done.returncode == 2
    assert "NOT_A_CHECKPOINT" in done.stderr
    assert text.format(root=checkpoint) in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("args", "code", "exit_code"),
    [
        (["scan", "CK/none"], "NOT_A_CHECKPOINT", 2),
        (["maintain", "CK", "--grace", "soon"], "CONFIG", 2),
        (["scna", "CK"], "CONFIG", 2),
        (["plan", "CK", "--target-version", "2"], None, 0),
    ],
)
def test_an_error_is_json_where_json_was_asked_for(
    checkpoint: Path, args: list[str], code: str | None, exit_code: int
) -> None:
    done = run(*(one.replace("CK", str(checkpoint)) for one in args), "--json")
    assert done.returncode == exit_code
    found = json.loads(done.stdout)
    assert found["format"] == 1
    assert found.get("error", {}).get("code") == code
    if code:
        assert set(found["error"]) == {"code", "message", "path", "next"}
        assert f"statemaint: {code}: {found['error']['message']}" in done.stderr


def test_an_output_file_appears_whole_or_not_at_all(checkpoint: Path, tmp_path: Path) -> None:
    file = tmp_path / "scan.json"
    done = run("scan", str(checkpoint), "--json", "--output", str(file))
    assert (done.returncode, done.stdout) == (0, "")
    before = file.read_text()
    assert json.loads(before)["target_version"] == 25
    failed = run("digest", str(checkpoint), "--version", "99", "--output", str(file))
    assert failed.returncode == 2
    assert file.read_text() == before
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []
    nowhere = run("scan", str(checkpoint), "--output", str(tmp_path / "no" / "file"))
    assert nowhere.returncode == 2
    assert "No such file or directory" in nowhere.stderr


def test_an_output_file_has_the_result_whatever_the_exit_code(
    checkpoint: Path, tmp_path: Path
) -> None:
    queries, file = tmp_path / "queries.yaml", tmp_path / "result.json"
    queries.write_text(f"queries: {{a: {{checkpoint: {checkpoint}}}, b: {{}}}}")
    for words, key in (("queries validate", "problems"), ("maintain --dry-run", "checkpoints")):
        flags = ["--queries", str(queries), "--json", "--output", str(file)]
        done = run(*words.split(), *flags)
        assert (done.returncode, done.stdout) == (2, "")
        assert len(json.loads(file.read_text())[key]) == 1


@pytest.mark.parametrize("place", ["", "/", "."])
def test_output_to_a_folder_is_refused_before_the_work(checkpoint: Path, place: str) -> None:
    done = run("maintain", str(checkpoint), "--output", place)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"statemaint: CONFIG: --output {place}: Is a directory\n"
    assert not (checkpoint / "_statemaint").exists()


def test_output_leaves_a_pipe_and_a_link_what_they_are(checkpoint: Path, tmp_path: Path) -> None:
    pipe, link, file = tmp_path / "pipe", tmp_path / "link", tmp_path / "file"
    os.mkfifo(pipe)
    link.symlink_to(file)
    with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)) as reader:
        assert run("scan", str(checkpoint), "--output", str(pipe)).returncode == 0
        printed = reader.read()
    assert run("scan", str(checkpoint), "--output", str(link)).returncode == 0
    assert pipe.is_fifo()
    assert link.is_symlink()
    assert printed == file.read_text() == run("scan", str(checkpoint)).stdout


def test_a_log_file_has_what_stderr_has(checkpoint: Path, tmp_path: Path) -> None:
    (checkpoint / "state/0/0/20.delta").unlink()
    log = tmp_path / "log"
    done = run("verify", str(checkpoint), "--log-file", str(log))
    run("digest", str(checkpoint), "--version", "99", "--log-file", str(log))
    first, *_, last = log.read_text().splitlines()
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ "
    assert re.fullmatch(stamp + re.escape(done.stderr.splitlines()[0]), first)
    assert re.match(stamp + "statemaint: CONFIG: ", last)


def test_a_log_file_has_warnings_of_every_thread_too(checkpoint: Path, tmp_path: Path) -> None:
    shutil.copytree(checkpoint, tmp_path / "other")
    queries = tmp_path / "queries.yaml"
    queries.write_text(
        "pushgateway: http://127.0.0.1:1\n"
        f"queries: {{a: {{checkpoint: {checkpoint}}}, b: {{checkpoint: {tmp_path / 'other'}}}}}"
    )
    log = tmp_path / "log"
    words = ["--queries", str(queries), "--publish", "--log-file", str(log)]
    assert run("maintain", *words).returncode == 0
    first, second = log.read_text().splitlines()
    assert "Z metrics are not published: " in first
    assert "Z metrics are not published: " in second


def test_a_log_file_has_the_problems_of_queries(tmp_path: Path) -> None:
    (tmp_path / "queries.yaml").write_text("queries: {a: {}}")
    log = tmp_path / "log"
    done = run("queries", str(tmp_path / "queries.yaml"), "validate", "--log-file", str(log))
    assert log.read_text().endswith(f"Z {done.stderr}")
    assert "is missing; add it" in done.stderr


@pytest.mark.parametrize(
    "words",
    ["scan", "scna x", "--nope", "plan x --grace y", "maintain x --nope -vq", "show x --version 0"],
)
def test_a_log_file_has_errors_of_arguments(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    done = run(*words.split(), "--log-file", str(log))
    monkeypatch.setenv("STATEMAINT_LOG_FILE", str(log))
    run(*words.split())
    first, second = log.read_text().splitlines(keepends=True)
    assert done.returncode == 2
    assert first.endswith(f"Z {done.stderr}")
    assert "Z statemaint: CONFIG: " in second


def test_a_log_file_that_cannot_be_written_is_reported_before_the_work(
    checkpoint: Path, tmp_path: Path
) -> None:
    (checkpoint / "state/0/0/20.delta").unlink()
    done = run("maintain", str(checkpoint), "--log-file", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"statemaint: CONFIG: --log-file {tmp_path}: Is a directory\n"
    assert not (checkpoint / "_statemaint").exists()


def test_an_interrupt_is_130(checkpoint: Path) -> None:
    script = (
        "import statemaint.cli.scan as scan\n"
        "def interrupted(storage): raise KeyboardInterrupt\n"
        "scan.scan_with_logs = interrupted\n"
        "import sys; sys.argv = ['statemaint', 'scan', sys.argv[1]]\n"
        "from statemaint.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(checkpoint)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 128 + signal.SIGINT
    assert done.stderr.lstrip() == "interrupted; run again to continue\n"


def test_an_interrupt_of_many_says_what_it_waits_for(checkpoint: Path) -> None:
    shutil.copytree(checkpoint, checkpoint.parent / "other")
    script = (
        "import os, signal, sys, time\n"
        "import statemaint.cli.scan as scan\n"
        "real = scan.scan_with_logs\n"
        "def interrupted(storage):\n"
        "    found = real(storage)\n"  # which the folder has not
        "    time.sleep(0.5)\n"
        "    if storage.root.endswith('/other'): os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(0.5)\n"
        "    return found\n"
        "scan.scan_with_logs = interrupted\n"
        "sys.argv = ['statemaint', 'scan', sys.argv[1], '--quiet']\n"
        "from statemaint.cli import main; main()"
    )
    words = [sys.executable, "-c", script, str(checkpoint.parent)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    first, *_, last = done.stderr.splitlines()
    assert done.returncode == 128 + signal.SIGINT
    assert first == "interrupted: no other checkpoint is begun; waiting for those at work"
    assert last == "interrupted; run again to continue"


PROGRAM = f"{shlex.quote(sys.executable)} -m statemaint"


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True,
        check=False,
        text=True,
        env={**os.environ, **environment},
    )


def test_a_closed_pipe_is_quiet_and_no_failure(many: Path) -> None:
    quiet = shell(f"{PROGRAM} scan {many}/team_0/query_0 --all | true; exit ${{PIPESTATUS[0]}}")
    assert (quiet.returncode, quiet.stderr) == (0, "")


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-"])
def test_closed_streams_change_no_exit_code(checkpoint: Path, closed: str) -> None:
    assert shell(f"{PROGRAM} scan {checkpoint} {closed}").returncode == 0
    (checkpoint / "state/0/0/20.delta").unlink()
    done = shell(f"{PROGRAM} verify {checkpoint} {closed}")
    assert (done.returncode, "FAULT" in done.stderr) == (3, False)


def test_a_run_does_not_end_because_nobody_reads_its_messages(checkpoint: Path) -> None:
    (checkpoint.parent / "queries.yaml").write_text(
        f"queries: {{good: {{checkpoint: {checkpoint}}}, bad: {{checkpoint: no/address}}}}"
    )
    reader, stderr = os.pipe()
    os.close(reader)
    words = ["maintain", "--queries", str(checkpoint.parent / "queries.yaml")]
    done = subprocess.run(
        [sys.executable, "-m", "statemaint", *words],
        stdout=subprocess.PIPE,
        stderr=stderr,
        check=False,
    )
    os.close(stderr)
    assert done.returncode == 2
    assert b" 2 snapshots written, " in done.stdout


def test_a_full_disk_is_one_line(checkpoint: Path) -> None:
    done = shell(f"{PROGRAM} scan {checkpoint} > /dev/full")
    assert done.returncode == 5
    assert done.stderr == (
        "statemaint: OUTPUT: the result could not be written: No space left on device\n"
    )


def test_a_terminal_without_umlauts_is_no_fault(tmp_path: Path) -> None:
    root = tmp_path / "zähler"
    root.mkdir()
    write_checkpoint(LocalStorage(root))
    done = shell(f"{PROGRAM} scan '{root}'", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert r"z\xe4hler" in done.stdout


def test_a_verb_that_was_probably_meant(checkpoint: Path) -> None:
    assert "Did you mean 'doctor'?" in run("docter", str(checkpoint)).stderr
    assert "Did you mean '--json'?" in run("scan", str(checkpoint), "--jsn").stderr


@pytest.fixture(scope="module")
def queried(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a checkpoint of a real query, its queries file and a plan."""
    place = tmp_path_factory.mktemp("queried")
    root = place / "hourly_revenue"
    root.mkdir()
    unpacked(AGGREGATION, root)
    (place / "statemaint_queries.yaml").write_text(QUERIES.format(root=root))
    planned = run("plan", str(root), "--json", "--output", str(place / "plan.json"))
    assert planned.returncode == 0
    rows = ("--format", "parquet", "--output", str(place / "rows.parquet"))
    assert run("show", str(root), *rows).returncode == 0
    return place


@pytest.mark.long
@pytest.mark.parametrize(
    "command",
    [
        command
        for verb in NAMES
        for _, command in EXAMPLES[verb]
        if "RUN" not in command and verb != "exporter"  # which does not end by itself
    ],
)
def test_every_example_of_the_help_works(queried: Path, tmp_path: Path, command: str) -> None:
    place = tmp_path / "place"
    shutil.copytree(queried, place)
    file = place / "statemaint_queries.yaml"
    file.write_text(QUERIES.format(root=place / "hourly_revenue"))
    plan = place / "plan.json"
    plan.write_text(plan.read_text().replace(str(queried), str(place)))
    words = command.replace("/data/checkpoints", str(place)).replace(
        "--to-batch 20", "--to-batch 8"
    )
    words = words.replace("--batch 24", "--batch 12").replace("--at 26", "--at 13")
    if "--end ID" in words:
        pin = run_json("pin", str(place / "hourly_revenue"), "--batch", "12", "--for", "1h")
        words = words.replace("--end ID", f"--end {pin['id']}")
    words = re.sub(r"--(version|from|to) \d+", lambda found: f"--{found[1]} 9", words)
    words = words.replace("--from 9 --to 9", "--from 8 --to 9")
    done = shell(
        f"cd {place} && {words}", PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    )
    assert done.returncode == 0, done.stderr


def test_the_reference_is_made_from_the_program() -> None:
    assert (ROOT / "docs/cli.md").read_text() == reference(), "run `make generated`"
