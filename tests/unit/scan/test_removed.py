"""Operators that left a query begun before Spark 4, and those that only look like it.

`tests/systems/spark/test_removed_operator.py` has what a real Spark writes and does.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import count

import pytest

from statemaint.audit import doctor, verify
from statemaint.listing import Entry
from statemaint.maintain import maintain
from statemaint.model.findings import FindingCode
from statemaint.model.policy import Policy
from statemaint.plan.actions import Request
from statemaint.planning import plan_checkpoint, scan_checkpoint
from statemaint.recover import plan_rollback
from statemaint.scan.handover import Handover, Recorder
from statemaint.storage import MemoryStorage, ReadOnly
from tests.support.checkpoints import COMMIT, changes, delta_bytes, drop, offsets_bytes
from tests.support.long_rows import schema
from tests.unit.codec.metadata.test_logs import OPERATOR

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0, orphan_age=0)
SPARK_4 = {"spark.sql.streaming.stateStore.encodingFormat": "unsaferow"}
UPGRADE, LAST = 10, 25
METADATA = "state/0/_metadata/metadata"
REMOVED = {FindingCode.UNUSED_STORE: "state/1"}
UNSURE = {FindingCode.UNDECLARED_OPERATOR: "state/1"}


def upgraded(oldest: int = 5, upgrade: int = UPGRADE, last: int = LAST) -> MemoryStorage:
    """Returns a query of two operators that Spark 4 went on with from a batch on, without one.

    The log has the batches from `oldest` on. Each file is younger than the one written before.
    """
    storage = MemoryStorage(clock=map(float, count(1000)).__next__)
    storage.write("metadata", [b'{"id":"11111111-2222-3333-4444-555555555555"}'])
    for operator in (0, 1):
        storage.write(f"state/{operator}/0/_metadata/schema", [schema("k", "v")])
    for batch in range(last):
        if batch == upgrade:
            storage.write(METADATA, [OPERATOR])
        run_batch(storage, batch, operators=(0, 1) if batch < upgrade else (0,))
        if batch >= oldest:
            conf = SPARK_4 if batch >= upgrade else {}
            storage.write(f"offsets/{batch}", [offsets_bytes(conf)])
            storage.write(f"commits/{batch}", [COMMIT])
    return storage


def run_batch(
    storage: MemoryStorage, batch: int, operators: Iterable[int], partitions: Iterable[int] = (0, 1)
) -> None:
    for operator in operators:
        for partition in partitions:
            path = f"state/{operator}/{partition}/{batch + 1}.delta"
            storage.write(path, [delta_bytes(changes(batch + 1, partition))], overwrite=True)


def notices(storage: MemoryStorage | ReadOnly) -> dict[FindingCode, str | None]:
    codes = (FindingCode.UNUSED_STORE, FindingCode.UNDECLARED_OPERATOR)
    return {one.code: one.path for one in scan_checkpoint(storage).findings if one.code in codes}


def of_operator(storage: MemoryStorage, number: int) -> dict[str, bytes]:
    inside = f"state/{number}/"
    return {path: one for path, one in storage.files.items() if path.startswith(inside)}


# -- it has left the query


@pytest.mark.parametrize("oldest", [0, 5, UPGRADE - 1, UPGRADE, 20])
def test_an_operator_that_spark_4_never_ran_is_a_notice_and_the_query_restarts(oldest: int) -> None:
    storage = upgraded(oldest)
    assert notices(storage) == REMOVED
    assert verify(storage, deep=True).healthy
    found = doctor(storage, deep=True)
    assert (found.restarts, found.counts) == (True, {})
    assert found.next == ("move state/1 away as `statemaint scan` says: no restart reads it",)


def test_the_others_are_maintained_and_its_folder_stays_as_it_is() -> None:
    storage = upgraded()
    before = of_operator(storage, 1)
    assert maintain(storage, TIGHT).exit_code == 0
    assert "state/0/0/25.snapshot" in storage.files
    assert "state/0/0/1.delta" not in storage.files
    assert of_operator(storage, 1) == before
    assert verify(storage, deep=True).healthy


def test_a_rollback_touches_it_only_if_the_query_had_it_then() -> None:
    storage = upgraded()
    folders = {one.path[:8] for one in plan_rollback(storage, UPGRADE).removes}
    assert folders == {"commits/", "offsets/", "state/0/"}
    before = {one.path for one in plan_rollback(storage, 7).removes if one.path[:8] == "state/1/"}
    assert before == {f"state/1/{part}/{version}.delta" for part in (0, 1) for version in (9, 10)}


def test_the_advice_leads_to_a_checkpoint_without_any_notice() -> None:
    storage = upgraded(last=UPGRADE)
    assert maintain(storage, TIGHT).exit_code == 0, "of both operators, before the upgrade"
    storage.write(METADATA, [OPERATOR])
    for batch in range(UPGRADE, LAST):
        run_batch(storage, batch, operators=[0])
        storage.write(f"offsets/{batch}", [offsets_bytes(SPARK_4)])
        storage.write(f"commits/{batch}", [COMMIT])
    (notice,) = scan_checkpoint(storage).findings
    assert "Move state/1, and with it _statemaint/attestations/1, away" in notice.detail
    drop(storage, "state/1")
    (notice,) = scan_checkpoint(storage).findings
    assert (notice.code, notice.path) == (FindingCode.UNDECLARED_OPERATOR, "state/1")
    assert "no state: if the operator was removed" in notice.detail
    assert "with it _statemaint/attestations/1, away" in notice.detail
    assert not doctor(storage).restarts, "its folder may just as well be lost"
    drop(storage, "_statemaint/attestations/1")
    assert scan_checkpoint(storage).findings == ()
    assert doctor(storage).next == (
        "run `statemaint maintain`: a restart reads more files than it needs to",
    )
    assert maintain(storage, TIGHT).findings == ()


def test_the_tasks_of_a_run_know_nothing_of_it() -> None:
    storage = upgraded(last=UPGRADE)
    maintain(storage, TIGHT)
    storage.write(METADATA, [OPERATOR])
    run_batch(storage, UPGRADE, operators=[0])
    storage.write(f"offsets/{UPGRADE}", [offsets_bytes(SPARK_4)])
    storage.write(f"commits/{UPGRADE}", [COMMIT])
    recorder = Recorder(storage)
    whole, _ = plan_checkpoint(recorder, TIGHT)
    assert notices(storage) == REMOVED
    handover = Handover.from_json(recorder.handover(whole).to_json())
    request = Request(operators=frozenset({0}), partitions=frozenset({1}))
    found, _ = plan_checkpoint(storage, TIGHT, request=request, handover=handover)
    assert found.partitions == whole.partitions == {0: 2}
    assert found.findings == ()


def test_a_batch_that_failed_before_the_upgrade_may_have_left_some_of_its_changes() -> None:
    storage = upgraded()
    storage.write(f"offsets/{UPGRADE}", [offsets_bytes()], overwrite=True)
    run_batch(storage, UPGRADE, operators=[1], partitions=[1])
    run_batch(storage, LAST - 1, operators=[0])
    assert notices(storage) == REMOVED


def test_an_operator_removed_long_before_the_upgrade_may_have_left_some_of_its_changes() -> None:
    storage = upgraded()
    for partition in (0, 1):
        for version in range(4, UPGRADE + 1):
            storage.delete(f"state/1/{partition}/{version}.delta")
    assert notices(storage) == REMOVED


# -- it may be damaged: nothing is said to be removed, and nothing is called healthy


def lost_newest(storage: MemoryStorage, last: int) -> MemoryStorage:
    """Returns the query with an operator that Spark 4 ran up to a version; its metadata is lost."""
    for batch in range(last):
        run_batch(storage, batch, operators=[1])
    return storage


def one_partition_shorter() -> MemoryStorage:
    storage = upgraded()
    for version in (UPGRADE - 1, UPGRADE):
        storage.delete(f"state/1/0/{version}.delta")
    return storage


def one_partition_missing() -> MemoryStorage:
    storage = upgraded()
    drop(storage, "state/1/1")
    return storage


def a_change_missing() -> MemoryStorage:
    storage = upgraded()
    storage.delete("state/1/1/4.delta")
    return storage


def newer_files_than_metadata() -> MemoryStorage:
    storage = upgraded(oldest=20)
    content = storage.files["state/1/1/7.delta"]
    storage.write("state/1/1/7.delta", [content], overwrite=True)
    return storage


def put_back_from_an_old_copy() -> MemoryStorage:
    """The log still has the upgrade, and all times are those of the copying."""
    storage = lost_newest(upgraded(), LAST)
    copy = of_operator(upgraded(), 1)
    drop(storage, "state/1")
    for path, content in copy.items():
        storage.write(path, [content])
    return storage


def metadata_of_the_newer_format() -> MemoryStorage:
    storage = upgraded()
    storage.write("state/0/_metadata/v2/12", [OPERATOR.replace(b"v1", b"v2", 1)])
    return storage


def metadata_of_none() -> MemoryStorage:
    storage = upgraded()
    storage.delete(METADATA)
    return storage


def metadata_of_the_higher_one() -> MemoryStorage:
    storage = upgraded()
    storage.delete(METADATA)
    storage.write("state/2/_metadata/metadata", [OPERATOR.replace(b'Id":0', b'Id":2')])
    for path, content in of_operator(storage, 0).items():
        storage.write(path.replace("state/0/", "state/2/"), [content])
    return storage


def noted_later() -> MemoryStorage:
    storage = lost_newest(upgraded(), LAST)
    assert maintain(storage, TIGHT).exit_code == 0
    drop(storage, "state/1")
    for batch in range(UPGRADE):
        run_batch(storage, batch, operators=[1])
    run_batch(storage, LAST - 1, operators=[0])  # so that no time contradicts
    return storage


@pytest.mark.parametrize(
    "make",
    [
        lambda: lost_newest(upgraded(), LAST - 1),
        lambda: lost_newest(upgraded(), UPGRADE + 1),
        lambda: lost_newest(upgraded(upgrade=0), 8),
        lambda: lost_newest(upgraded(oldest=20), 15),
        one_partition_shorter,
        one_partition_missing,
        a_change_missing,
        newer_files_than_metadata,
        put_back_from_an_old_copy,
        metadata_of_the_newer_format,
        metadata_of_none,
        metadata_of_the_higher_one,
        noted_later,
    ],
    ids=[
        "the newest change lost", "changed once by Spark 4", "begun by Spark 4", "purged log",
        "one partition shorter", "one partition missing", "a change missing",
        "newer than the metadata", "put back", "metadata v2", "metadata of none",
        "metadata of a higher one", "noted by the ledger",
    ],
)  # fmt: skip
def test_an_operator_of_the_query_that_lost_its_metadata_and_newest_files_is_damage(
    make: Callable[[], MemoryStorage],
) -> None:
    storage = make()
    assert notices(storage) == UNSURE
    before = dict(storage.files)
    found = doctor(storage)
    assert not found.restarts
    assert FindingCode.BROKEN_CHAIN in found.counts
    assert (
        "if its operator was removed from the query, move state/1 away as `statemaint scan` says"
    ) in found.next
    assert maintain(storage, TIGHT).exit_code == 3
    assert of_operator(storage, 1) == {p: one for p, one in before.items() if p[:8] == "state/1/"}


class Timeless(ReadOnly):
    """A storage that does not know the times of some files."""

    def __init__(self, storage: MemoryStorage, prefix: str) -> None:
        super().__init__(storage)
        self._prefix = prefix

    def list(self, prefix: str) -> Iterator[Entry]:
        for one in super().list(prefix):
            timeless = one.path.startswith(self._prefix)
            yield Entry(one.path, one.size, None if timeless else one.modified)


@pytest.mark.parametrize("prefix", ["", "state/1/0/3.delta", METADATA])
def test_without_times_a_purged_log_leaves_it_open(prefix: str) -> None:
    assert notices(Timeless(upgraded(oldest=20), prefix)) == UNSURE
    assert notices(Timeless(upgraded(oldest=5), prefix)) == REMOVED, "the log needs no times"


def by_an_older_spark() -> MemoryStorage:
    storage = upgraded()
    for batch in range(UPGRADE, LAST):
        storage.write(f"offsets/{batch}", [offsets_bytes()], overwrite=True)
    return storage


def its_metadata_unreadable() -> MemoryStorage:
    storage = upgraded()
    storage.write("state/1/_metadata/metadata", [b"garbled"])
    return storage


def one_partition_has_the_newest() -> MemoryStorage:
    storage = upgraded()
    run_batch(storage, LAST - 1, operators=[1], partitions=[0])
    return storage


@pytest.mark.parametrize(
    "make", [by_an_older_spark, its_metadata_unreadable, one_partition_has_the_newest]
)
def test_an_operator_that_the_query_must_have_is_damage_without_a_doubt(
    make: Callable[[], MemoryStorage],
) -> None:
    storage = make()
    assert notices(storage) == {}
    assert not doctor(storage).restarts


def test_an_operator_without_metadata_that_is_up_to_date_is_none_of_this() -> None:
    storage = lost_newest(upgraded(), LAST)
    assert notices(storage) == {}
    assert doctor(storage).restarts
    assert maintain(storage, TIGHT).exit_code == 0
    assert "state/1/0/25.snapshot" in storage.files
