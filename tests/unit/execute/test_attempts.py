"""Attempts at one unit: one works, whatever Spark repeats, and all have its outcome."""

from pathlib import Path
from threading import Barrier, Thread

import pytest

from statemaint.errors import AlreadyExistsError, LeaseLostError, NotFoundError, StorageError
from statemaint.execute.attempts import (
    SECONDS,
    LeaseGuardedStorage,
    Rows,
    SubdirectoryStorage,
    UnitClaim,
    forget_units,
)
from statemaint.execute.lease import acquire, leased
from statemaint.listing import Entry
from statemaint.maintain.bundles import Bundle
from statemaint.maintain.work import WorkOrder, maintain_part
from statemaint.model.policy import Policy
from statemaint.records.claims import Holder
from statemaint.records.runs import UNITS
from statemaint.storage import LocalStorage, MemoryStorage, Storage
from tests.support.checkpoints import write_checkpoint
from tests.support.faults import Clock, HookedStorage, refuse

TIGHT = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=2, grace=0)
ROWS: Rows = [{"store": "default"}]


class Paused(Exception):  # noqa: N818 -- not an error
    """The attempt waits for another one."""


def stopping(_seconds: float) -> None:
    raise Paused


def checkpoint(clock: Clock) -> MemoryStorage:
    return write_checkpoint(MemoryStorage(clock=clock), last=9, batches=range(6, 9), partitions=2)


def no_work(_storage: Storage) -> Rows:
    raise AssertionError("the unit was worked on again")


def test_the_attempts_after_the_first_have_its_outcome_and_write_nothing() -> None:
    storage = MemoryStorage()
    assert UnitClaim(storage, "run", "0-0").once(lambda _: ROWS) == ROWS
    before = storage.files
    assert UnitClaim(storage, "run", "0-0").once(no_work) == ROWS
    assert storage.files == before


def test_an_outcome_that_cannot_be_read_is_made_again() -> None:
    claim = UnitClaim(MemoryStorage(), "run", "0-0")
    claim.storage.write(f"{claim.folder}/outcome.json", [b'[{"store'])
    assert claim.once(lambda _: ROWS) == claim.outcome() == ROWS


@pytest.mark.parametrize("other", [("run", "0-1"), ("run 2", "0-0")])
def test_other_units_and_other_runs_have_outcomes_of_their_own(other: tuple[str, str]) -> None:
    storage = MemoryStorage()
    UnitClaim(storage, "run", "0-0").once(lambda _: ROWS)
    assert UnitClaim(storage, *other).once(lambda _: []) == []


def test_an_attempt_waits_while_another_one_works() -> None:
    storage = MemoryStorage(clock=Clock())

    def first(_storage: Storage) -> Rows:
        with pytest.raises(Paused):
            UnitClaim(storage, "run", "0-0", pause=stopping).once(no_work)
        return ROWS

    assert UnitClaim(storage, "run", "0-0").once(first) == ROWS


def test_an_attempt_that_waited_returns_what_the_other_one_made() -> None:
    storage = MemoryStorage(clock=Clock())
    claim = UnitClaim(storage, "run", "0-0")
    lease = acquire(SubdirectoryStorage(storage, claim.folder), Holder("first"))

    def ends(_seconds: float) -> None:
        storage.replace(f"{claim.folder}/outcome.json", [b'[{"store": "default"}]'])
        lease.release()

    def claims_again() -> None:
        raise AssertionError("the unit was claimed again")

    waiting = UnitClaim(storage, "run", "0-0", pause=ends)
    assert waiting.once(no_work, again=claims_again) == ROWS


def test_the_attempt_after_a_lost_executor_works_once_the_claim_has_ended() -> None:
    clock = Clock()
    storage = MemoryStorage(clock=clock)
    claim = UnitClaim(storage, "run", "0-0")
    acquire(SubdirectoryStorage(storage, claim.folder), Holder("lost"), seconds=SECONDS)
    waited = []

    def wait(_seconds: float) -> None:
        waited.append(clock.now)
        clock.now += SECONDS / 3

    assert UnitClaim(storage, "run", "0-0", pause=wait).once(lambda _: ROWS) == ROWS
    assert len(waited) == 3


