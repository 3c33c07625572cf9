"""A rollback is taken back as long as the query has not gone on, and never after (S17)."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from statemaint.audit import digest_stores, doctor, verify
from statemaint.errors import ConfigError
from statemaint.maintain import list_runs, maintain, undo
from statemaint.planning import scan_checkpoint
from statemaint.records.manifest import FOLDER
from statemaint.recover import repair, rollback
from statemaint.storage import MemoryStorage, Storage
from tests.checkpoints.archive import contents
from tests.support.checkpoints import (
    COMMIT,
    TIGHT,
    delta_bytes,
    of_the_query,
    offsets_bytes,
    snapshot_bytes,
    state_at,
    write_checkpoint,
)
from tests.support.faults import (
    Clock,
    CopyingStorage,
    Ticking,
    each_crash,
    survived,
)
from tests.support.going_on import begin, rewind, rows, run
from tests.support.undone import as_of_an_earlier_build, runs_in_trash

DAY = 86_400.0
MONTH = 30 * DAY
HOME = "state/0/0"


@pytest.fixture(params=[MemoryStorage, CopyingStorage])
def storage(request: pytest.FixtureRequest, clock: Clock) -> MemoryStorage:
    found: MemoryStorage = request.param(clock=clock)
    return filled(found, clock)


def filled(found: MemoryStorage, clock: Clock | Ticking) -> MemoryStorage:
    """Batches 10 to 20 are in the log of two partitions; version 20 has a snapshot in one."""
    write_checkpoint(found, last=21, batches=range(10, 21))
    found.write(f"{HOME}/20.snapshot", [snapshot_bytes(state_at(20))])
    clock.now += 60
    return found


@pytest.fixture
def before(storage: MemoryStorage) -> dict[str, bytes]:
    return of_the_query(storage)


@pytest.fixture
def back(storage: MemoryStorage, clock: Clock, before: dict[str, bytes]) -> str:
    """The id of a rollback to batch 14, which keeps the offsets of batch 15."""
    assert "commits/20" in before
    done = rollback(storage, 14, trash_for=MONTH)
    clock.now += 60
    return done.run


def must_be_refused(storage: MemoryStorage, back: str, why: str) -> None:
    before = of_the_query(storage)
    trash = {path for path in storage.files if path.startswith(FOLDER)}
    with pytest.raises(ConfigError) as error:
        undo(storage, back)
    words = f"memory:: {why}: the query has continued since run {back}, and the files"
    assert words in str(error.value)
    assert error.value.exit_code == 2
    assert of_the_query(storage) == before
    assert {path for path in storage.files if path.startswith(FOLDER)} == trash


# -- the query has gone on


def test_no_rollback_comes_back_once_the_query_has_gone_on_past_its_retention(
    storage: MemoryStorage, back: str
) -> None:
    run(storage, 15, 59, retain=11)
    assert scan_checkpoint(storage).batches == tuple(range(49, 60))
    must_be_refused(storage, back, "commits/10, which the rollback had left, is missing")


@pytest.mark.parametrize("attempt", [0, 1])
@pytest.mark.parametrize("last", [15, 16, 20, 21, 25])
def test_no_rollback_comes_back_once_the_query_has_gone_on_by_any_number_of_batches(
    storage: MemoryStorage, back: str, last: int, attempt: int
) -> None:
    """Attempt 0 gives the very bytes that are in the trash."""
    run(storage, 15, last, attempt=attempt)
    must_be_refused(storage, back, f"commits/{min(last, 20)} was written again")


def test_no_rollback_comes_back_where_an_earlier_one_of_the_same_batches_was_undone(
    storage: MemoryStorage, clock: Clock, back: str
) -> None:
    """What that undo brought back went with this rollback; what is there now is the query's."""
    undo(storage, back)
    clock.now += 60
    again = rollback(storage, 14, trash_for=MONTH).run
    clock.now += 60
    run(storage, 15, 15)
    must_be_refused(storage, again, "commits/15 was written again")


def test_no_rollback_comes_back_where_only_a_commit_of_the_same_bytes_tells(
    storage: MemoryStorage, back: str
) -> None:
    storage.write("commits/15", [COMMIT])
    must_be_refused(storage, back, "commits/15 was written again")


