"""What three Sparks made with RocksDB, kept in `tests/checkpoints`: we read and maintain it."""

import re
from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest

from statemaint.audit import verify
from statemaint.codec.rocksdb.snapshot_zip import parse_metadata
from statemaint.fold.rocksdb.database import load_options
from statemaint.maintain import maintain
from statemaint.model.findings import FindingCode
from statemaint.model.policy import Policy
from statemaint.plan.reasons import WithheldReason
from statemaint.report.run import Report
from statemaint.storage import MemoryStorage
from tests.checkpoints.archive import contents, recorded
from tests.checkpoints.families import archive_names
from tests.support.archived import (
    archived,
    digests,
    loadable_batches,
    row_counts,
    shows_no_format,
)
from tests.support.marks import rotated

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0, orphan_age=0)
ARCHIVES = [name for name in archive_names() if name.startswith("rocks-")]
# All that there is to say: Spark's clean-up took the state of the oldest batch, and the first
# attempt at the last batch was forgotten, and so the tables that it had.
_PURGED, _ORPHANS = FindingCode.PURGED_BY_SPARK, FindingCode.ORPHAN_FILE
NOTICES = {
    ("rocks-maintained-3.5.9", "rocks-aggregation-maintained"): {_PURGED: 2},
    ("rocks-maintained-3.5.9", "rocks-zips-maintained"): {_PURGED: 2, _ORPHANS: 2},
    ("rocks-maintained-4.3.0", "rocks-zips-maintained"): {_PURGED: 2, _ORPHANS: 4},
}
EVERY = [(archive, kind) for archive in ARCHIVES for kind in recorded(archive)]


@pytest.fixture(params=rotated(EVERY))
def name(request: pytest.FixtureRequest) -> tuple[str, str]:
    archive, kind = request.param
    return archive, kind


@pytest.fixture
def storage(name: tuple[str, str]) -> MemoryStorage:
    return archived(name)


def test_all_that_is_kept_is_said_by_spark_too() -> None:
    assert EVERY == [(archive, kind) for archive in ARCHIVES for kind in contents(archive)]


def test_spark_wrote_nothing_that_we_find_damaged(
    storage: MemoryStorage, name: tuple[str, str]
) -> None:
    found = verify(storage, deep=True)
    assert Counter(one.code for one in found.findings) == NOTICES.get(name, {})
    assert found.healthy
    shallow = verify(storage)
    assert (shallow.findings, shallow.versions_checked) == (found.findings, found.versions_checked)
    assert found.versions_checked >= len(loadable_batches(storage)) > 0


def test_what_sparks_own_clean_up_has_left_is_told(name: tuple[str, str]) -> None:
    """Its executors keep as many versions as batches, and the commit log has one batch more."""
    storage = archived(name)
    newest = max(loadable_batches(storage))
    kept = [int(path[8:]) for path in storage.files if re.fullmatch(r"commits/\d+", path)]
    purged = min(kept) not in loadable_batches(storage)
    told = [one for one in verify(storage).findings if one.code is FindingCode.PURGED_BY_SPARK]
    assert bool(told) == purged
    assert not purged or (name[1].endswith("-maintained") and newest - min(kept) == len(kept) - 1)


def test_we_count_the_rows_that_spark_counts(storage: MemoryStorage, name: tuple[str, str]) -> None:
    archive, kind = name
    stores = recorded(archive)[kind]
    # Lists, timers and what expires have entries that Spark's reader does not show.
    if any(store.count("/") == 2 for store in stores) and "join3" not in kind:
        return
    for batch in loadable_batches(storage):
        expected: Counter[str] = Counter()
        for store, batches in stores.items():
            operator, state, *_ = store.split("/")
            expected[f"{operator}/{state}"] += int(batches[str(batch)]["rows"])
        assert row_counts(storage, batch) == dict(expected)


def test_maintenance_leaves_every_retained_version_as_it_was(
    storage: MemoryStorage, name: tuple[str, str]
) -> None:
    has_changelogs = any(path.endswith(".changelog") for path in storage.files)
    before = digests(storage)
    report = run(storage)
    assert not report.findings
    assert digests(storage) == before
    assert verify(storage, deep=True).healthy
    if shows_no_format(name):
        assert {one.wait.reason for one in report.withheld} == {WithheldReason.UNSETTLED}
        assert not any(path.endswith(".zip") for path in storage.files)
        return
    for store in {store.directory for store, _ in before}:
        names = {path.rpartition("/")[2] for path in storage.files if path.startswith(f"{store}/")}
        zips = {name for name in names if name.endswith(".zip")}
        firsts = {name for name in names if re.match(r"1[._]", name)}
        # With column families Spark's first version is a zip, and near enough to be relied on.
        assert zips
        assert not firsts or firsts & zips
    by_spark = "-maintained" in name[1] or "-evolving" in name[1]
    assert report.snapshots_written > 0 or not has_changelogs or by_spark


def test_runs_come_to_an_end_and_every_zip_has_its_tables(storage: MemoryStorage) -> None:
    """What the first leaves for safety the second may take; a third has nothing left to do."""
    run(storage)
    assert run(storage).snapshots_written == 0
    before = storage.files
    report = run(storage)
    assert (report.snapshots_written, report.files_deleted) == (0, {})
    assert storage.files == before
    assert missing_tables(before) == set()


@pytest.mark.parametrize("archive", ARCHIVES)
def test_our_tables_are_set_up_as_sparks_are(archive: str, tmp_path: Path) -> None:
    load_options(tmp_path, None, create=True)
    ours = _table_options((tmp_path / "OPTIONS-000001").read_text())
    sparks = {
        tuple(sorted(_table_options(text).items()))
        for files in contents(archive).values()
        for path, content in files.items()
        if path.endswith(".zip")
        for text in _options_in(content)
    }
    snappy = {"compression": "kSnappyCompression"} if archive.endswith("3.5.9") else {}
    assert sparks == {tuple(sorted((ours | snappy).items()))}


def _options_in(content: bytes) -> Iterator[str]:
    with ZipFile(BytesIO(content)) as found:
        yield from (found.read(name).decode() for name in found.namelist() if "OPTIONS-" in name)


def _table_options(text: str) -> dict[str, str]:
    """Returns what is set of tables, of what we set too."""
    ours = ("compression", "format_version", "block_size", "filter_policy")
    found = re.findall(rf"^\s*({'|'.join(ours)})=(.*?)\s*$", text, re.MULTILINE)
    return dict(found)


def run(storage: MemoryStorage) -> Report:
    report = maintain(storage, TIGHT)
    assert report.exit_code == 0
    return report


def missing_tables(files: dict[str, bytes]) -> set[str]:
    """The tables that any zip refers to, and that are not there."""
    zips = {path: content for path, content in files.items() if path.endswith(".zip")}
    return {
        f"{path.rpartition('/')[0]}/SSTs/{table.stored}"
        for path, content in zips.items()
        for table in parse_metadata(content).ssts
    } - files.keys()
