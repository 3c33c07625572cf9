"""The log of a file sink is written with a savepoint, to an empty folder, before it can start."""

from pathlib import Path

import pytest

from statemaint.errors import ConfigError, StorageError
from statemaint.savepoint import savepoint
from statemaint.savepoint.compactible import sink_log_of
from statemaint.savepoint.run import UNFINISHED
from statemaint.storage import LocalStorage, MemoryStorage, Storage
from tests.support.archived import archived
from tests.support.checkpoints import write_checkpoint
from tests.support.faults import Clock, FailingStorage, HookedStorage, each_crash
from tests.support.program import run


class Place(HookedStorage):
    """A storage at an address of its own."""

    def __init__(self, name: str, files: dict[str, bytes] | None = None) -> None:
        super().__init__(files or {}, clock=Clock())
        self.name = name

    @property
    def root(self) -> str:
        return f"memory:{self.name}"


@pytest.fixture
def source() -> Place:
    return Place("source", archived(("4.3.0", "aggregation2")).files)


def log_of(batch: int) -> dict[str, bytes]:
    return {path: b"".join(chunks) for path, chunks in sink_log_of(batch)}


def test_the_sink_gets_its_log_before_the_savepoint_can_start(source: Place) -> None:
    clock, whole, sinks = Clock(), 0, []

    def save(dest: Storage) -> None:
        sinks.append(Place("sink"))
        savepoint(source, dest, sink=sinks[-1])

    for _, left in each_crash(MemoryStorage(clock=clock), clock, save):
        if left.files.get("metadata", UNFINISHED) != UNFINISHED:
            batch = max(int(path[8:]) for path in left.files if path.startswith("commits/"))
            assert sinks[-1].files == log_of(batch)
            whole += 1
    assert whole


def test_a_sink_that_cannot_be_written_keeps_it_from_starting(source: Place) -> None:
    dest, failing = Place("dest"), FailingStorage({}, at=1, after=False, clock=Clock())
    with pytest.raises(StorageError):
        savepoint(source, dest, sink=failing)
    assert dest.files["metadata"] == UNFINISHED
    assert len(failing.files) == 1
    sink = Place("sink", failing.files)
    batch = savepoint(source, dest, sink=sink).note.batch
    assert sink.files == log_of(batch)
    assert dest.files["metadata"] != UNFINISHED


def test_what_a_killed_run_wrote_to_the_sink_is_no_log_for_an_older_batch(source: Place) -> None:
    dest, failing = Place("dest"), FailingStorage({}, at=3, after=False, clock=Clock())
    with pytest.raises(StorageError):
        savepoint(source, dest, sink=failing)
    sink = Place("sink", failing.files)
    with pytest.raises(ConfigError, match=r"not empty, it has _spark_metadata/1\d; give a new one"):
        savepoint(source, dest, batch=9, sink=sink)
    assert (sink.files, dest.files["metadata"]) == (failing.files, UNFINISHED)


def test_a_whole_savepoint_gets_the_log_of_a_sink_later(source: Place) -> None:
    dest, sink = Place("dest"), Place("sink")
    batch = savepoint(source, dest).note.batch
    before = dest.files
    savepoint(source, dest, batch=batch, sink=sink)
    assert (dest.files, sink.files) == (before, log_of(batch))


def test_a_dry_run_writes_no_log(source: Place) -> None:
    sink = Place("sink")
    savepoint(source, Place("dest"), sink=sink, dry_run=True)
    assert sink.files == {}


@pytest.mark.parametrize(
    "files",
    [{"part-0.json": b"{}"}, {"_spark_metadata/0": b"v1\n{}"}, {"_spark_metadata/9999": b"v1"}],
    ids=["output", "an entry with output", "an entry of a later batch"],
)
@pytest.mark.parametrize("whole", [False, True])
def test_a_sink_that_is_not_empty_is_refused(
    source: Place, files: dict[str, bytes], *, whole: bool
) -> None:
    dest, sink = Place("dest"), Place("sink", files)
    batch = savepoint(source, dest).note.batch if whole else None
    before = dest.files
    with pytest.raises(ConfigError, match=rf"memory:sink: .* it has {next(iter(files))}; give"):
        savepoint(source, dest, batch=batch, sink=sink)
    assert (dest.files, sink.files) == (before, files)


@pytest.mark.parametrize(
    ("folder", "text"),
    [
        ("ck/out", "the sink cannot be in the folder of the checkpoint"),
        ("dest/out", "the sink cannot be in the folder of the savepoint"),
        ("", "the checkpoint cannot be in the folder of the sink"),
    ],
)
def test_a_sink_is_apart_from_both_checkpoints(tmp_path: Path, folder: str, text: str) -> None:
    places = [LocalStorage(tmp_path / one) for one in ("ck", "dest", folder)]
    with pytest.raises(ConfigError, match=text):
        savepoint(places[0], places[1], sink=places[2])
    assert not list(tmp_path.iterdir())


def test_the_flag_names_the_folder(tmp_path: Path) -> None:
    root, dest, sink = (tmp_path / name for name in ("ck", "dest", "out"))
    root.mkdir()
    write_checkpoint(LocalStorage(root))
    done = run("savepoint", str(root), str(dest), "--sink-log", str(sink))
    assert done.returncode == 0
    assert (
        done.stdout.splitlines()[-1] == f"sink      {sink}, with the log that its file sink reads"
    )
    names = {file.name for file in (sink / "_spark_metadata").iterdir()}
    assert names == {"9.compact", "19.compact", "20", "21", "22", "23", "24"}
    (sink / "part-0.json").write_text("{}")
    refused = run("savepoint", str(root), str(tmp_path / "other"), "--sink-log", str(sink))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.count("\n") == 1
    assert not (tmp_path / "other").exists()