def test_no_rollback_comes_back_where_the_clock_stands_still() -> None:
    storage = filled(MemoryStorage(), Clock())
    back = rollback(storage, 14, trash_for=MONTH).run
    storage.write("commits/15", [COMMIT])
    must_be_refused(storage, back, "commits/15 was written again")


@pytest.mark.parametrize("attempt", [0, 1])
def test_no_rollback_comes_back_once_a_batch_has_begun_whose_offsets_were_left(
    storage: MemoryStorage, back: str, attempt: int
) -> None:
    content = delta_bytes(rows(16, attempt))
    storage.write(f"{HOME}/16.delta", [content])
    why = "is another file by now" if attempt else "was written again"
    must_be_refused(storage, back, f"{HOME}/16.delta {why}")


def test_no_rollback_comes_back_once_a_batch_has_begun_whose_offsets_were_removed(
    storage: MemoryStorage, clock: Clock
) -> None:
    storage.write("offsets/15", [b"v1\n{"], overwrite=True)
    back = rollback(storage, 14, trash_for=MONTH).run
    clock.now += 60
    assert "offsets/15" not in storage.files
    begin(storage, 15)
    must_be_refused(storage, back, "offsets/15 is another file by now")


def test_no_rollback_comes_back_once_a_batch_above_those_that_went_has_begun(
    storage: MemoryStorage, clock: Clock
) -> None:
    """Nothing of the logs went, only state of the batch that was not committed."""
    storage.write("offsets/21", [offsets_bytes()])
    storage.write(f"{HOME}/22.delta", [delta_bytes([])])
    back = rollback(storage, 20, trash_for=MONTH).run
    clock.now += 60
    for path in ("offsets/22", "commits/21"):
        other = survived(storage, clock)
        other.write(path, [COMMIT])
        must_be_refused(other, back, f"{path} was written after it")
    assert undo(storage, back).files == 1


def test_no_rollback_comes_back_where_an_attempt_has_another_name(
    storage: MemoryStorage, back: str
) -> None:
    path = f"{HOME}/16_0f6d2b1c-5a3e-4c7d-9b8a-112233445566.changelog"
    storage.write(path, [b"begun"])
    must_be_refused(storage, back, f"{path} was written after it")


@pytest.mark.parametrize("attempt", [1, 2])
def test_no_rollback_comes_back_once_a_batch_that_was_left_has_run_again(
    storage: MemoryStorage, back: str, attempt: int
) -> None:
    """The operator has gone back further by hand, and the query has come as far again."""
    for log in ("commits", "offsets")[:attempt]:
        storage.delete(f"{log}/14")
    if attempt == 2:
        storage.write("offsets/14", [offsets_bytes({"extra": "1"})])
        why = "offsets/14, which the rollback had left, was written again"
    else:
        why = f"{HOME}/15.delta, which the rollback had left, was written again"
    run(storage, 14, 14)
    must_be_refused(storage, back, why)


def test_no_rollback_comes_back_once_the_query_has_gone_on_and_was_rolled_back_again(
    storage: MemoryStorage, clock: Clock, back: str
) -> None:
    run(storage, 15, 30)
    clock.now += 60
    second = rollback(storage, 14, trash_for=MONTH).run
    clock.now += 60
    why = "commits/20 was written again, and removed by another run"
    must_be_refused(storage, back, why)
    undo(storage, second)
    clock.now += 60
    must_be_refused(storage, back, why)


def test_no_rollback_comes_back_where_only_the_ledger_tells_that_the_query_has_gone_on(
    storage: MemoryStorage, clock: Clock
) -> None:
    """What it wrote is in the trash of a second rollback, and was in the way of nothing."""
    storage.write("offsets/21", [offsets_bytes()])
    storage.write(f"{HOME}/23.delta", [delta_bytes([])])
    back = rollback(storage, 20, trash_for=MONTH).run
    clock.now += 60
    run(storage, 21, 21)
    clock.now += 60
    rollback(storage, 20, trash_for=MONTH)
    must_be_refused(storage, back, "commits/21 was written after it, and removed by another run")


