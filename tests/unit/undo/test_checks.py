"""Which files of a trash fit into today's world: the decisions one by one."""

import pytest

from statemaint.codec.rocksdb import snapshot_zip
from statemaint.codec.rocksdb.snapshot_zip import ImmutableFile, ZipMetadata
from statemaint.listing import Entry
from statemaint.model.files import Delta, Snapshot, classify_any
from statemaint.model.ids import UnitId
from statemaint.model.proof import FileRecord
from statemaint.records.manifest import Contents, Note, StoreWorld, folder_of
from statemaint.storage import MemoryStorage
from statemaint.undo.checks import (
    _Fit,
    _in,
    _Log,
    lacking_part,
    parts_of,
    undo_refusals,
    units_of,
    version_in,
)
from statemaint.undo.history import FileNote, LedgerHistory

GONE = "nothing is left of the log above it"


def log(*changed: int, sound: tuple[int, ...] = (), newest: int = 0, **how: bool) -> _Log:
    files = tuple((version, f"{version}.delta") for version in changed)
    return _Log(files, frozenset(sound), newest, "was changed", **how)


def fit(*commits: int, history: LedgerHistory | None = None) -> _Fit:
    storage = MemoryStorage({f"commits/{batch}": b"" for batch in commits})
    return _Fit(storage, Contents("run", (), {}), history or LedgerHistory("run"))


def file(name: str, modified: float | None = None) -> Delta | Snapshot:
    found = classify_any(Entry(f"state/0/0/{name}", 1, modified))
    assert isinstance(found, Delta | Snapshot)
    return found


def world(target: int | None) -> StoreWorld:
    return StoreWorld("state/0/0", target, ())


# -- the log of a store


@pytest.mark.parametrize(
    ("against", "version", "why"),
    [
        (log(5, 8, newest=9), 5, "5.delta was changed; leave it"),
        (log(5, 8, newest=9), 9, "5.delta was changed; leave it"),
        (log(5, 8, newest=9), 4, "5.delta was changed, and the log below it is missing; leave it"),
        (log(9, newest=9), 8, "9.delta was changed, and the log below it is missing; leave it"),
        (log(10, newest=9), 8, GONE),
        (log(8, sound=(4,), newest=9), 4, None),
        (log(8, sound=(4,), newest=9), 3, None),
        (log(8, sound=(4,), newest=9), 5, "8.delta was changed, and the log below it"),
        (log(newest=9), 4, GONE),
        (log(newest=9, noted=False), 4, None),
    ],
)
def test_a_file_fits_below_what_is_unchanged(against: _Log, version: int, why: str | None) -> None:
    found = against.against(version, target=20)
    assert found is None if why is None else found is not None and found.startswith(why)


@pytest.mark.parametrize(
    ("against", "version", "target", "fits"),
    [
        (log(), 5, 4, True),
        (log(), 4, 4, False),
        (log(sound=(3,), newest=3), 4, 3, True),
        (log(sound=(3,), newest=3), 4, 4, False),
        (log(sound=(3,), newest=6), 7, 3, False),
        (log(sound=(3, 6), newest=6), 7, 3, True),
        (log(cut=True), 5, 4, False),
    ],
)
def test_what_was_above_the_log_fits_where_the_log_still_ends(
    against: _Log, version: int, target: int, *, fits: bool
) -> None:
    assert (against.against(version, target) is None) is fits


@pytest.mark.parametrize(
    ("version", "back", "lacking"),
    [
        (7, {9}, 8),
        (8, {9}, None),
        (5, {9}, 8),
        (7, set(), None),
        (7, {7, 9}, None),
        (7, {6}, None),
        (3, {5}, None),
        (3, {6}, 5),
        (4, {6}, 5),
        (9, {12}, None),
        (8, {12}, 9),
    ],
)
def test_nothing_comes_back_below_a_gap(version: int, back: set[int], lacking: int | None) -> None:
    """The commit log asks for the versions 5 to 9."""
    why = fit(4, 5, 6, 7, 8)._lone(version, back)
    if lacking is None:
        assert why is None
    else:
        assert why is not None
        assert why.startswith(f"version {lacking}, which the commit log requires, is missing")


@pytest.mark.parametrize(
    ("version", "then", "fits"), [(9, 3, True), (10, 9, True), (10, 8, False), (10, None, False)]
)
def test_above_the_newest_committed_version_it_fits_where_that_is_the_same(
    version: int, then: int | None, *, fits: bool
) -> None:
    why = fit(8)._above(file(f"{version}.delta"), world(then))
    assert (why is None) is fits
    assert fits or (why is not None and why.startswith(f"version {version} is above the newest"))


