"""A broken checkpoint is repaired or rolled back, and the real query goes on to the same output.

Each query has run thirteen batches, was maintained (snapshots at the floor and at version 13), and
has run three more. Copies of it are broken, one kind of damage each.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from statemaint.audit import doctor, verify
from statemaint.codec.integrity.checksum_file import hadoop
from statemaint.codec.rocksdb.snapshot_zip import parse_metadata
from statemaint.errors import StatemaintError
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.plan.actions import Request
from statemaint.plan.recovery.recovery_plan import RemoveReason
from statemaint.recover import repair, rollback
from statemaint.storage import open_storage
from tests.checkpoints.environments import packages
from tests.checkpoints.queries import Kind
from tests.systems.spark.runner import KIND, MANAGER, SPARKS_OWN, Runner, copied, newest_batch
from tests.unit.audit.test_row_rules import remove_one

POLICY = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=4, grace=0, orphan_age=0)
BEFORE, BROKEN, AFTER = 13, 16, 18
FEW = ("aggregation2", "rocks-aggregation-ids")
MANY = (
    *FEW, "dedup", "session-window", "join2", "pandas-state", "rocks-aggregation", "rocks-join2",
    "rocks-join3", "rocks-join4", "rocks-timed", "rocks-timed-ids",
)  # fmt: skip
# `make test-recovery` takes all of them, which the suite has no time for.
ALL = os.environ.get("STATEMAINT_RECOVERY") == "all"
NAMES = MANY if ALL else FEW
if ALL:
    # Some kinds need what we do not. Their workers begin with the session, so here is the time.
    sys.path.append(str(packages("4.3.0")))
    os.environ["PYSPARK_PYTHON"] = str(packages("4.3.0").parents[2] / "bin" / "python")
# A file source gives all files that it has seen in one batch, however many those were before. So
# behind a rollback by several batches these come to another output, or number rows otherwise.
BY_BATCH = ("pandas-state", "rocks-timed", "rocks-timed-ids")
NUMBERED = ("rocks-join2", "rocks-join3", "rocks-join4")
HOME = "state/0/0"
# After a repair a query may write over files, which is done as by default.
_CONF = {MANAGER: SPARKS_OWN}
MONTH = 30 * 86_400.0


@dataclass(frozen=True)
class Query:
    """A query as it was before it broke, and what it would have come to."""

    runner: Runner
    root: Path
    output: list[str]
    state: dict[str, Any]
    newest: int


@pytest.fixture(scope="module", params=NAMES)
def whole(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Query:
    return query(spark, KIND[request.param], tmp_path_factory.mktemp("repaired"))


def query(spark: SparkSession, kind: Kind, place: Path) -> Query:
    runner, root = Runner(spark, kind, _CONF), place / kind.name / "broken"
    runner.run(root, BEFORE)
    storage = open_storage(str(root / "checkpoint"))
    target = verify(storage).checkpoint.target
    assert maintain(storage, POLICY, request=Request(target=target)).exit_code == 0
    runner.run(root, BROKEN)
    twin = copied(root, "undisturbed")
    runner.run(twin, AFTER)
    return Query(runner, root, runner.output(twin), runner.state(twin), newest_batch(twin))


def shared_out(name: str, damages: Iterable[str]) -> pytest.MarkDecorator:
    """Each query with each kind of damage; of the few, each kind of damage with one of them."""
    if ALL:
        cases = [(query, damage) for damage in damages for query in NAMES]
    else:
        cases = list(zip(cycle(NAMES), damages, strict=False))
    return pytest.mark.parametrize(("whole", name), cases, indirect=["whole"])


@pytest.fixture
def broken(whole: Query, tmp_path: Path) -> tuple[Query, Path]:
    return whole, copied(whole.root, tmp_path.name)


# -- files of a checkpoint


def files(checkpoint: Path, suffix: str, home: str = HOME) -> list[Path]:
    """The files of a kind in a partition's first store, by version."""
    stores = [path.parent for path in (checkpoint / home).rglob("1[0-9]*.*")]
    found = [
        path for path in min(stores).iterdir() if re.search(rf"^\d+.*\.({suffix})$", path.name)
    ]
    return sorted(found, key=lambda path: int(re.split(r"[._]", path.name)[0]))


def newest_snapshot(checkpoint: Path) -> Path:
    return files(checkpoint, "snapshot|zip")[-1]


def second_change(checkpoint: Path) -> Path:
    """The second change above the newest snapshot: what is committed last needs it."""
    base = int(re.split(r"[._]", newest_snapshot(checkpoint).name)[0])
    changes = files(checkpoint, "delta|changelog")
    return next(path for path in changes if int(re.split(r"[._]", path.name)[0]) == base + 2)


def table(checkpoint: Path) -> Path:
    zips = files(checkpoint, "zip")
    named = [{one.stored for one in parse_metadata(path.read_bytes()).ssts} for path in zips]
    mine = named[-1] - set().union(*named[:-1])
    return zips[-1].parent / "SSTs" / min(mine)