def test_no_rollback_comes_back_where_its_log_was_purged_and_nothing_of_ours_is_left(
    storage: MemoryStorage, back: str
) -> None:
    run(storage, 15, 40, retain=5)
    for path in storage.files:
        if path.startswith("state/") and int(path.split("/")[-1].partition(".")[0]) < 38:
            storage.delete(path)
    must_be_refused(storage, back, "commits/10, which the rollback had left, is missing")


# -- it has not


def nothing(_: Storage) -> None:
    """Leaves the checkpoint alone."""


def read(storage: Storage) -> None:
    verify(storage, deep=True)
    doctor(storage)
    digest_stores(storage)


def maintained(storage: Storage) -> None:
    """Writes snapshots at 11 and 15, and deletes deltas 1 to 10."""
    assert maintain(storage, TIGHT).files_deleted.total() > 0


def repaired(storage: Storage) -> None:
    assert repair(storage, trash_for=MONTH).run == ""


@pytest.mark.parametrize("meanwhile", [nothing, read, maintained, repaired])
def test_a_rollback_comes_back_whatever_has_only_looked_or_cleaned_up(
    storage: MemoryStorage,
    clock: Clock,
    before: dict[str, bytes],
    back: str,
    meanwhile: Callable[[Storage], None],
) -> None:
    meanwhile(storage)
    clock.now += 60
    found = undo(storage, back)
    assert found.left == {}
    now = of_the_query(storage)
    gone = {path for path in before if path not in now}
    assert all(int(path.split("/")[-1].partition(".")[0]) <= 10 for path in gone)
    assert {path: now[path] for path in before.keys() - gone} == {
        path: before[path] for path in before.keys() - gone
    }
    assert verify(storage, deep=True).findings == ()
    assert scan_checkpoint(storage).committed == 20


def test_a_copy_of_the_checkpoint_takes_it_back_as_well(
    storage: MemoryStorage, clock: Clock, before: dict[str, bytes], back: str
) -> None:
    copy = MemoryStorage(storage.files, clock=Clock(clock.now + DAY))
    assert undo(copy, back).left == {}
    assert of_the_query(copy) == before


def test_two_of_them_come_back_the_later_first(
    storage: MemoryStorage, clock: Clock, before: dict[str, bytes], back: str
) -> None:
    second = rollback(storage, 12, trash_for=MONTH).run
    clock.now += 60
    with pytest.raises(ConfigError, match=f"commits/13 was removed by run {second}; undo that run"):
        undo(storage, back)
    undo(storage, second)
    clock.now += 60
    undo(storage, back)
    assert of_the_query(storage) == before


def test_a_table_that_maintenance_has_deleted_is_missed() -> None:
    """A zip without its table does not load, and breaks the chain of all that lies above it."""
    files = contents("rocks-maintained-4.3.0")["rocks-aggregation-maintained"]
    clock = Clock()
    storage = MemoryStorage(dict(files), clock=clock)
    clock.now += 60
    back = rollback(storage, 9, trash_for=MONTH).run
    tables = [path for path in storage.files if FOLDER in path and path.endswith(".sst")]
    assert tables
    clock.now += 60
    storage.delete(tables[0])
    with pytest.raises(ConfigError, match=r"\.sst, which .*\.zip refers to, is missing; no file"):
        undo(storage, back)


def test_part_of_it_never_comes_back(storage: MemoryStorage, clock: Clock, back: str) -> None:
    """The run that empties the trash was killed in the middle of it."""
    clock.now += MONTH + DAY
    for path in ("state/0/1/19.delta", "commits/18"):
        other = survived(storage, clock)
        other.delete(f"{FOLDER}/{back}/{path}")
        with pytest.raises(ConfigError, match=path):
            undo(other, back)
    assert undo(storage, back).left == {}


def test_an_entry_that_has_left_the_trash_and_is_there_again_was_written_by_the_query(
    storage: MemoryStorage, back: str
) -> None:
    storage.delete(f"{FOLDER}/{back}/commits/15")
    storage.write("commits/15", [COMMIT])
    must_be_refused(storage, back, "commits/15 was written again")


def test_an_entry_that_is_nowhere_leaves_a_hole(storage: MemoryStorage, back: str) -> None:
    storage.delete(f"{FOLDER}/{back}/commits/17")
    must_be_refused(storage, back, "commits/17 is neither in its place nor in the trash")


# -- killed, and done again