def test_above_the_newest_committed_version_no_file_of_an_unknown_world_fits() -> None:
    assert fit(8)._above(file("10.delta"), None) is not None
    assert fit(8)._above(file("9.delta"), None) is None
    assert fit()._above(file("1.delta"), world(None)) is None


@pytest.mark.parametrize(
    ("name", "then", "fits"),
    [
        ("9.snapshot", 8, False),
        ("9.snapshot", None, False),
        ("9.snapshot", 9, True),
        ("10.snapshot", 8, True),
        ("9.delta", 8, True),
    ],
)
def test_a_snapshot_from_above_the_log_does_not_fit_once_its_batch_has_run(
    name: str, then: int | None, *, fits: bool
) -> None:
    why = fit(8)._overtaken(file(name), world(then))
    assert (why is None) is fits
    assert fits or why == (
        "version 9 was committed after run run removed it; leave it in the trash, "
        "`statemaint doctor` reports what the checkpoint needs"
    )
    assert fit(8)._overtaken(file(name), None) is None


def test_the_first_snapshot_above_the_log_does_not_fit_once_its_batch_has_run() -> None:
    assert fit(8)._overtaken(file("1.snapshot"), world(None)) is not None


# -- the log of a store, as a run noted it

HOME = "state/0/0"


def noted(target: int | None, *names: str) -> StoreWorld:
    return StoreWorld(
        HOME, target, tuple(FileRecord.of(file(name, 1.0).entry, {}) for name in names)
    )


def compared(
    noted: StoreWorld,
    *there: Delta | Snapshot,
    highest: int = 0,
    history: LedgerHistory | None = None,
) -> _Log:
    return fit(8, history=history)._log(HOME, noted, None, [*there], highest)


@pytest.mark.parametrize(
    ("then", "newest"),
    [
        (noted(3, "3.delta", "4.delta"), 3),
        (noted(None, "1.delta"), 0),
        (noted(3), 0),
    ],
    ids=["above the target", "no target", "no files"],
)
def test_the_newest_version_that_a_run_saw_is_a_committed_one(
    then: StoreWorld, newest: int
) -> None:
    assert compared(then).newest == newest


@pytest.mark.parametrize(("highest", "changed"), [(2, 0), (3, 1), (4, 1)])
def test_files_up_to_those_that_went_may_have_changed(highest: int, changed: int) -> None:
    assert len(compared(noted(2), file("3.delta", 9.0), highest=highest).changed) == changed
    assert len(compared(noted(3, "3.delta"), file("3.delta", 9.0)).changed) == 1


def test_a_log_is_cut_where_a_change_above_it_is_gone() -> None:
    def removed(name: str) -> LedgerHistory:
        return LedgerHistory("run", removed={
            "x": (FileNote("run", 1),), f"{HOME}/{name}": (FileNote("later", 2),)
        })  # fmt: skip

    then = noted(3, "3.delta")
    assert compared(then, history=removed("4.delta")).cut
    assert not compared(then, history=removed("4.snapshot")).cut
    assert not compared(then, history=removed("3.changelog")).cut


def test_zips_of_maintenance_are_no_evidence_and_what_follows_them_is() -> None:
    history = LedgerHistory("run", written=frozenset({f"{HOME}/5.zip"}))
    there = [file("5.zip"), file("6.zip"), file("7.changelog")]
    assert [*fit(history=history)._evidence(there, (), zips=True)] == there[1:]
    assert [*fit(history=history)._evidence(there, there[0].entry.path, zips=True)] == there
    assert [*fit(history=history)._evidence(there, (), zips=False)] == there[2:]


@pytest.mark.parametrize(("later", "changed"), [(b"x", False), (b"y", True), (None, True)])
def test_a_file_has_changed_if_a_later_run_removed_another_one(
    later: bytes | None, *, changed: bool
) -> None:
    path = f"{HOME}/3.delta"
    mine = f"{folder_of('run')}/{path}"
    storage = MemoryStorage({mine: b"x"})
    if later:
        storage.write(f"{folder_of('later')}/{path}", [later])
    history = LedgerHistory("run", removed={path: (FileNote("run", 1), FileNote("later", 2))})
    found = Contents("run", (), {path: storage.stat(mine)})
    again = _Fit(storage, found, history)._written_again(HOME, zips=False)
    assert again == ([(3, path)] if changed else [])


def test_a_file_that_the_undo_of_an_earlier_run_restored_is_no_change() -> None:
    path = f"{HOME}/2.delta"
    removed = {path: (FileNote("earlier", 1),), f"{HOME}/3.delta": (FileNote("run", 2),)}
    for fence, changed in ((3, 0), (2, 1)):
        back = FileNote("earlier", fence, 1, 9.0, None, 0.0)
        history = LedgerHistory("run", {path: (back,)}, removed)
        there = (file("2.delta", 9.0), file("3.delta", 9.0))
        found = compared(noted(3, "3.delta"), *there, highest=3, history=history)
        assert len(found.changed) == changed + 1
        assert found.sound == frozenset()


