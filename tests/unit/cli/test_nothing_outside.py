"""Links in a checkpoint: no verb writes or deletes outside its real root (S24)."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from statemaint.errors import RefusedLinkError
from statemaint.maintain import maintain
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.provider import HDFSBackedStateStoreProvider
from statemaint.storage import LocalStorage, MemoryStorage
from tests.support import outside
from tests.support.checkpoints import put_files, snapshot_bytes, state_at, write_checkpoint
from tests.support.program import run
from tests.support.rocks import write_rocks_checkpoint

TIGHT = (
    "--min-deltas-for-snapshot=3", "--min-batches-to-retain=2", "--grace=0s", "--orphan-age=0s",
)  # fmt: skip
POLICY = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=5, grace=0, trash_for=1e9)
READERS = (
    ("scan",), ("verify",), ("verify", "--deep"), ("doctor",), ("show", "--limit=3"), ("digest",),
    ("stats",), ("plan",), ("maintain", "--dry-run"),
)  # fmt: skip
# In this order each has something to do on the healthy checkpoint.
WRITERS = (
    ("repair", "--apply"),
    ("rollback", "--to-batch=7", "--apply"),
    ("undo", "NEWEST"),
    ("maintain", "--max-deletes-per-run=0"),
    ("maintain", *TIGHT, "--trash-for=1h"),
    ("undo", "NEWEST"),
    ("apply", "PLAN"),
    ("verify",),
)


def written(kind: str) -> dict[str, bytes]:
    """Returns a checkpoint that was maintained once, and whose oldest commits are purged since.

    It has trash and a snapshot that the log does not give.
    """
    storage = MemoryStorage()
    write = write_checkpoint if kind == "hdfs" else write_rocks_checkpoint
    write(storage, last=10, batches=range(3, 10))
    maintain(storage, POLICY, run="00first")
    if kind == "hdfs":
        storage.write("state/0/1/9.snapshot", [snapshot_bytes(state_at(3))])
    for batch in range(3, 7):
        storage.delete(f"commits/{batch}")
        storage.delete(f"offsets/{batch}")
    return dict(storage.files)


Lead = Callable[[Path, str, Path], None]
WRITTEN = {kind: written(kind) for kind in ("hdfs", "rocks")}


def grown(root: Path, kind: str = "hdfs") -> Path:
    return put_files(root, WRITTEN[kind])


def told(root: Path, *verb: str) -> str:
    """Runs a verb that must be refused; returns its one line."""
    ended = run(verb[0], str(root), *verb[1:])
    assert ended.returncode == 3, (verb, ended.stdout, ended.stderr)
    [line] = ended.stderr.splitlines()
    return line


def run_all(root: Path, check: Callable[[tuple[str, ...]], object]) -> dict[str, int]:
    """Runs every verb that writes; returns their exit codes."""
    codes = {}
    for number, verb in enumerate(WRITERS):
        codes[f"{number} {verb[0]}"] = run(*arguments(root, verb)).returncode
        check(verb)
    return codes


def arguments(root: Path, verb: tuple[str, ...]) -> list[str]:
    """Returns a verb's command line, with the newest run in the trash and a plan of today."""
    if verb[0] == "apply":
        plan = root.with_name("plan.json")
        plan.write_text(run("plan", str(root), *TIGHT, "--json").stdout)
        return ["apply", str(plan)]
    trash = root / "_statemaint" / "trash"
    runs = list(trash.iterdir()) if trash.is_dir() else []
    newest = max(runs, key=lambda one: one.stat().st_mtime_ns).name if runs else "none"
    return [verb[0], str(root), *(newest if one == "NEWEST" else one for one in verb[1:])]