def test_an_attempt_that_was_paused_changes_nothing_and_has_the_other_ones_outcome() -> None:
    clock = Clock()
    storage = checkpoint(clock)
    before = dict(storage.files)

    def paused(guarded: Storage) -> Rows:
        clock.now += SECONDS + 1
        UnitClaim(storage, "run", "0-0").once(lambda _: ROWS)
        for change in (
            lambda: guarded.write("state/0/0/9.snapshot", [b"x"]),
            lambda: guarded.replace("_statemaint/note", [b"x"]),
            lambda: guarded.append("_statemaint/note", b"x\n"),
            lambda: guarded.delete("state/0/0/1.delta"),
            lambda: guarded.delete_all(["state/0/0/1.delta"]),
            lambda: guarded.move("state/0/0/1.delta", "_statemaint/trash/1.delta"),
        ):
            with pytest.raises(LeaseLostError):
                change()
        raise LeaseLostError(storage.root, 1)

    assert UnitClaim(storage, "run", "0-0").once(paused) == ROWS
    assert {path: one for path, one in storage.files.items() if UNITS not in path} == before


def test_an_attempt_that_outlives_its_run_claims_nothing_again() -> None:
    clock = Clock()
    storage = MemoryStorage(clock=clock)

    def paused(_storage: Storage) -> Rows:
        clock.now += SECONDS + 1
        UnitClaim(storage, "run", "0-0").once(lambda _: ROWS)
        forget_units(storage)  # as the run's end does
        raise LeaseLostError(storage.root, 1)

    def ended() -> None:
        raise LeaseLostError(storage.root, 7, "the run has ended")

    with pytest.raises(LeaseLostError, match="the run has ended"):
        UnitClaim(storage, "run", "0-0").once(paused, again=ended)
    assert list(storage.list(UNITS)) == []


def test_what_loses_the_runs_own_lease_is_told() -> None:
    def lost(_storage: Storage) -> Rows:
        raise LeaseLostError("memory:", 7)

    with pytest.raises(LeaseLostError, match="lease 7 is lost"):
        UnitClaim(MemoryStorage(), "run", "0-0").once(lost)


def test_a_failing_storage_is_told() -> None:
    with pytest.raises(StorageError):
        UnitClaim(HookedStorage(before=refuse("read")), "run", "0-0").once(no_work)


def test_two_attempts_at_the_same_moment_do_nothing_twice() -> None:
    both = Barrier(2)

    def meet(verb: str, path: str) -> None:
        """Lets both attempts see that nobody works on the unit."""
        first = verb == "write" and path.startswith(UNITS) and path.endswith("0000000001.json")
        if first and path not in storage.files:
            both.wait()

    storage = HookedStorage(before=meet, clock=Clock())
    write_checkpoint(storage, last=9, batches=range(6, 9), partitions=2)
    holder, found = Holder("run"), []
    bundle = Bundle(0, (0, 1), 9, holder)

    def attempt() -> None:
        claim = UnitClaim(storage, "run", "0-0", pause=lambda _seconds: None)
        found.append(claim.once(maintained))

    def maintained(guarded: Storage) -> Rows:
        report = maintain_part(guarded, WorkOrder("q", TIGHT, "run", (bundle,)), bundle)
        return [
            {"snapshots": report.snapshots_written, "deleted": sum(report.files_deleted.values())}
        ]

    with leased(storage, holder, keep=True):
        attempts = [Thread(target=attempt) for _ in range(2)]
        for one in attempts:
            one.start()
        for one in attempts:
            one.join()
    assert found[0] == found[1]
    assert found[0][0]["snapshots"] > 0
    assert found[0][0]["deleted"] > 0
    snapshots = [path for path in storage.paths("write") if path.endswith(".snapshot")]
    assert len(snapshots) == len(set(snapshots)) == found[0][0]["snapshots"]
    noted = b"".join(storage.read(one.path) for one in storage.list("_statemaint/ledger"))
    assert noted.count(b'"action": "delete"') == found[0][0]["deleted"]