def test_a_store_may_be_noted_in_one_manifest_and_not_in_another() -> None:
    """A run of an earlier build was continued by this one."""
    paths = [f"{HOME}/{version}.delta" for version in (3, 4)]
    trashed = {path: Entry(f"{folder_of('run')}/{path}", 1, 1.0) for path in paths}
    seen = [FileRecord(path, 1, 1.0) for path in paths]
    notes = {
        paths[0]: Note(seen[0], 9.0, since=5.0, world=noted(5, "5.delta")),
        paths[1]: Note(seen[1], 9.0, since=5.0),
    }
    storage = MemoryStorage({"commits/4": b"", f"{HOME}/5.delta": b"x"})
    why = undo_refusals(storage, Contents("run", (), trashed, notes), LedgerHistory("run"))
    assert [one.partition(" ")[0] for one in why.values()] == [f"{HOME}/5.delta"]


@pytest.mark.parametrize("stale", [False, True])
def test_a_snapshot_that_did_not_hold_the_state_of_its_log_never_comes_back(*, stale: bool) -> None:
    path = f"{HOME}/3.snapshot"
    stored = Entry(f"{folder_of('run')}/{path}", 1, 1.0)
    notes = {path: Note(FileRecord(path, 1, 1.0), 9.0, since=1.0, stale=stale)}
    storage = MemoryStorage({"commits/2": b""})
    why = undo_refusals(storage, Contents("run", (), {path: stored}, notes), LedgerHistory("run"))
    assert [*why] == [path] * stale
    assert all("did not hold the state of the log" in text for text in why.values())


# -- what earlier builds noted


def test_without_a_noted_log_each_file_newer_than_the_manifest_has_changed() -> None:
    back = {"state/0/0/7.delta": (FileNote("run", 0, 1, None, None, 0.0),)}
    there = [
        file("4.delta", 10.0), file("5.delta", 10.5), file("6.delta"), file("7.delta", 99.0)
    ]  # fmt: skip
    found = fit(history=LedgerHistory("run", back))._old_log(there, 10.0)
    assert found.changed == ((5, "state/0/0/5.delta"), (6, "state/0/0/6.delta"))
    assert (found.newest, found.noted, found.cut, found.sound) == (0, False, False, frozenset())
    assert found.new.startswith("is newer than the manifest of run run")
    assert len(fit()._old_log(there, None).changed) == 4


# -- names


def test_only_files_of_a_partition_have_a_unit() -> None:
    paths = ("state/0/1/3.delta", "state/2/3/left/4.delta", "state/x/1/3.delta", "state/7/8",
             "state/1/x/3.delta", "commits/0/1/3")  # fmt: skip
    assert units_of(paths) == {UnitId(0, 1), UnitId(2, 3)}


def test_the_committed_versions_are_one_above_the_batches() -> None:
    entries = dict.fromkeys(("commits/3", "commits/12", "commits/.13.crc", "commits/x"), b"")
    for files, versions in ((entries, (4, 13)), ({}, (0, 0))):
        found = _Fit(MemoryStorage(files), Contents("run", (), {}), LedgerHistory("run"))
        assert (found._required, found._target) == versions


def test_a_path_is_in_its_own_directory_alone() -> None:
    assert _in("state/0/0/3.delta", "state/0/0")
    assert not _in("state/0/0/left/3.delta", "state/0/0")
    assert not _in("state/0/0/3.delta", "state/0")


def test_a_zip_has_a_version_only_where_zips_are_the_log() -> None:
    assert version_in("state/0/0/5.zip") == 5
    assert version_in("state/0/0/5.zip", zips=False) == 0
    assert version_in("state/0/0/5.delta", zips=False) == 5
    assert version_in("state/0/0/5.sst") == 0


# -- what a zip refers to

SST = "000008-82f52d94-7c5c-45e0-a72c-f24a4fab8a5d.sst"
OTHER = SST.replace("000008", "000009")
PART = f"state/0/0/SSTs/{SST}"
METADATA = ZipMetadata((ImmutableFile("000008.sst", SST, 5),))


def zip_in_trash(files: dict[str, bytes]) -> tuple[MemoryStorage, Contents]:
    content = snapshot_zip.render({}, METADATA)
    stored = f"{folder_of('run')}/state/0/0/3.zip"
    storage = MemoryStorage({stored: content, **files})
    trashed = {
        one.path.removeprefix(f"{folder_of('run')}/"): one for one in storage.list(folder_of("run"))
    }
    return storage, Contents("run", (), trashed)