# -- below _statemaint


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A folder that belongs to somebody else."""
    folder = tmp_path / "beside"
    (folder / "manifest").mkdir(parents=True)
    (folder / "precious").write_bytes(b"x")
    line = json.dumps({"path": "state/0/0/1.delta", "bytes": 1, "modified": 1.0, "until": 1.0})
    (folder / "manifest" / "0-0.page-000001.jsonl").write_text(f"{line}\n")
    return folder


def test_a_linked_folder_in_the_trash_is_not_emptied(tmp_path: Path, beside: Path) -> None:
    root = grown(tmp_path / "root")
    (root / "state/0/1/9.snapshot").unlink()
    (root / "_statemaint/trash/old").symlink_to(beside)
    before, state = outside.facts(beside), outside.facts(root)
    line = told(root, "maintain", "--max-deletes-per-run", "0")
    assert line.startswith(
        "statemaint: REFUSED_LINK: _statemaint/trash/old: it is a link, and below _statemaint"
    )
    assert "remove the link" in line
    assert outside.facts(beside) == before
    assert outside.facts(root) == state


@pytest.mark.parametrize("name", ["lease", "ledger", "attestations", "trash", "runs", ""])
def test_nothing_is_written_through_a_linked_folder_of_ours(
    tmp_path: Path, beside: Path, name: str
) -> None:
    root = grown(tmp_path / "root")
    ours = root / "_statemaint" / name
    shutil.rmtree(ours)
    ours.symlink_to(beside)
    before, state = outside.facts(beside), outside.facts(root)
    for verb in (
        ("maintain", *TIGHT), ("repair", "--apply"), ("rollback", "--to-batch=7", "--apply"),
        ("maintain", *TIGHT, "--dry-run"), ("verify",), ("scan",), ("doctor",),
    ):  # fmt: skip
        ended = run(verb[0], str(root), *verb[1:])
        path = f"_statemaint/{name}".rstrip("/")
        assert f"{path}: it is a link" in ended.stdout + ended.stderr, (verb, ended)
        assert ended.returncode == 3, verb
        assert "Traceback" not in ended.stderr
    assert outside.facts(beside) == before
    assert outside.facts(root) == state


def test_the_state_is_shown_whatever_links_are_among_our_files(
    tmp_path: Path, beside: Path
) -> None:
    root = grown(tmp_path / "root")
    (root / "state/0/1/9.snapshot").unlink()
    digests = run("digest", str(root)).stdout
    for name in ("attestations", "ledger"):
        shutil.rmtree(root / "_statemaint" / name)
        (root / "_statemaint" / name).symlink_to(beside)
    ended = run("digest", str(root))
    assert (ended.returncode, ended.stdout) == (0, digests)


def test_a_linked_file_of_ours_is_neither_read_nor_written(tmp_path: Path) -> None:
    root = grown(tmp_path / "root")
    theirs = tmp_path / "theirs.json"
    record = root / "_statemaint/attestations/0/0/default.json"
    shutil.move(record, theirs)
    record.symlink_to(theirs)
    before = theirs.read_bytes()
    assert "_statemaint/attestations/0/0/default.json: it is a link" in told(root, "maintain")
    assert theirs.read_bytes() == before


def test_two_checkpoints_that_share_a_trash_list_and_undo_no_run(tmp_path: Path) -> None:
    theirs, ours = grown(tmp_path / "theirs"), tmp_path / "ours"
    shutil.copytree(theirs / "commits", ours / "commits")
    shutil.copytree(theirs / "offsets", ours / "offsets")
    (ours / "_statemaint").mkdir()
    (ours / "_statemaint/trash").symlink_to(theirs / "_statemaint/trash")
    before = outside.facts(theirs)
    for verb in (("runs",), ("undo", "00first"), ("undo", "00first", "--dry-run")):
        assert "_statemaint/trash: it is a link" in told(ours, *verb)
    assert not (ours / "state").exists()
    assert outside.facts(theirs) == before
    assert "00first" in run("runs", str(theirs)).stdout


# -- in the state and the logs


@pytest.mark.parametrize("linked", ["state", "state/0", "state/0/0"])
def test_a_clone_that_is_a_link_to_the_original_deletes_none_of_it(
    tmp_path: Path, linked: str
) -> None:
    original = grown(tmp_path / "original")
    clone = tmp_path / "clone"
    shutil.copytree(original, clone)
    shutil.rmtree(clone / linked)
    (clone / linked).symlink_to(original / linked)
    before = outside.facts(original)

    def check(verb: tuple[str, ...]) -> None:
        assert outside.changes(before, outside.facts(original)) == [], verb

    run_all(clone, check)
    ended = run("maintain", str(clone), *TIGHT)
    assert ended.returncode == 3
    assert "REFUSED_LINK" in ended.stdout + ended.stderr


@pytest.mark.parametrize("kind", ["hdfs", "rocks"])
@pytest.mark.parametrize("linked", ["state", "state/0/0"])
def test_verbs_that_read_do_so_through_links(tmp_path: Path, kind: str, linked: str) -> None:
    root = grown(tmp_path / "root", kind)
    (root / "state/0/1/9.snapshot").unlink(missing_ok=True)
    through = {verb: run(verb[0], str(root), *verb[1:]) for verb in READERS}
    outside.lead_out(root, linked, tmp_path / "outside")
    for verb in READERS:
        ended = run(verb[0], str(root), *verb[1:])
        assert "Traceback" not in ended.stderr, verb
        if verb[0] in ("show", "digest", "stats"):
            before = through[verb]
            assert (ended.returncode, ended.stdout) == (before.returncode, before.stdout), verb
        else:
            assert ended.returncode == 3, (verb, ended)
            said = " ".join((ended.stdout + ended.stderr).split())
            assert "outside the checkpoint" in said or "REFUSED_LINK" in said, (verb, ended)
    assert run("doctor", str(root)).stdout.startswith("restart:  yes")


def test_a_store_beside_a_linked_one_is_maintained(tmp_path: Path) -> None:
    root = grown(tmp_path / "root")
    (root / "state/0/1/9.snapshot").unlink()
    outside.lead_out(root, "state/0/0", tmp_path / "outside")
    before = outside.facts(tmp_path / "outside")
    [linked, sound] = json.loads(run("maintain", str(root), *TIGHT, "--json").stdout)["stores"]
    assert (linked["outcome"], sound["outcome"]) == ("halted", "done")
    assert outside.facts(tmp_path / "outside") == before


def test_a_rollback_moves_no_entry_of_a_log_that_is_elsewhere(tmp_path: Path) -> None:
    for log in ("commits", "offsets"):
        root = grown(tmp_path / log)
        outside.lead_out(root, log, tmp_path / f"outside-{log}")
        before, state = outside.facts(tmp_path / f"outside-{log}"), outside.facts(root)
        line = told(root, "rollback", "--to-batch", "7", "--apply")
        assert f"{log}/9: its real place is outside the checkpoint" in line
        assert outside.facts(tmp_path / f"outside-{log}") == before
        assert outside.facts(root) == state


def test_an_undo_restores_nothing_outside(tmp_path: Path) -> None:
    root = grown(tmp_path / "root")
    outside.lead_out(root, "state/0/1", tmp_path / "outside")
    before, state = outside.facts(tmp_path / "outside"), outside.facts(root)
    assert "its real place" in told(root, "undo", "00first")
    assert outside.facts(tmp_path / "outside") == before
    assert {one.partition("/")[0] for one in outside.changes(state, outside.facts(root))} == {
        "_statemaint"  # its lease
    }


def test_a_provider_commits_nothing_outside(tmp_path: Path) -> None:
    root = grown(tmp_path / "root")
    outside.lead_out(root, "state/0/0", tmp_path / "outside")
    before = outside.facts(tmp_path / "outside")
    provider = HDFSBackedStateStoreProvider(StoreId(0, 0), LocalStorage(root))
    store = provider.get_store(10)
    store.put(bytes(8), bytes(8))
    with pytest.raises(RefusedLinkError, match="outside the checkpoint"):
        store.commit()
    assert outside.facts(tmp_path / "outside") == before


# -- what works as it did


def test_a_checkpoint_whose_root_is_a_link_is_maintained_as_any(tmp_path: Path) -> None:
    plain, real = grown(tmp_path / "plain"), grown(tmp_path / "real")
    linked = tmp_path / "linked"
    linked.symlink_to(real)
    ignored = lambda _: None  # noqa: E731
    codes = [run_all(root, ignored) for root in (plain, linked)]
    assert codes[0] == codes[1] == dict.fromkeys(codes[0], 0)
    assert paths(plain / "state") == paths(real / "state")


def test_links_that_stay_inside_are_followed(tmp_path: Path) -> None:
    plain, root = grown(tmp_path / "plain"), grown(tmp_path / "root")
    (root / "disk").mkdir()
    shutil.move(root / "state/0/0", root / "disk/0")
    (root / "state/0/0").symlink_to("../../disk/0")
    outside.lead_files_out(root, "state/0/1", root / "disk")
    for one in (plain, root):
        codes = run_all(one, lambda _: None)
        assert codes == dict.fromkeys(codes, 0)
    assert paths(plain / "state/0/0") == paths(root / "disk/0")
    assert paths(plain / "state/0/1") == paths(root / "state/0/1")
    for verb in ("digest", "verify"):
        shown = [run(verb, str(one), "--json").stdout for one in (plain, root)]
        assert shown[0] == shown[1].replace(str(root), str(plain))


def paths(folder: Path) -> list[str]:
    return sorted(one.relative_to(folder).as_posix() for one in folder.rglob("*") if one.is_file())


# -- every folder


def table() -> Iterator[tuple[str, str, Lead]]:
    """Yields every folder of both checkpoints, to be led out whole or file by file."""
    for kind, files in WRITTEN.items():
        parents = {path.rpartition("/")[0] for path in files} - {""}
        whole = {"/".join(one.split("/")[:n]) for one in parents for n in range(1, 9)}
        of_state = {one for one in whole | parents if one.partition("/")[0] == "state"}
        for lead, found in ((outside.lead_out, whole), (outside.lead_files_out, parents)):
            for folder in sorted(found if kind == "hdfs" else found & of_state):
                yield kind, folder, lead


@pytest.mark.parametrize(("kind", "folder", "lead"), list(table()))
def test_no_verb_changes_a_byte_outside(tmp_path: Path, kind: str, folder: str, lead: Lead) -> None:
    root, away = grown(tmp_path / "root", kind), tmp_path / "outside"
    away.mkdir()
    lead(root, folder, away)
    before = outside.facts(away)

    def check(verb: tuple[str, ...]) -> None:
        assert outside.changes(before, outside.facts(away)) == [], verb

    codes = run_all(root, check)
    assert set(codes.values()) <= {0, 2, 3, 6}, codes
    ours = folder.partition("/")[0] == "_statemaint"
    assert codes["4 maintain"] == (0 if folder in ("commits", "offsets") else 3), codes
    assert codes["0 repair"] == 3 or not ours