def last(folder: str) -> Callable[[Path], Path]:
    return lambda checkpoint: max(
        (checkpoint / folder).glob("[0-9]*"), key=lambda one: int(one.name)
    )


def spoil(path: Path, change: Callable[[bytes], bytes | None]) -> None:
    """Changes a file as something below Hadoop would, which then has no checksum of it."""
    content = change(path.read_bytes())
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)


def gone(_: bytes) -> None:
    return None


def cut(content: bytes) -> bytes:
    return content[: len(content) * 2 // 3]


def empty(_: bytes) -> bytes:
    return b""


def flip(at: int) -> Callable[[bytes], bytes]:
    return lambda content: content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :]


# -- repairs


SPOILT = {"cut": cut, "empty": empty, "data": flip(60), "length": flip(10), "checksum": flip(18)}


@shared_out("spoilt", SPOILT)
def test_a_bad_snapshot_is_made_anew(broken: tuple[Query, Path], spoilt: str) -> None:
    found, root = broken
    checkpoint = root / "checkpoint"
    bad = newest_snapshot(checkpoint)
    spoil(bad, SPOILT[spoilt])
    storage = open_storage(str(checkpoint))
    damage = {one.code for one in verify(storage, deep=True).findings if one.damage}
    done = repair(storage, trash_for=MONTH)
    if "CORRUPT_FILE" in damage:
        assert [one.action.path for one in done.written] == [str(bad.relative_to(checkpoint))]
    else:
        # Of a zip it may be a time, which nobody reads: only a checksum says that it has changed.
        assert bad.suffix == ".zip"
        assert {one.reason for one in done.removed} <= {RemoveReason.STALE_CHECKSUM}
    assert verify(storage, deep=True).healthy
    must_come_to_the_same(found, root)


def test_a_snapshot_without_one_of_its_tables_is_made_anew(broken: tuple[Query, Path]) -> None:
    found, root = broken
    if not found.root.parent.name.startswith("rocks"):
        return
    table(root / "checkpoint").unlink()
    storage = open_storage(str(root / "checkpoint"))
    assert {one.code for one in verify(storage, deep=True).findings if one.damage} == {
        "MISSING_SST"
    }
    assert len(repair(storage, trash_for=MONTH).written) == 1
    assert verify(storage, deep=True).healthy
    must_come_to_the_same(found, root)


def test_a_stale_checksum_is_taken_away(broken: tuple[Query, Path]) -> None:
    """Hadoop's own, which is of another file: it refuses to read the snapshot, which is sound."""
    found, root = broken
    side = of_another_file(newest_snapshot(root / "checkpoint"))
    storage = open_storage(str(root / "checkpoint"))
    (removed,) = repair(storage, trash_for=MONTH).removed
    assert removed.path == str(side.relative_to(root / "checkpoint"))
    assert verify(storage, deep=True).healthy
    must_come_to_the_same(found, root)


def of_another_file(owner: Path) -> Path:
    """Hadoop writes one beside all that Spark writes; we write none beside our snapshots."""
    side = owner.with_name(f".{owner.name}.crc")
    side.write_bytes(hadoop(b"another file"))
    return side


def test_one_beside_a_change_that_nothing_proves_is_gone_back_behind(
    broken: tuple[Query, Path],
) -> None:
    """Spark does not read it: the query goes on, and whether rows are right nobody knows."""
    found, root = broken
    of_another_file(second_change(root / "checkpoint"))
    storage = open_storage(str(root / "checkpoint"))
    said = doctor(storage, deep=True)
    assert (said.restarts, said.doubtful) == (True, True)
    assert repair(storage, trash_for=MONTH).removed == ()
    must_go_back(found, root, deep=True)


def test_a_schema_that_cannot_be_read_is_written_anew(broken: tuple[Query, Path]) -> None:
    found, root = broken
    schemas = sorted(root.glob("checkpoint/state/0/0/**/_metadata/schema"))
    if not schemas:
        return  # in a file of the operator's, which nobody writes twice
    spoil(schemas[0], cut)
    storage = open_storage(str(root / "checkpoint"))
    assert not doctor(storage).restarts
    assert len(repair(storage, trash_for=MONTH).removed) == 1
    assert doctor(storage).restarts
    must_come_to_the_same(found, root)


def test_a_snapshot_above_a_rewound_log_is_taken_away(broken: tuple[Query, Path]) -> None:
    """Somebody removed two commits by hand; maintenance had made a snapshot of the later one."""
    found, root = broken
    checkpoint = root / "checkpoint"
    storage = open_storage(str(checkpoint))
    newest = verify(storage).checkpoint.committed or 0
    assert maintain(storage, POLICY, request=Request(force_snapshot=True)).exit_code == 0
    above = newest_snapshot(checkpoint)
    for name in (f"commits/{newest}", f"offsets/{newest}", f"commits/{newest - 1}"):
        spoil(checkpoint / name, gone)
    codes = {one.code for one in verify(storage, deep=True).findings if one.damage}
    if codes:  # with unique ids no commit names the snapshot, and Spark would not load it
        assert codes == {"SNAPSHOT_ABOVE_TARGET"}
        done = repair(storage, trash_for=MONTH)
        assert str(above.relative_to(checkpoint)) in {one.path for one in done.removed}
    assert verify(storage, deep=True).healthy
    must_come_to_the_same(found, root)


