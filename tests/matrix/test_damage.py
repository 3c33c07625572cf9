"""Every kind of damage to what real Sparks wrote is found by `verify --deep`, by its code.

So it is by `verify` alone, but for what has changed inside a file that an attestation covers.

Each checkpoint was maintained before: a snapshot at the floor, changes above it, one at the target.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import pytest

from statemaint.audit import digest_stores, doctor, verify
from statemaint.cli.doctor import lines
from statemaint.codec.rocksdb.snapshot_zip import parse_metadata
from statemaint.errors import StatemaintError
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.recover import plan_repair, plan_rollback
from statemaint.savepoint import savepoint
from statemaint.state import diff_state, read_state, state_stats
from statemaint.storage import MemoryStorage
from tests.checkpoints.archive import contents
from tests.support.marks import rotated

POLICY = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=4, grace=0, orphan_age=0)
HDFS, ROCKS, IDS = "aggregation2", "rocks-aggregation", "rocks-aggregation-ids"
ALL = (HDFS, ROCKS, IDS)
HOME = "state/0/0"
Files = dict[str, bytes]


def stored(files: Mapping[str, bytes]) -> MemoryStorage:
    """Files of one moment, none of which shows by its time or a tag that it was spoiled."""
    return MemoryStorage(files, clock=lambda: 0.5, tagged=False)


class Elsewhere(MemoryStorage):
    """A storage at another address."""

    @property
    def root(self) -> str:
        return "memory:elsewhere"


@cache
def maintained(kind: str) -> Files:
    storage = stored(contents("rocks-4.3.0" if "rocks" in kind else "4.3.0")[kind])
    assert maintain(storage, POLICY).exit_code == 0
    assert verify(storage, deep=True).findings == ()
    return dict(storage.files)


def versions(files: Files, suffix: str) -> list[str]:
    """The paths of partition 0's files of a kind, by version."""
    found = [path for path in files if re.fullmatch(rf"{HOME}/\d+[^/]*\.{suffix}", path)]
    return sorted(found, key=lambda path: int(re.findall(r"\d+", path)[2]))


def change(files: Files) -> str:
    """The first change above the floor, which most retained versions are loaded from."""
    base = int(re.findall(r"\d+", snapshot(files))[2])
    paths = versions(files, "(?:delta|changelog)")
    return next(path for path in paths if int(re.findall(r"\d+", path)[2]) == base + 1)


def snapshot(files: Files) -> str:
    return versions(files, "(?:snapshot|zip)")[0]


def table(files: Files) -> str:
    """A table of the zip at the floor, which no other zip has."""
    first, *others = versions(files, "zip")
    theirs = {one.stored for path in others for one in parse_metadata(files[path]).ssts}
    (mine, *_) = [one for one in parse_metadata(files[first]).ssts if one.stored not in theirs]
    return f"{HOME}/SSTs/{mine.stored}"


def schema(files: Files) -> str:
    return next(path for path in files if path == f"{HOME}/_metadata/schema")


def last(folder: str) -> Callable[[Files], str]:
    return lambda files: max(
        (path for path in files if re.fullmatch(rf"{folder}/\d+", path)),
        key=lambda path: int(path.rpartition("/")[2]),
    )


def middle(folder: str) -> Callable[[Files], str]:
    return lambda files: f"{folder}/{int(last(folder)(files).rpartition('/')[2]) - 2}"


Spoil = Callable[[bytes], bytes | None]


def gone(_: bytes) -> None:
    return None


def cut(content: bytes) -> bytes:
    return content[: len(content) * 2 // 3]


def flip(at: int) -> Spoil:
    return lambda content: content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :]


def empty(_: bytes) -> bytes:
    return b""


def another_id(content: bytes) -> bytes:
    """Names an attempt that nobody has made, for partition 0."""
    version, text = content.split(b"\n", 1)
    commit = json.loads(text)
    commit["stateUniqueIds"]["0"][0] = ["00000000-1111-2222-3333-444444444444"]
    return version + b"\n" + json.dumps(commit).encode()