def test_the_end_of_a_run_forgets_its_units() -> None:
    storage = MemoryStorage()
    UnitClaim(storage, "run", "0-0").once(lambda _: ROWS)
    UnitClaim(storage, "earlier", "0-0").once(lambda _: ROWS)
    checks = []
    forget_units(storage, before=lambda: checks.append(1))
    assert list(storage.list(UNITS)) == []
    assert checks
    forget_units(storage)


def test_no_folder_of_a_unit_is_left_on_a_disk_and_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    storage = LocalStorage(tmp_path / "root")
    UnitClaim(storage, "run", "0-0").once(lambda _: ROWS)
    theirs = tmp_path / "theirs/empty"
    theirs.mkdir(parents=True)
    (tmp_path / "root" / UNITS / "link").symlink_to(theirs.parent)
    assert SubdirectoryStorage(storage, "_statemaint").links("units") == ["units/link"]
    storage.delete_folders(UNITS)
    assert list(storage.list(f"{UNITS}/run"))  # of a unit at work
    (tmp_path / "root" / UNITS / "link").unlink()
    forget_units(storage)
    assert not (tmp_path / "root" / UNITS).exists()
    assert theirs.exists()
    storage.delete_folders(UNITS)


@pytest.mark.parametrize("file", [None, "outcome.json"])
def test_a_run_that_has_lost_its_lease_deletes_no_file_or_folder_of_a_unit(
    tmp_path: Path, file: str | None
) -> None:
    place = tmp_path / UNITS / "later" / "0-0"
    place.mkdir(parents=True)
    if file:
        place /= file
        place.write_bytes(b"[]")

    def lost() -> None:
        raise LeaseLostError("root", 1)

    with pytest.raises(LeaseLostError):
        forget_units(LocalStorage(tmp_path), before=lost)
    assert place.exists()


def test_a_guarded_storage_changes_what_it_wraps_while_the_unit_is_held() -> None:
    storage = MemoryStorage({"a": b"1", "b": b"2", "c": b"3", "g": b"4"})
    place = SubdirectoryStorage(storage, f"{UNITS}/run/0-0")
    lease = acquire(place, Holder("unit"))
    lease.renew()
    guarded = LeaseGuardedStorage(storage, lease)
    assert guarded.exclusive
    assert place.root == f"{storage.root}/{UNITS}/run/0-0"
    assert [*place.folders("_statemaint")] == ["lease"]
    guarded.move("a", "d")
    guarded.delete("b")
    guarded.append("e", b"x\n")
    guarded.replace("f", [b"y"])
    checks, moved = list[str](), list[Entry]()
    guarded.delete_all(["c"], before=lambda: checks.append("delete"))
    moves = [(storage.stat("g"), "h")]
    guarded.move_all(moves, before=lambda: checks.append("move"), after=moved.append)
    assert (checks, [entry.path for entry in moved]) == (["delete", "move"], ["g"])
    ours = {path: one for path, one in storage.files.items() if UNITS not in path}
    assert ours == {"d": b"1", "e": b"x\n", "f": b"y", "h": b"4"}


def test_storages_of_a_unit_replace_no_file_unasked_and_look_for_the_file_it_is_like() -> None:
    storage = MemoryStorage({"a": b"1", f"{UNITS}/a": b"2"})
    place = SubdirectoryStorage(storage, UNITS)
    guarded = LeaseGuardedStorage(storage, acquire(place, Holder("unit")))
    for written in (guarded, place):
        with pytest.raises(AlreadyExistsError):
            written.write("a", [b"another"])
    with pytest.raises(NotFoundError, match="missing"):
        guarded.write("b", [b"new"], like="missing")
    with pytest.raises(NotFoundError, match="missing"):
        guarded.move("a", "b", like="missing")
    assert storage.read("a") == b"1"
