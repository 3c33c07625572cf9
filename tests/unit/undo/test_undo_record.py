"""What an undo records: its note among the runs, and a line in the ledger for each file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from statemaint.cli.progress import Meter
from statemaint.errors import LeaseLostError, RefusedLinkError, StorageError, UnreadableError
from statemaint.execute.lease import leased
from statemaint.maintain import undo
from statemaint.model.proof import FileRecord
from statemaint.progress import watched
from statemaint.records.claims import Holder
from statemaint.records.manifest import Note, folder_of, manifest_path, render
from statemaint.records.runs import note_path
from statemaint.scan.proofs import crc32c_of
from statemaint.storage import LocalStorage
from statemaint.undo.history import FileNote, read_history
from statemaint.undo.run import Undone, _places
from tests.support.faults import Clock, HookedStorage

HOME = "state/0/0"
ONE, TWO, THREE = (f"{HOME}/{version}.delta" for version in (1, 2, 3))
NEXT = "the next maintain deletes them again unless its policy retains more"


def trash(names: str = "1.delta 2.delta 3.delta", *, version: int = 3) -> HookedStorage:
    """Returns a checkpoint whose run "run" has moved files away, the n-th of which has n bytes."""
    storage = HookedStorage({f"commits/{version - 1}": b""}, clock=Clock(100.0))
    notes = []
    for size, name in enumerate(names.split(), start=1):
        storage.write(f"{folder_of('run')}/{HOME}/{name}", [b"x" * size])
        notes.append(Note(FileRecord(f"{HOME}/{name}", size, 100.0), 9e9))
    storage.write(manifest_path("run", "0-0"), [render(notes)])
    return storage


def note(storage: HookedStorage) -> Mapping[str, Any]:
    """Returns the note of the only undo; without one it is empty."""
    paths = [path for path in storage.files if path.endswith("/undo.json")]
    return json.loads(storage.files[paths[0]]) if paths else {}


def figures(of: Mapping[str, Any]) -> tuple[int, ...]:
    names = ("files_restored", "bytes_restored", "files_left", "exit_code", "fence")
    return tuple(of[name] for name in names)


@pytest.mark.parametrize(
    ("refused", "after"),
    [((), (3, 6, 0, 0, 1)), ((TWO,), (2, 4, 1, 3, 1)), ((ONE, TWO, THREE), (0, 0, 3, 3, 1))],
    ids=["all", "some", "none"],
)
def test_the_note_of_an_undo_counts_what_is_back_and_what_was_left(
    refused: tuple[str, ...], after: tuple[int, ...]
) -> None:
    """When it begins, the note is that of an undo that was killed."""
    storage, begun = trash(), set()

    def before(verb: str, path: str) -> None:
        if verb == "move":
            begun.add(figures(note(storage)))
            if path.removeprefix(f"{folder_of('run')}/") in refused:
                raise UnreadableError(path, "spark could not read this")

    storage.before = before
    done = undo(storage, "run")
    left = dict.fromkeys(refused, "spark could not read this")
    files, size, *_ = after
    assert done == Undone("run", files, size, left, done.undo, NEXT)
    assert note_path(done.undo, "undo") in storage.files
    assert (begun, figures(note(storage))) == ({(0, 0, 0, 1, 1)}, after)
    assert note(storage)["undo_of"] == "run"


def test_an_undo_that_brings_nothing_back_has_a_note_only_if_the_trash_is_empty() -> None:
    storage = trash("1.delta", version=1)
    storage.write(ONE, [b"another"])
    assert undo(storage, "run").left.keys() == {ONE}
    assert note(storage) == {}
    empty = trash("")
    undo(empty, "run")
    assert figures(note(empty)) == (0, 0, 0, 0, 1)


@pytest.mark.parametrize(
    ("back", "words"),
    [(0, []), (1, ["1 file is in place again"]), (2, ["2 files are in place again"])],
)
def test_an_undo_that_fails_halfway_notes_and_says_what_is_back(
    back: int, words: list[str]
) -> None:
    storage = trash()

    def before(verb: str, path: str) -> None:
        if verb == "move" and len(storage.paths("move")) > back:
            raise StorageError(path, "503")

    storage.before = before
    with pytest.raises(StorageError, match="503") as caught:
        undo(storage, "run")
    said = [f"{text}, and another undo of the run goes on" for text in words]
    assert getattr(caught.value, "__notes__", []) == said
    size = sum((3, 2)[:back])  # the newest come first
    assert figures(note(storage)) == (back, size, 0, 5 if back else 1, 1)


def test_the_progress_of_an_undo_is_in_files() -> None:
    meter = Meter("restoring")
    with watched(meter):
        undo(trash(), "run")
    assert meter.line().startswith("restoring: 3 of 3 files in ")


def test_an_undo_moves_no_further_file_once_another_run_has_the_lease() -> None:
    storage, clock = trash(), Clock(100.0)
    storage._clock = clock

    def after(verb: str, _path: str) -> None:
        if verb == "move":
            clock.now += 90
            with leased(storage, Holder("another")):
                pass

    storage.after = after
    with pytest.raises(LeaseLostError):
        undo(storage, "run")
    assert storage.paths("move") == [f"{folder_of('run')}/{THREE}"]


def test_an_undo_notes_the_bytes_of_each_change_and_zip_whose_time_is_not_its_own() -> None:
    """A move may give a file another time, or has whole seconds in which two files are written."""
    names = ("3.delta", "4.delta", "5.delta", "6.snapshot", "7.zip", "8.delta")
    seen = {"3.delta": 1.0, "4.delta": 1.5, "5.delta": 1.5, "6.snapshot": 1.5, "7.zip": 2.0}
    now = {"3.delta": 1.0, "4.delta": 1.5, "5.delta": 9.5, "6.snapshot": 9.5, "7.zip": 2.0}
    sums = ("3.delta", "5.delta", "7.zip", "8.delta")
    storage = trash(" ".join(names), version=8)
    stored = {name: f"{folder_of('run')}/{HOME}/{name}" for name in names}
    expected = {}
    for size, name in enumerate(names, start=1):
        crc32c = crc32c_of(storage, stored[name]) if name in sums else None
        storage._files[stored[name]] = (storage.files[stored[name]], now.get(name, 1.5))
        line = FileNote("run", 1, size, seen.get(name), crc32c, 100.0)
        expected[f"{HOME}/{name}"] = (line,)
    notes = [
        Note(FileRecord(f"{HOME}/{name}", size, seen[name]), 9e9)
        for size, name in enumerate(names[:-1], start=1)
    ]
    storage.write(manifest_path("run", "0-0"), [render(notes)], overwrite=True)
    assert undo(storage, "run").left == {}
    assert read_history(storage, "run").restored == expected


def test_only_the_folders_of_a_trash_are_listed_each_once() -> None:
    paths = {ONE, f"{HOME}/SSTs/a.sst", "state/0/1/1.delta"}
    storage = HookedStorage(dict.fromkeys((*paths, "state/0/2/1.delta"), b""))
    assert _places(storage, paths) == paths
    assert storage.paths("list") == [HOME, "state/0/1"]


def test_a_link_that_leads_out_of_a_folder_of_the_trash_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_bytes(b"")
    (tmp_path / "root" / HOME).mkdir(parents=True)
    (tmp_path / "root" / TWO).symlink_to(tmp_path / "theirs")
    with pytest.raises(RefusedLinkError, match=r"2\.delta"):
        _places(LocalStorage(tmp_path / "root"), [ONE])


def test_an_undo_shows_the_files_that_stay_and_why() -> None:
    done = Undone("run", 1, 5, {ONE: "it is in use"})
    assert repr(done) == "Undone(run run, 1 file back, 1 left in the trash)"
    assert "<tr><th>path</th><th>why it stays</th></tr>" in done._repr_html_()