class RolledBack:
    """A checkpoint with a rollback to batch 14, before and after."""

    def __init__(self, *, copies: bool) -> None:
        self.clock, self.copies = Ticking(), copies
        kind = CopyingStorage if copies else MemoryStorage
        self.storage = filled(kind(clock=self.clock), self.clock)
        self.before = of_the_query(self.storage)

    def killed_undos(self, *, after: bool) -> Iterator[tuple[int, MemoryStorage, str]]:
        back = rollback(self.storage, 14, trash_for=MONTH).run
        act = partial(undo, run=back)
        for at, again in each_crash(self.storage, self.clock, act, after=after, copies=self.copies):
            yield at, again, back

    def killed_rollbacks(self, *, after: bool = True) -> Iterator[tuple[int, MemoryStorage]]:
        act = partial(rollback, batch=14, trash_for=MONTH)
        return each_crash(self.storage, self.clock, act, after=after, copies=self.copies)


@pytest.fixture(params=[False, True], ids=["renames", "copies"])
def case(request: pytest.FixtureRequest) -> RolledBack:
    return RolledBack(copies=request.param)


@pytest.mark.parametrize("after", [False, True])
def test_an_undo_that_is_killed_anywhere_is_done_again(case: RolledBack, *, after: bool) -> None:
    at = 0
    for at, again, back in case.killed_undos(after=after):
        if any(path.startswith(FOLDER) for path in again.files):
            assert undo(again, back).left == {}, at
        assert of_the_query(again) == case.before, at
        assert verify(again, deep=True).findings == ()
    assert at >= 30


@pytest.mark.parametrize("after", [False, True])
def test_an_undo_that_was_killed_is_refused_once_the_query_has_gone_on(
    case: RolledBack, *, after: bool
) -> None:
    """From wherever its log ends then, and whatever of the state is back."""
    refused = 0
    for _, again, back in case.killed_undos(after=after):
        first = (scan_checkpoint(again).committed or 0) + 1
        run(again, first, first, attempt=0)
        if first == 21:
            continue  # all of the old log is back: the query has gone on from there
        with pytest.raises(ConfigError, match="the query has continued"):
            undo(again, back)
        refused += 1
    assert refused > 10


@pytest.mark.parametrize("after", [False, True])
def test_a_rollback_that_is_killed_anywhere_is_taken_back(case: RolledBack, *, after: bool) -> None:
    through = 0
    for at, again in case.killed_rollbacks(after=after):
        for one in list_runs(again):
            undo(again, one.run)
            through += 1
        assert of_the_query(again) == case.before, at
    assert through > 30


def test_one_that_was_killed_and_done_again_is_taken_back_in_reverse(case: RolledBack) -> None:
    twice = 0
    for at, again in case.killed_rollbacks():
        first = [one.run for one in list_runs(again)]
        second = rollback(again, 14, trash_for=MONTH).run
        case.clock.now += 120
        try:
            order = [*first, second]
            undo(again, order[0])
        except ConfigError as error:
            order = [second, *first]
            twice += f"was removed by run {second}; undo that run first" in str(error)
            undo(again, second)
        for one in filter(None, order[1:]):
            undo(again, one)
        assert of_the_query(again) == case.before, at
        assert not any(path.startswith(FOLDER) for path in again.files)
    assert twice > 30


def test_one_whose_killed_half_has_left_the_trash_is_refused(case: RolledBack) -> None:
    """The logs would come back, and without the newest of their state."""
    refused = 0
    for at, again in case.killed_rollbacks():
        second = rollback(again, 14, trash_for=MONTH).run
        trash = [path.split("/", 3)[2:] for path in again.files if path.startswith(FOLDER)]
        kept = {path for back, path in trash if back == second}
        for back, path in trash:
            if back != second:
                again.delete(f"{FOLDER}/{back}/{path}")
        lost = {path for _, path in trash if path.startswith("state/")} - kept
        if not (lost and second):
            continue
        with pytest.raises(ConfigError, match="has been deleted from the trash of run "):
            undo(again, second)
        assert verify(again, deep=True).healthy, at
        refused += 1
    assert refused > 20