@dataclass(frozen=True)
class Damage:
    """One kind: what it does to which file, and the code that it has in each kind of query.

    What is `hidden` only a deep look sees.
    """

    name: str
    file: Callable[[Files], str]
    spoil: Spoil
    code: str
    kinds: tuple[str, ...] = ALL
    with_ids: str | None = None
    hidden: bool = False


# In a stream of LZ4 blocks: magic 0-7, token 8, lengths 9-16, checksum 17-20, data.
DAMAGES = (
    Damage("changes cut", change, cut, "CORRUPT_FILE"),
    Damage("changes empty", change, empty, "CORRUPT_FILE", with_ids="STALE_CHECKSUM"),
    Damage("a bit of the changes", change, flip(30), "CORRUPT_FILE"),
    Damage("a bit of their length", change, flip(10), "CORRUPT_FILE"),
    Damage("a bit of their checksum", change, flip(18), "CORRUPT_FILE"),
    Damage("a bit of their magic", change, flip(3), "CORRUPT_FILE"),
    Damage("changes gone", change, gone, "BROKEN_CHAIN", with_ids="LINEAGE_BROKEN"),
    Damage("snapshot cut", snapshot, cut, "CORRUPT_FILE"),
    Damage("snapshot empty", snapshot, empty, "CORRUPT_FILE"),
    Damage("a bit of the snapshot", snapshot, flip(60), "CORRUPT_FILE", (HDFS,), hidden=True),
    Damage("a bit of its length", snapshot, flip(10), "CORRUPT_FILE", (HDFS,), hidden=True),
    Damage("a bit of its checksum", snapshot, flip(18), "CORRUPT_FILE", (HDFS,), hidden=True),
    Damage(
        "a bit of a zip's data",
        snapshot,
        flip(500),
        "CORRUPT_FILE",
        (ROCKS, IDS),
        "STALE_CHECKSUM",
        hidden=True,
    ),
    Damage("a bit of a zip's end", snapshot, flip(-100), "CORRUPT_FILE", (ROCKS, IDS)),
    Damage("snapshot gone", snapshot, gone, "BROKEN_CHAIN", with_ids="LINEAGE_BROKEN"),
    Damage("table gone", table, gone, "MISSING_SST", (ROCKS, IDS)),
    Damage("table cut", table, cut, "MISSING_SST", (ROCKS, IDS)),
    Damage("a bit of a table", table, flip(20), "CORRUPT_FILE", (ROCKS, IDS), hidden=True),
    Damage("a bit of a table's end", table, flip(-10), "CORRUPT_FILE", (ROCKS, IDS), hidden=True),
    Damage("commit gone", middle("commits"), gone, "MISSING_COMMIT"),
    Damage("commit cut", middle("commits"), cut, "UNREADABLE_COMMIT"),
    Damage("commit empty", last("commits"), empty, "UNREADABLE_COMMIT"),
    Damage("offsets gone", middle("offsets"), gone, "MISSING_OFFSET"),
    Damage("newest offsets gone", last("offsets"), gone, "MISSING_OFFSET"),
    Damage("newest offsets cut", last("offsets"), cut, "UNREADABLE_OFFSET"),
    Damage("schema gone", schema, gone, "MISSING_SCHEMA"),
    Damage("schema cut", schema, cut, "UNREADABLE_METADATA"),
    Damage("another id", last("commits"), another_id, "LINEAGE_BROKEN", (IDS,)),
)
# A file that is damaged does not fit its checksum file, nor a table the size in its zip.
ALSO = {
    "CORRUPT_FILE": {"STALE_CHECKSUM"},
    "MISSING_SST": {"CORRUPT_FILE"},
    # Without the ids of the commit nobody can name the files of its version.
    "UNREADABLE_COMMIT": {"BROKEN_CHAIN"},
}
BY_NAME = {damage.name: damage for damage in DAMAGES}
CASES = rotated([(kind, damage.name) for damage in DAMAGES for kind in damage.kinds])


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[Damage, str]:
    kind, name = request.param
    return BY_NAME[name], kind


def spoiled(damage: Damage, kind: str) -> tuple[MemoryStorage, str]:
    files = dict(maintained(kind))
    path = damage.file(files)
    content = damage.spoil(files.pop(path))
    if content is not None:
        files[path] = content
    return stored(files), path


