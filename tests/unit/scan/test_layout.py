"""Every name that Spark writes, and when it goes: `docs/files.md`, held against the code."""

import re

import pytest

from statemaint.listing import Entry
from statemaint.maintain import maintain
from statemaint.model.checkpoint import Provider
from statemaint.model.files import ChecksumFile, Delta, Snapshot, SstFile, TempFile, UnknownFile
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.plan.reasons import DeleteReason
from statemaint.scan.layout import sort_out
from statemaint.scan.scanner import scan
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import UUID, write_checkpoint
from tests.support.faults import Clock
from tests.support.paths import ROOT

DOCUMENT = (ROOT / "docs/files.md").read_text()
HDFS, ROCKS = Provider.HDFS_BACKED, Provider.ROCKSDB
DAY = 86_400.0
TIGHT = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=4, grace=0)
STORE = "state/0/3"

STATE: dict[str, tuple[Provider, type]] = {
    f"{STORE}/1.delta": (HDFS, Delta),
    f"{STORE}/2.snapshot": (HDFS, Snapshot),
    f"{STORE}/1.changelog": (ROCKS, Delta),
    f"{STORE}/1_{UUID}.changelog": (ROCKS, Delta),
    f"{STORE}/2.zip": (ROCKS, Snapshot),
    f"{STORE}/2_{UUID}.zip": (ROCKS, Snapshot),
    f"{STORE}/SSTs/000008-{UUID}.sst": (ROCKS, SstFile),
    f"{STORE}/logs/000009-{UUID}.log": (ROCKS, SstFile),
    f"{STORE}/1.delta.crc": (HDFS, ChecksumFile),
    f"{STORE}/.1.delta.crc": (HDFS, ChecksumFile),
    f"{STORE}/.1.delta.crc.crc": (HDFS, ChecksumFile),
    f"{STORE}/.1.delta.{UUID}.tmp": (HDFS, TempFile),
    f"{STORE}/.1.delta.{UUID}.TID12.tmp": (HDFS, TempFile),
    f"{STORE}/.1.delta.crc.{UUID}.TID12.tmp": (HDFS, TempFile),
    f"{STORE}/..1.delta.{UUID}.TID12.tmp.crc": (HDFS, TempFile),
}
METADATA = (
    "state/0/_metadata/metadata",
    "state/0/_metadata/v2/0",
    "state/0/0/_metadata/schema",
    "state/0/0/left-keyToNumValues/_metadata/schema",
    f"state/0/_stateSchema/default/0_{UUID}",
    "state/0/_metadata/.metadata.crc",
    f"state/0/_metadata/v2/.0.{UUID}.tmp",
    f"state/0/0/_metadata/..schema.{UUID}.tmp.crc",
)
LOGS = ("metadata", "offsets/5", "commits/5", "sources/0/5", "sources/0/9.compact")


def test_the_document_has_these_examples_and_no_others() -> None:
    head, _, _ = DOCUMENT.partition("\n## Ours\n")
    rows = re.findall(r"^\| .*? \| `([^`]+)` \|", head, re.MULTILINE)
    assert rows == [*STATE, *METADATA, *LOGS]


def owners() -> list[tuple[str, Provider, type]]:
    """Returns each name of a state file with everything that may lie beside it."""
    found = [(path, provider, kind) for path, (provider, kind) in STATE.items()]
    for path, (provider, kind) in STATE.items():
        if kind not in (ChecksumFile, TempFile):
            folder, _, name = path.rpartition("/")
            sides = (f"{name}.crc", f".{name}.crc", f".{name}.crc.crc")
            found += [(f"{folder}/{side}", provider, ChecksumFile) for side in sides]
            written = (f".{one}.{UUID}{task}.tmp" for one in (name, f"{name}.crc")
                       for task in ("", ".TID7"))  # fmt: skip
            for temp in written:
                found += [(f"{folder}/{one}", provider, TempFile) for one in (temp, f".{temp}.crc")]
    return found