def test_one_above_a_killed_one_comes_back_after_it(case: RolledBack) -> None:
    """Its log entries would be above the state that the killed one has moved away."""
    back, refused = rollback(case.storage, 17, trash_for=MONTH).run, 0
    case.clock.now += 120
    for at, again in case.killed_rollbacks():
        try:
            undo(again, back)
        except ConfigError as error:
            (lower,) = {*runs_in_trash(again)} - {back}
            refused += f"was removed by run {lower}; undo that run first" in str(error)
            undo(again, lower)
            undo(again, back)
        assert verify(again, deep=True).healthy, at
        assert of_the_query(again) == case.before, at
    assert refused > 10


# -- of an earlier build


@pytest.fixture
def old(storage: MemoryStorage, back: str) -> str:
    as_of_an_earlier_build(storage, back)
    return back


def test_one_of_an_earlier_build_comes_back_while_nothing_is_newer(
    storage: MemoryStorage, before: dict[str, bytes], old: str
) -> None:
    assert undo(storage, old).left == {}
    assert of_the_query(storage) == before


@pytest.mark.parametrize("last", [15, 59])
def test_one_of_an_earlier_build_is_refused_once_the_query_has_gone_on(
    storage: MemoryStorage, old: str, last: int
) -> None:
    run(storage, 15, last, attempt=0, retain=11)
    with pytest.raises(ConfigError, match="the query has continued"):
        undo(storage, old)


def test_one_of_an_earlier_build_tells_a_purged_log_by_its_times(
    storage: MemoryStorage, old: str
) -> None:
    run(storage, 15, 59, retain=11)
    for path in list(storage.files):
        if path.startswith("state/") and int(path.split("/")[-1].partition(".")[0]) < 45:
            storage.delete(path)
    must_be_refused(
        storage,
        old,
        "commits/49 is newer than its manifest, which does not record the logs",
    )


def test_one_that_was_killed_first_brings_nothing_back_above_what_has_run_since(
    clock: Clock,
) -> None:
    """Somebody had removed batches 17 to 20 from the logs; 20.snapshot is still of these."""
    rewound = filled(MemoryStorage(clock=clock), clock)
    rewind(rewound, 16)
    storage, at = killed(rewound, clock, "20.snapshot"), "17"
    assert "commits/16" in storage.files
    (back,) = runs_in_trash(storage)
    run(storage, 17, 17, attempt=0)
    why = f"{HOME}/20.snapshot is above commits/{at}, which is newer than the rollback"
    must_be_refused(storage, back, why)


def test_a_killed_undo_brings_no_snapshot_back_that_is_older_than_a_change_it_would_hide(
    clock: Clock,
) -> None:
    """20.snapshot is of before the rewind, and the killed rollback has taken it away."""
    rewound = filled(MemoryStorage(clock=clock), clock)
    rewind(rewound, 16)
    run(rewound, 17, 20, attempt=1)
    clock.now += 60
    storage = killed(rewound, clock, "20.snapshot")
    (back,) = runs_in_trash(storage)
    run(storage, 21, 21)
    must_be_refused(storage, back, f"{HOME}/18.delta may be newer than {HOME}/20.snapshot")


def killed(storage: MemoryStorage, clock: Clock, name: str) -> MemoryStorage:
    """Returns what a rollback to batch 14 leaves that is killed once a file is in the trash."""
    act = partial(rollback, batch=14, trash_for=MONTH)
    for _, stopped in each_crash(storage, clock, act, pause=0):
        trash = {path for path in stopped.files if path.startswith(FOLDER)}
        if any(path.endswith(name) for path in trash) and f"{HOME}/{name}" not in stopped.files:
            clock.now += DAY
            return stopped
    raise AssertionError(name)


def test_after_a_rewind_by_hand_it_is_as_it_was(
    storage: MemoryStorage, clock: Clock, before: dict[str, bytes], back: str
) -> None:
    """The operator has taken back all that the query did since, state and logs."""
    other = survived(storage, clock)
    run(other, 15, 18)
    rewind(other, 14)
    other.write("offsets/15", [storage.files["offsets/15"]])
    with pytest.raises(ConfigError, match="the query has continued"):
        undo(other, back)
    for version in range(16, 20):
        for partition in range(2):
            other.delete(f"state/0/{partition}/{version}.delta")
    assert undo(other, back).left == {}
    assert of_the_query(other) == before
