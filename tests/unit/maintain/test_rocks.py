"""Maintaining stores of RocksDB, with RocksDB itself."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from statemaint.audit import digest_stores, verify
from statemaint.codec.integrity.digest import digest, digest_key
from statemaint.codec.rocksdb import changelog
from statemaint.errors import LeaseLostError
from statemaint.execute.deleter import Deleter
from statemaint.maintain import maintain, undo
from statemaint.model.chain import Chain
from statemaint.model.findings import FindingCode
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.plan.actions import Request
from statemaint.records.attestations import attestation_path
from statemaint.records.claims import Holder
from statemaint.report.run import Report
from statemaint.scan.scanner import scan
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import UUID, offsets_bytes, state_at
from tests.support.faults import Clock, Crash, CrashingStorage, HookedStorage, on
from tests.support.rocks import (
    PROVIDER,
    commit_bytes,
    parts_of,
    rocks_changes,
    unique_id,
    write_changelog,
    write_rocks_checkpoint,
)

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=3, grace=0, orphan_age=0)
STORE = StoreId(0, 0)
KEY = digest_key("11111111-2222-3333-4444-555555555555")


def written(storage: MemoryStorage) -> set[str]:
    names = (path.removeprefix("state/0/0/") for path in storage.files)
    return {name for name in names if name.endswith((".changelog", ".zip"))}


def tables(storage: MemoryStorage) -> set[str]:
    folder = "state/0/0/SSTs/"
    return {path.removeprefix(folder) for path in storage.files if path.startswith(folder)}


def needed(storage: MemoryStorage) -> set[str]:
    zips = (content for path, content in storage.files.items() if path.endswith(".zip"))
    return {name for content in zips for name in parts_of(content)}


def must_load(storage: MemoryStorage, known: set[object] | None = None) -> None:
    """Every retained version holds what its changes add up to.

    What is in `known` was seen before: files of these names and bytes.
    """
    seen = scan(storage)
    assert seen.required is not None
    assert seen.target is not None
    (store,) = seen.stores
    for version in range(seen.required, seen.target + 1):
        chain = store.versions.chain(version)
        assert isinstance(chain, Chain)
        files = tuple((path, hash(storage.files[path])) for path in chain.paths)
        if known is None or files not in known:
            ((_, found),) = digest_stores(storage, version=version)[1]
            assert found == digest(state_at(version).items(), KEY)
            (set() if known is None else known).add(files)


def grow(storage: MemoryStorage, first: int, last: int, *, with_ids: bool = False) -> None:
    """Lets the query go on, with three commits left in its log."""
    for version in range(first, last + 1):
        write_changelog(storage, STORE, version, rocks_changes(version), with_ids=with_ids)
        ids = {"0": [[unique_id(STORE, version)]]} if with_ids else None
        storage.write(f"offsets/{version - 1}", [offsets_bytes({"providerClass": PROVIDER})])
        storage.write(f"commits/{version - 1}", [commit_bytes(ids)])
    for path in list(storage.files):
        folder, _, batch = path.rpartition("/")
        if folder in ("offsets", "commits") and int(batch) < last - 3:
            storage.delete(path)


@pytest.fixture(params=[False, True])
def storage(request: pytest.FixtureRequest) -> MemoryStorage:
    """A neglected store of 12 versions, without unique ids and with them."""
    found = MemoryStorage()
    write_rocks_checkpoint(
        found, last=12, batches=range(9, 12), partitions=1, with_ids=request.param
    )
    return found


def stem(storage: MemoryStorage, version: int) -> str:
    plain = f"state/0/0/{version}.changelog" in storage.files
    return f"{version}" if plain else f"{version}_{unique_id(STORE, version)}"


def codes(report: Report) -> list[FindingCode]:
    return [one.code for one in report.findings]


def test_a_run_that_stood_still_for_too_long_does_not_call_its_own_zip_damaged(
    storage: MemoryStorage,
) -> None:
    """Another run has deleted its tables as orphans before it put the zip in place."""

    def overtake() -> None:
        for path in [path for path in storage.files if path.endswith(".sst")]:
            storage.delete(path)
        lease = "_statemaint/lease/0000000001.json"
        fields = json.loads(storage.files[lease]) | {"run": "another"}
        storage.write(lease.replace("1.json", "2.json"), [json.dumps(fields).encode()])

    overtaken = HookedStorage(storage, after=on("write", "*.zip", overtake))
    with pytest.raises(LeaseLostError, match="another run has taken it over"):
        maintain(overtaken, TIGHT)


def test_a_neglected_store_is_rolled_up_and_what_nobody_needs_goes(storage: MemoryStorage) -> None:
    stems = {version: stem(storage, version) for version in range(1, 13)}
    report = maintain(storage, TIGHT)
    assert (report.exit_code, codes(report)) == (0, [])
    assert report.files_deleted == {"below_base": 8}
    zips = {f"{stems[version]}.zip" for version in (9, 12)}
    assert written(storage) == zips | {f"{stems[one]}.changelog" for one in range(9, 13)}
    assert tables(storage) == needed(storage) != set()
    must_load(storage)
    assert verify(storage, deep=True).findings == ()
    assert maintain(storage, TIGHT).plan.idle


def test_two_zips_of_a_store_come_of_one_fold(storage: MemoryStorage) -> None:
    reading = HookedStorage(storage)
    report = maintain(reading, TIGHT)
    assert report.snapshots_written == 2
    changelogs = Counter(path for path in reading.paths("read") if path.endswith(".changelog"))
    again = [path for path, count in changelogs.items() if count > 1]
    newest = f"state/0/0/{stem(storage, 12)}.changelog"
    for_its_ids = [newest] if "_" in newest else []
    assert (len(changelogs), again) == (12, for_its_ids)


def test_the_proof_of_a_zip_is_of_all_its_rows(storage: MemoryStorage) -> None:
    (store,) = maintain(storage, TIGHT).stores
    assert store.attestation is not None
    assert store.attestation.version == 12
    assert store.attestation.rows == len(state_at(12))
    assert store.attestation.files == 12
    assert scan(storage).stores[0].since == 12


def test_what_was_written_counts_with_its_tables(storage: MemoryStorage) -> None:
    report = maintain(storage, TIGHT)
    new = [
        len(content) for path, content in storage.files.items() if path.endswith((".zip", ".sst"))
    ]
    assert report.bytes_written == sum(new)
    (store,) = report.stores
    assert {file.entry.path for file in store.after.files} == {
        path for path in storage.files if path.startswith("state/")
    }


def long_after(clock: Clock | None = None) -> MemoryStorage:
    """A store that we have maintained, and that executors have left alone for long."""
    storage = MemoryStorage(clock=clock or Clock(0.0))
    write_rocks_checkpoint(storage, last=12, batches=range(9, 12), partitions=1)
    maintain(storage, TIGHT)
    known = attestation_path(STORE)
    found = json.loads(storage.read(known)) | {"since": -10}
    for one in found["attestations"]:
        one["target"] = -10
    storage.write(known, [json.dumps(found).encode()], overwrite=True)
    grow(storage, 13, 20)
    return storage


def test_once_executors_have_been_quiet_zips_and_tables_go_too() -> None:
    storage = long_after()
    before = tables(storage)
    report = maintain(storage, TIGHT)
    assert report.files_deleted["below_base"] == 1 + 8
    zips = {name for name in written(storage) if name.endswith(".zip")}
    # Whoever has loaded before we wrote the new ones has loaded the second, and may build on it.
    assert zips == {"12.zip", "17.zip", "20.zip"}
    # What has not changed since the first zips is shared with them, and is still there.
    assert before & needed(storage)
    assert needed(storage) <= tables(storage)
    must_load(storage)
    # What the new zips could have shared and did not goes in the next run.
    maintain(storage, TIGHT)
    assert tables(storage) == needed(storage)
    assert maintain(storage, TIGHT).plan.idle


def test_in_the_next_versions_it_shares_no_table_with_what_executors_may_delete() -> None:
    storage = write_rocks_checkpoint(MemoryStorage(), last=12, batches=range(9, 12), partitions=1)
    maintain(storage, TIGHT)
    first = tables(storage)
    grow(storage, 13, 17)
    report = maintain(storage, TIGHT)
    assert report.snapshots_written == 1
    assert "17.zip" in written(storage)
    assert not first & set(parts_of(storage.files["state/0/0/17.zip"]))
    assert {"9.zip", "12.zip"} <= written(storage)
    must_load(storage)


@pytest.mark.parametrize("after", [False, True])
def test_after_a_crash_at_any_change_the_next_run_converges(*, after: bool) -> None:
    start, holder = long_after().files, Holder("the same run")
    rested = MemoryStorage(start)
    maintain(rested, TIGHT, run="the same run")
    goal, crashes, known = written(rested), 0, set[object]()
    while True:
        storage = CrashingStorage(start, at=crashes, after=after)
        try:
            maintain(storage, TIGHT, run="the same run", holder=holder)
        except Crash:
            must_load(storage, known)
            assert needed(storage) <= tables(storage)
            again = MemoryStorage(storage.files)
            assert maintain(again, TIGHT, run="the same run", holder=holder).exit_code == 0
            assert written(again) == goal
            maintain(again, TIGHT, holder=holder)
            assert needed(again) == tables(again)
            must_load(again, known)
            crashes += 1
            continue
        break
    assert crashes == storage.changes
    assert crashes > 20


def test_an_undo_brings_zips_and_their_tables_back() -> None:
    storage = long_after(Clock())
    before = {path: one for path, one in storage.files.items() if path.startswith("state/")}
    report = maintain(storage, replace(TIGHT, trash_for=3600.0))
    assert report.files_deleted.total() > 9
    undo(storage, report.run)
    now = storage.files
    assert {path: now[path] for path in before} == before
    assert needed(storage) <= tables(storage)
    must_load(storage)


def test_a_zip_that_comes_while_tables_go_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = long_after()
    asked: list[str] = []
    look = Deleter._no_other_snapshot

    def upload_first(self: Deleter, page: tuple[object, ...]) -> None:
        if any(not one.version for one in page) and not asked:  # type: ignore[attr-defined]
            asked.append("tables")
            storage.write("state/0/0/21.zip", [storage.files["state/0/0/12.zip"]])
        look(self, page)  # type: ignore[arg-type]

    monkeypatch.setattr(Deleter, "_no_other_snapshot", upload_first)
    needs = set(parts_of(storage.files["state/0/0/12.zip"]))
    report = maintain(storage, TIGHT)
    assert codes(report) == [FindingCode.SUPERSEDED]
    assert needs <= tables(storage)


def test_a_zip_that_comes_while_ours_is_made_stops_one_that_shares_tables() -> None:
    storage = long_after()

    def upload() -> None:
        late = storage.files["state/0/0/12.zip"]
        storage.write("state/0/0/14.zip", [late], overwrite=True)

    uploading = HookedStorage(storage, before=on("open", "state/0/0/13.changelog", upload))
    report = maintain(uploading, TIGHT)
    assert codes(report) == [FindingCode.SUPERSEDED]
    assert "state/0/0/14.zip" in report.findings[0].detail
    assert "20.zip" not in written(uploading)


def test_a_zip_that_comes_before_ours_is_in_place_keeps_ours_away(storage: MemoryStorage) -> None:
    """Spark's clean-up would take ours for the newest of its own, and delete the tables of theirs.

    An executor that has just uploaded some builds its next snapshot on them.
    """

    def upload() -> None:
        storage.write("state/0/0/19.zip", [b"theirs"])

    uploading = HookedStorage(storage, before=on("write", "*/SSTs/*", upload, once=True))
    before = {one for one in uploading.files if one.startswith("state/")}
    report = maintain(uploading, TIGHT)
    assert codes(report) == [FindingCode.SUPERSEDED]
    assert "state/0/0/19.zip" in report.findings[0].detail
    assert {one for one in uploading.files if one.startswith("state/")} == {
        *before,
        "state/0/0/19.zip",
    }


@pytest.mark.parametrize("uploaded", [False, True])
def test_a_zip_of_ours_whose_tables_an_executor_has_cleaned_up_for_its_own_is_no_damage(
    storage: MemoryStorage,
    uploaded: bool,  # noqa: FBT001
) -> None:
    def clean_up(verb: str, path: str) -> None:
        if verb == "write" and path.startswith("state/0/0/") and path.endswith(".zip"):
            for name in parts_of(storage.files[path]):
                storage.delete(f"state/0/0/SSTs/{name}")
            if uploaded:
                storage.write("state/0/0/19.zip", [b"theirs"])

    report = maintain(HookedStorage(storage, after=clean_up), TIGHT)
    code = FindingCode.SUPERSEDED if uploaded else FindingCode.MISSING_SST
    assert codes(report) == [code]


@pytest.mark.parametrize("what", ["is gone", "is cut", "is another one"])
@pytest.mark.parametrize("grace", [0.0, 3600.0])
def test_nothing_goes_on_the_strength_of_a_base_of_which_a_table(what: str, grace: float) -> None:
    """It happens when the zip is looked at before a deletion."""
    clock = Clock()
    storage = long_after(clock)
    clock.now += 86_400
    policy = replace(TIGHT, grace=grace)
    if grace:  # what it then relies on was written by the run before; else by this one
        maintain(storage, replace(policy, max_deletes_per_run=0))
        clock.now += 86_400
    base = maintain(storage, policy, dry_run=True).plan.stores[0].base
    assert base == "state/0/0/17.zip"
    lost: list[str] = []

    def lose() -> None:
        lost.append(f"state/0/0/SSTs/{parts_of(storage.files[base])[0]}")
        content = storage.files[lost[0]]
        clock.now += 1
        if what == "is gone":
            storage.delete(lost[0])
        else:
            other = content[::-1] if what == "is another one" else content[:-1]
            storage.write(lost[0], [other], overwrite=True)

    losing = HookedStorage(storage, before=on("stat", base, lose, once=True))
    before = written(storage)
    report = maintain(losing, policy)
    assert any(lost[0] in finding.detail for finding in report.findings)
    assert codes(report) == [FindingCode.SUPERSEDED]
    assert before <= written(storage)


def test_a_damaged_changelog_halts_its_store(storage: MemoryStorage) -> None:
    path = next(path for path in storage.files if path.startswith("state/0/0/5"))
    storage.write(path, [storage.files[path][:-9]], overwrite=True)
    report = maintain(storage, TIGHT)
    assert codes(report) == [FindingCode.CORRUPT_FILE]
    assert report.exit_code == 3
    assert not [name for name in written(storage) if name.endswith(".zip")]


def test_a_zip_that_does_not_hold_the_fold_is_found_before_anything_goes() -> None:
    storage = write_rocks_checkpoint(MemoryStorage(), last=12, batches=range(9, 12), partitions=1)
    other = MemoryStorage()
    write_rocks_checkpoint(
        other, last=9, batches=range(6, 9), partitions=1,
        contents=lambda version, _: [(changelog.PUT, b"k%d" % version, b"another query")],
    )  # fmt: skip
    maintain(other, replace(TIGHT, rebase=False))
    for path, content in other.files.items():
        if path.endswith((".zip", ".sst")):
            storage.write(path, [content])
    report = maintain(storage, TIGHT)
    assert codes(report) == [FindingCode.SNAPSHOT_MISMATCH]
    assert len([name for name in written(storage) if name.endswith(".changelog")]) == 12


def test_spark_being_first_with_a_zip_leaves_none_of_our_tables() -> None:
    storage = write_rocks_checkpoint(MemoryStorage(), last=12, batches=range(9, 12), partitions=1)
    theirs = MemoryStorage(storage.files)
    maintain(theirs, TIGHT)

    def be_first() -> None:
        path = "state/0/0/12.zip"
        for name, content in theirs.files.items():
            if name == path or name.rpartition("/")[2] in parts_of(theirs.files[path]):
                storage.write(name, [content])

    second = HookedStorage(storage, before=on("write", "state/0/0/12.zip", be_first, once=True))
    report = maintain(second, TIGHT)
    assert report.exit_code == 0
    assert report.snapshots_written == 1  # the floor's alone
    assert tables(second) == needed(second)
    must_load(second)


def test_a_snapshot_that_is_there_is_not_forced_twice() -> None:
    storage = long_after()
    maintain(storage, TIGHT)
    report = maintain(storage, TIGHT, request=Request(force_snapshot=True))
    assert report.snapshots_written == 0


def test_verify_names_tables_that_no_zip_refers_to() -> None:
    storage = long_after()
    maintain(storage, TIGHT)
    maintain(storage, TIGHT)
    path = f"state/0/0/SSTs/000008-{UUID}.sst"
    storage.write(path, [b"x"])
    (finding,) = verify(storage).findings
    assert finding.code is FindingCode.ORPHAN_FILE
    assert path in finding.detail