def test_a_deep_look_finds_it_by_its_code(case: tuple[Damage, str]) -> None:
    damage, kind = case
    storage, path = spoiled(damage, kind)
    found = [one for one in verify(storage, deep=True).findings if one.damage]
    code = damage.with_ids if kind == IDS and damage.with_ids else damage.code
    assert {one.code.value for one in found} - ALSO.get(code, set()) == {code}, found
    named = {word for one in found for word in (one.path, *re.split(r"[ ,;:]", one.detail))}
    # What a lost snapshot leaves is a gap in the changes below it.
    assert path in named or damage.name == "snapshot gone"
    assert all("/tmp" not in one.detail for one in found)  # noqa: S108


def test_the_default_finds_the_same_unless_an_attestation_covers_it(
    case: tuple[Damage, str],
) -> None:
    damage, kind = case
    storage, _ = spoiled(damage, kind)
    found = [one for one in verify(storage).findings if one.damage]
    code = damage.with_ids if kind == IDS and damage.with_ids else damage.code
    codes = {one.code.value for one in found} - ALSO.get(code, set())
    assert codes == (set() if damage.hidden else {code})
    deep = {(one, one.batches) for one in verify(storage, deep=True).findings}
    assert {(one, one.batches) for one in found} <= deep


def test_what_cannot_be_loaded_any_more_is_named(case: tuple[Damage, str]) -> None:
    """A batch that a finding does not name still loads, and one that it names does not."""
    damage, kind = case
    storage, _ = spoiled(damage, kind)
    if damage.code not in ("CORRUPT_FILE", "BROKEN_CHAIN", "MISSING_SST"):
        return
    found = verify(storage, deep=True)
    named = {batch for one in found.findings for batch in one.batches}
    assert named == {one for one in found.checkpoint.batches if not loads(storage, one)}
    assert named


def loads(storage: MemoryStorage, batch: int) -> bool:
    try:
        digest_stores(storage, version=batch + 1)
    except StatemaintError:
        return False
    return True


def test_maintenance_of_it_deletes_nothing_there_and_ends_in_a_line(
    case: tuple[Damage, str],
) -> None:
    damage, kind = case
    storage, _ = spoiled(damage, kind)
    before = {path for path in storage.files if path.startswith(f"{HOME}/")}
    said = maintenance_of(storage)
    assert said
    assert not any("\n" in line for line in said)
    assert before <= storage.files.keys()


def maintenance_of(storage: MemoryStorage) -> list[str]:
    """What a run says that it found, or why there was none."""
    try:
        report = maintain(storage, POLICY)
    except StatemaintError as error:
        return [str(error)]
    return [one.detail for one in report.findings] or [f"exit code {report.exit_code}"]


VERBS: dict[str, Callable[[MemoryStorage], object]] = {
    "doctor": lambda storage: list(lines(doctor(storage, deep=True))),
    "repair": plan_repair,
    "rollback": lambda storage: plan_rollback(storage, 11),
    "show": lambda storage: list(read_state(storage)),
    "diff": lambda storage: diff_state(storage, (10, 12)).compare(),
    "stats": state_stats,
    "digest": digest_stores,
}


def test_the_savepoint_that_doctor_names_restarts(case: tuple[Damage, str]) -> None:
    damage, kind = case
    storage, _ = spoiled(damage, kind)
    diagnosis = doctor(storage, deep=True)
    advice = [re.search(r"statemaint savepoint .* --batch (\d+)", one) for one in diagnosis.next]
    for batch in (int(one[1]) for one in advice if one):
        dest = stored({})
        assert savepoint(Elsewhere(storage.files), dest, batch=batch).note.batch == batch
        assert doctor(dest, deep=True).restarts
        assert digest_stores(dest) == digest_stores(stored(maintained(kind)), version=batch + 1)


def test_every_other_verb_ends_with_it_in_a_line(case: tuple[Damage, str]) -> None:
    damage, kind = case
    storage, _ = spoiled(damage, kind)
    before = dict(storage.files)
    for name, verb in VERBS.items():
        try:
            verb(storage)
        except StatemaintError as error:
            assert str(error), name  # noqa: PT017 -- most verbs have an answer all the same
            assert "\n" not in str(error), name  # noqa: PT017
        assert storage.files == before, name