def must_come_to_the_same(found: Query, root: Path) -> None:
    before, kind = newest_batch(root), found.runner.kind.name
    found.runner.run(root, AFTER)
    same_batches = newest_batch(root) == found.newest
    assert newest_batch(root) > before
    if same_batches or kind not in BY_BATCH:
        assert found.runner.output(root) == found.output
    if same_batches or kind not in (*BY_BATCH, *NUMBERED):
        assert found.runner.state(root) == found.state
    assert verify(open_storage(str(root / "checkpoint")), deep=True).healthy


# -- what only a rollback ends


KINDS_OF_LOSS = {
    "change cut": (second_change, cut),
    "change empty": (second_change, empty),
    "change flipped": (second_change, flip(30)),
    "change gone": (second_change, gone),
    "commit empty": (last("commits"), empty),
    "commit cut": (last("commits"), lambda _: b"v1"),
    "offsets gone": (last("offsets"), gone),
    "offsets cut": (last("offsets"), cut),
}


@shared_out("loss", KINDS_OF_LOSS)
def test_the_batch_that_doctor_names_is_where_the_query_goes_on(
    broken: tuple[Query, Path], loss: str
) -> None:
    found, root = broken
    checkpoint = root / "checkpoint"
    where, change = KINDS_OF_LOSS[loss]
    spoil(where(checkpoint), change)
    storage = open_storage(str(checkpoint))
    named = doctor(storage)
    assert not named.restarts
    batch = named.goes_back_to
    assert batch is not None
    before = {path: path.read_bytes() for path in checkpoint.rglob("*") if path.is_file()}
    done = rollback(storage, batch, trash_for=MONTH)
    after = doctor(storage)
    assert after.restarts
    assert after.checkpoint.committed == batch
    trash = checkpoint / "_statemaint" / "trash" / done.run
    for one in done.removed:
        assert (trash / one.path).read_bytes() == before[checkpoint / one.path]
    must_come_to_the_same(found, root)


def test_an_attempt_that_nobody_made_is_gone_back_behind(broken: tuple[Query, Path]) -> None:
    found, root = broken
    if "ids" not in found.runner.kind.name:
        return
    spoil(last("commits")(root / "checkpoint"), another_id)
    must_go_back(found, root)


def another_id(content: bytes) -> bytes:
    version, text = content.split(b"\n", 1)
    commit = json.loads(text)
    commit["stateUniqueIds"]["0"][0] = ["00000000-1111-2222-3333-444444444444"]
    return version + b"\n" + json.dumps(commit).encode()


def must_go_back(found: Query, root: Path, *, deep: bool = False) -> int:
    storage = open_storage(str(root / "checkpoint"))
    batch = doctor(storage, deep=deep).goes_back_to
    assert batch is not None
    rollback(storage, batch, trash_for=MONTH)
    must_come_to_the_same(found, root)
    return batch


def test_files_that_were_swapped_between_partitions_are_gone_back_behind(
    broken: tuple[Query, Path],
) -> None:
    """All loads, and the state is wrong: only the rows say so."""
    found, root = broken
    if "ids" in found.runner.kind.name or "timed" in found.runner.kind.name:
        return  # other attempts, which do not load; an operator whose rule is not known
    mine = second_change(root / "checkpoint")
    other = Path(str(mine).replace("/state/0/0/", "/state/0/1/"))
    content = mine.read_bytes()
    spoil(mine, lambda _: other.read_bytes())
    spoil(other, lambda _: content)
    storage = open_storage(str(root / "checkpoint"))
    assert doctor(storage).restarts
    assert repair(storage, trash_for=MONTH).removed == ()
    version = int(re.split(r"[._]", mine.name)[0])
    assert must_go_back(found, root, deep=True) == version - 2


def test_a_row_that_one_store_of_a_join_has_lost_is_gone_back_behind(
    broken: tuple[Query, Path],
) -> None:
    found, root = broken
    name = found.runner.kind.name
    if "join" not in name:
        return
    storage = open_storage(str(root / "checkpoint"))
    newest = verify(storage).checkpoint.committed or 0
    remove_one(storage, "left-tsWithKey" if "join4" in name else "left-keyWithIndexToValue")
    assert doctor(storage).restarts
    assert repair(storage, trash_for=MONTH).removed == ()
    assert must_go_back(found, root, deep=True) == newest - 1


def test_one_that_does_not_load_is_refused(broken: tuple[Query, Path]) -> None:
    _, root = broken
    spoil(second_change(root / "checkpoint"), cut)
    storage = open_storage(str(root / "checkpoint"))
    newest = verify(storage).checkpoint.committed or 0
    with pytest.raises(StatemaintError, match=f"cannot roll back to batch {newest}"):
        rollback(storage, newest, trash_for=MONTH)