@pytest.mark.parametrize(("path", "provider", "kind"), owners())
@pytest.mark.parametrize("store", ["", "/left-keyToNumValues"])
def test_a_name_of_a_store_is_known(path: str, provider: Provider, kind: type, store: str) -> None:
    entry = Entry(path.replace(STORE, STORE + store), 1, 0.0)
    layout = sort_out([entry], provider)
    name = store.removeprefix("/") or "default"
    (file,) = layout.stores[StoreId(0, 3, name)]
    assert type(file) is kind
    assert layout.unclassified == ()


@pytest.mark.parametrize("path", METADATA)
@pytest.mark.parametrize("provider", [HDFS, ROCKS])
def test_a_name_of_metadata_is_known_and_of_no_store(path: str, provider: Provider) -> None:
    entry = Entry(path, 1, 0.0)
    layout = sort_out([entry], provider)
    assert layout.stores == {}
    assert layout.unclassified == ((entry, True),)


@pytest.mark.parametrize(
    "path",
    [
        "state/0/_metadata/metadata.bak",
        "state/0/_metadata/v2/007",
        "state/0/_metadata/v3/0",
        "state/0/0/_metadata/schema.old",
        "state/0/_stateSchema/default/0",
        f"state/0/_metadata/.metadata.{UUID}.tmp.bak",
        "state/README",
    ],
)
def test_another_name_there_is_not(path: str) -> None:
    entry = Entry(path, 1, 0.0)
    assert sort_out([entry]).unclassified == ((entry, False),)


# -- when they go


def neglected(clock: Clock) -> MemoryStorage:
    return write_checkpoint(MemoryStorage(clock=clock), partitions=4)


OF_AGE = [path for path, (provider, kind) in STATE.items() if provider is HDFS and kind is TempFile]


@pytest.mark.parametrize("path", OF_AGE)
@pytest.mark.parametrize(("age", "goes"), [(2 * DAY, True), (DAY / 2, False)])
def test_a_temp_file_of_any_form_goes_by_age(
    clock: Clock, path: str, *, age: float, goes: bool
) -> None:
    storage = neglected(clock)
    storage.write(path, [b"half"])
    clock.now += age
    report = maintain(storage, TIGHT)
    assert (path not in storage.files) is goes
    assert report.files_deleted[DeleteReason.ORPHAN_TEMP] == goes


@pytest.mark.parametrize("path", OF_AGE)
def test_a_temp_file_of_a_batch_that_may_be_running_never_goes(clock: Clock, path: str) -> None:
    storage, above = neglected(clock), path.replace("1.delta", "26.delta")
    storage.write(above, [b"half"])
    clock.now += 100 * DAY
    maintain(storage, TIGHT)
    assert above in storage.files


def test_nothing_of_the_logs_and_of_the_metadata_goes_whatever_its_age(clock: Clock) -> None:
    storage = neglected(clock)
    beside = [f"{folder}/.5.{UUID}.tmp" for folder in ("offsets", "commits", "sources/0")]
    metadata = {path for path in METADATA if "/." in path or "_stateSchema" in path}
    others = [*metadata, "sources/0/5", "sources/0/9.compact", *beside, "state/0/_metadata/odd"]
    for path in others:
        storage.write(path, [b"x"])
    clock.now += 1000 * DAY
    before = {path for path in storage.files if not path.startswith("state/0/0/1")}
    maintain(storage, TIGHT)
    logs = {path for path in before if not re.fullmatch(r"state/0/\d/\d+\.delta", path)}
    assert logs <= storage.files.keys()
    assert [one.detail for one in scan(storage).findings] == [
        "state/0/_metadata/odd: not a file that Spark writes; it is kept"
    ]


def test_what_is_old_and_unknown_stays(clock: Clock) -> None:
    storage = neglected(clock)
    strange = f"{STORE}/1.delta.bak"
    storage.write(strange, [b"x"])
    clock.now += 1000 * DAY
    maintain(storage, TIGHT)
    assert strange in storage.files
    (file,) = (one for one in scan(storage).stores[3].files if one.entry.path == strange)
    assert isinstance(file, UnknownFile)