def test_only_a_sound_zip_refers_to_files() -> None:
    content = snapshot_zip.render({}, METADATA)
    storage = MemoryStorage({"sound": content, "broken": content[:-1]})
    assert parts_of(storage, "sound", "state/0/0/3.zip") == {PART: 5}
    assert parts_of(storage, "broken", "state/0/0/3.zip") == {}
    assert parts_of(storage, "sound", "state/0/0/3.snapshot") == {}


@pytest.mark.parametrize(
    ("files", "lacking"),
    [
        ({PART: b"12345"}, None),
        ({f"{folder_of('run')}/{PART}": b"12345"}, None),
        ({}, "is missing"),
        ({PART: b"1234"}, "is missing"),
        ({f"{folder_of('run')}/{PART}": b"1234"}, "is missing"),
        (
            {f"{folder_of('other')}/{PART}": b"12345"},
            "was removed by run other; undo that run first",
        ),
    ],
    ids=["there", "in the trash", "nowhere", "another", "another in the trash", "of another run"],
)
def test_a_zip_comes_back_with_all_that_it_refers_to(
    files: dict[str, bytes], lacking: str | None
) -> None:
    said = f"{PART}, which state/0/0/3.zip refers to, {lacking}"
    assert lacking_part(*zip_in_trash(files), "state/0/0/3.zip") == (said if lacking else None)


def trash_of(
    *manifests: str, parts: tuple[str, ...] = (), zips: bool = True, placed: tuple[str, ...] = ()
) -> dict[str, str]:
    """Returns which files of a trash stay: of a zip that refers to two SST files, and of those."""
    files = tuple(ImmutableFile(f"{one[:6]}.sst", one, 1) for one in (SST, OTHER))
    stored = {f"{HOME}/3.zip": snapshot_zip.render({}, ZipMetadata(files))} if zips else {}
    stored |= {f"{HOME}/SSTs/{one}": b"x" for one in parts}
    storage = MemoryStorage({f"{folder_of('run')}/{path}": one for path, one in stored.items()})
    there = {
        one.path.removeprefix(f"{folder_of('run')}/"): one for one in storage.list(folder_of("run"))
    }
    noted = tuple(Entry(f"{folder_of('run')}/manifest/{one}", 1, 1.0) for one in manifests)
    notes = {path: Note(FileRecord.of(entry, {}), 9.0, since=1.0) for path, entry in there.items()}
    for path in ("commits/2", *(f"{HOME}/SSTs/{one}" for one in placed)):
        storage.write(path, [b"x"])
    return undo_refusals(storage, Contents("run", noted, there, notes), LedgerHistory("run"))


def test_what_only_staying_zips_refer_to_stays_with_them() -> None:
    assert trash_of(parts=(SST, OTHER)) == {}
    assert trash_of(parts=(SST,), zips=False) == {}
    missing = {f"{HOME}/3.zip": f"{HOME}/SSTs/{OTHER}, which {HOME}/3.zip refers to, is missing"}
    assert trash_of(placed=(SST,)) == missing
    staying = {PART: f"only {HOME}/3.zip refers to it, which stays"}
    assert trash_of(parts=(SST,)) == missing | staying


@pytest.mark.parametrize(
    ("manifest", "stays"), [("0-0.page-000001.jsonl", True), ("repair.jsonl", False)]
)
def test_only_a_zip_that_a_repair_replaced_comes_back_without_its_files(
    manifest: str, *, stays: bool
) -> None:
    assert (f"{HOME}/3.zip" in trash_of(manifest)) is stays


@pytest.mark.parametrize("directory", ["state/1/0", "state/1/0/SSTs"])
@pytest.mark.parametrize(
    ("state", "back"),
    [((), ()), (("state/1/0/4.delta",), ()), (("state/1/0/4.zip",), ()), ((), ("4.snapshot",))],
)
def test_a_leftover_comes_back_only_beside_state(
    directory: str, state: tuple[str, ...], back: tuple[str, ...]
) -> None:
    names = {"SSTs": f".{SST}", "0": ".4.snapshot"}
    name = names[directory.rpartition("/")[2]]
    path = f"{directory}/{name}.11111111-2222-3333-4444-555555555555.tmp"
    others = ("state/1/0/notes.txt", "state/0/0/4.delta", "commits/3")
    trashed = {
        one: Entry(f"{folder_of('run')}/{one}", 0, None)
        for one in (path, *(f"state/1/0/{name}" for name in back))
    }
    stored = [entry.path for entry in trashed.values()]
    storage = MemoryStorage(dict.fromkeys((*state, *others, *stored), b""))
    trash = Contents("run", (), trashed)
    why = "state/1/0 has no state any more; leave it"
    found = undo_refusals(storage, trash, LedgerHistory("run"))
    assert {one: text.startswith(why) for one, text in found.items()} == (
        {} if state or back else {path: True}
    )
