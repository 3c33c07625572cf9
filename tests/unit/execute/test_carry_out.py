"""Carrying plans out on real bytes: proofs, faults, crashes."""

import errno
import io
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import google_crc32c
import pytest

from statemaint.audit import verify
from statemaint.codec.integrity import checksum_file
from statemaint.errors import AlreadyExistsError
from statemaint.execute import publish
from statemaint.execute.stores import execute
from statemaint.fold import ClearEngine, Engine
from statemaint.fold.compiled.engine import FastEngine
from statemaint.listing import Entry
from statemaint.maintain import maintain
from statemaint.model.chain import Chain, Versions
from statemaint.model.findings import FindingCode
from statemaint.model.ids import StoreId
from statemaint.model.policy import Policy
from statemaint.model.proof import Attestation
from statemaint.plan.actions import Attest, Delete, Request
from statemaint.plan.reasons import AttestReason
from statemaint.planning import plan_checkpoint
from statemaint.records.attestations import (
    StoreNotes,
    attestation_path,
    parse_attestations,
    render_attestations,
)
from statemaint.records.claims import SECONDS
from statemaint.recover import repair
from statemaint.report.outcome import Deleted, Skipped, StoreOutcome
from statemaint.report.run import Report
from statemaint.scan.scanner import scan
from statemaint.storage import MemoryStorage, Storage
from tests.support.checkpoints import (
    COMMIT,
    delta_bytes,
    offsets_bytes,
    snapshot_bytes,
    state_at,
    write_checkpoint,
)
from tests.support.faults import (
    Clock,
    Hook,
    HookedStorage,
    LateStorage,
    each_crash,
    refuse,
)
from tests.support.ledgers import ledger_lines
from tests.support.states import state_of

TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0)
FLOOR, TARGET = 17, 25
engines = pytest.mark.parametrize("engine", [ClearEngine(), FastEngine()], ids=["clear", "fast"])


@pytest.fixture
def storage() -> MemoryStorage:
    return write_checkpoint(MemoryStorage())


def names(storage: Storage, partition: int = 0) -> set[str]:
    return {entry.name for entry in storage.list(f"state/0/{partition}")}


def states(storage: Storage, partition: int = 0) -> dict[int, dict[bytes, bytes]]:
    """Returns the state of every version from the floor to the target that loads."""
    stored = next(one for one in scan(storage).stores if one.id == StoreId(0, partition))
    chains = [Versions.of(stored.files).chain(one) for one in range(FLOOR, TARGET + 1)]
    return {one.version: state_of(storage, one) for one in chains if isinstance(one, Chain)}


def expected(partition: int = 0) -> dict[int, dict[bytes, bytes]]:
    return {version: state_at(version, partition) for version in range(FLOOR, TARGET + 1)}


def codes(report: Report) -> list[FindingCode]:
    return [one.code for one in report.findings]


def test_maintains_a_neglected_checkpoint(storage: MemoryStorage) -> None:
    report = maintain(storage, TIGHT)
    deltas = {f"{version}.delta" for version in range(FLOOR, TARGET + 1)}
    for partition in range(2):
        assert names(storage, partition) == deltas | {"17.snapshot", "25.snapshot"}
        assert states(storage, partition) == expected(partition)
    assert (report.snapshots_written, report.files_deleted) == (4, {"below_base": 32})
    assert report.exit_code == 0


def test_the_same_again_does_nothing(storage: MemoryStorage) -> None:
    maintain(storage, TIGHT)
    before = storage.files
    report = maintain(storage, TIGHT)
    assert storage.files == before
    assert report.plan.actions == ()
    assert {one.state for one in report.stores} == {StoreOutcome.DONE}


def test_a_dry_run_writes_nothing(storage: MemoryStorage) -> None:
    before = storage.files
    report = maintain(storage, TIGHT, dry_run=True)
    assert storage.files == before
    assert len(report.plan.actions) == 36
    assert report.snapshots_written == 0


def test_the_report_tells_the_store_as_it_is_now(storage: MemoryStorage) -> None:
    report = maintain(storage, TIGHT)
    assert [sorted(one.after.files, key=str) for one in report.stores] == [
        sorted(one.files, key=str) for one in scan(storage).stores
    ]
    assert [one.after.attestations for one in report.stores] == [
        one.attestations for one in scan(storage).stores
    ]


def test_an_attestation_names_every_file_with_its_bytes(storage: MemoryStorage) -> None:
    before = dict(storage.files)
    listed = {one.path: one for one in storage.list("state/0/0")}
    report = maintain(storage, TIGHT)
    (now,) = (one for one in scan(storage).stores if one.id == StoreId(0, 0))
    proofs = {one.version: one for one in now.attestations}
    assert [*proofs] == [FLOOR, TARGET]
    for version, proof in proofs.items():
        path = f"state/0/0/{version}.snapshot"
        state = state_at(version)
        size = sum(len(key) + len(value) for key, value in state.items())
        assert (proof.path, proof.rows, proof.bytes) == (path, len(state), size)
        assert proof.covers(storage.stat(path))
        assert proof.sum == google_crc32c.value(storage.read(path))
        assert (proof.files, proof.start, proof.target) == (version, 0, TARGET)
        assert (proof.ours, proof.readable, proof.doubted, proof.parts) == (True, True, (), ())
        assert [one.path for one in proof.inputs] == [
            f"state/0/0/{number}.delta" for number in range(1, version + 1)
        ]
        for one in proof.inputs:
            entry = listed[one.path]
            assert (one.size, one.modified) == (entry.size, entry.modified)
            assert one.sum == google_crc32c.value(before[one.path])
    assert {one.at for one in proofs.values()} == {report.plan.stores[0].store.listed}


def test_an_attestation_of_a_replaced_file_is_not_reported(storage: MemoryStorage) -> None:
    maintain(storage, TIGHT)
    storage.write("state/0/0/25.snapshot", [snapshot_bytes({})], overwrite=True)
    first, second = maintain(storage, TIGHT).stores
    assert first.attestation
    assert second.attestation
    assert (first.attestation.version, second.attestation.version) == (FLOOR, TARGET)


def test_the_ledger_has_a_line_for_each_write_and_delete(storage: MemoryStorage) -> None:
    maintain(storage, TIGHT, run="run-1")
    lines = ledger_lines(storage, "0/1")
    assert [one["action"] for one in lines] == ["write_snapshot"] * 2 + ["delete"] * 16
    assert {one["run"] for one in lines} == {"run-1"}
    assert lines[2]["path"] == "state/0/1/1.delta"
    assert lines[0]["attestation"]["version"] == TARGET


def test_nothing_of_ours_lies_below_state(storage: MemoryStorage) -> None:
    maintain(storage, TIGHT)
    new = {path for path in storage.files if not path.endswith(".delta")}
    ours = {path for path in new if path.startswith("state/")}
    assert {path.rpartition(".")[2] for path in ours} == {"snapshot"}


# -- the other maintainer


def with_spark_snapshot(storage: MemoryStorage, content: bytes) -> MemoryStorage:
    storage.write("state/0/0/17.snapshot", [content])
    return storage


def test_a_snapshot_of_spark_is_compared_before_anything_below_goes(storage: MemoryStorage) -> None:
    report = maintain(with_spark_snapshot(storage, snapshot_bytes(state_at(17))), TIGHT)
    proof = scan(storage).stores[0].attestations[0]
    assert (proof.version, proof.files) == (17, 17)
    assert report.files_deleted == {"below_base": 32}


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (snapshot_bytes(state_at(16)), FindingCode.SNAPSHOT_MISMATCH),
        (snapshot_bytes({}), FindingCode.SNAPSHOT_MISMATCH),
        (snapshot_bytes(state_at(17))[:60], FindingCode.CORRUPT_FILE),
        (b"", FindingCode.CORRUPT_FILE),
        (delta_bytes([(b"k", None)]), FindingCode.CORRUPT_FILE),
    ],
)
def test_a_wrong_snapshot_halts_its_store_and_no_other(
    storage: MemoryStorage, content: bytes, code: FindingCode
) -> None:
    report = maintain(with_spark_snapshot(storage, content), TIGHT)
    assert codes(report) == [code]
    assert [one.state for one in report.stores] == [StoreOutcome.HALTED, StoreOutcome.DONE]
    assert {f"{version}.delta" for version in range(1, 26)} <= names(storage)
    assert len(names(storage, 1)) == 11
    assert report.exit_code == 3


def test_a_wrong_snapshot_in_the_middle_never_becomes_the_only_truth(
    storage: MemoryStorage,
) -> None:
    # Folding on from it and deleting the log below would make its fault permanent.
    storage.write("state/0/0/10.snapshot", [snapshot_bytes({b"poison": b""})])
    report = maintain(storage, TIGHT)
    assert report.exit_code == 0
    assert states(storage) == expected()
    assert "10.snapshot" not in names(storage)


def test_a_base_with_nothing_below_is_decoded_whole(storage: MemoryStorage) -> None:
    with_spark_snapshot(storage, snapshot_bytes(state_at(17)))
    storage.delete("state/0/0/1.delta")
    maintain(storage, TIGHT)
    assert scan(storage).stores[0].attestations[0].files == 0
    assert states(storage) == expected()


def test_a_snapshot_that_appears_meanwhile_is_compared_and_kept(storage: MemoryStorage) -> None:
    racing = HookedStorage(storage)
    racing.before = at_the_newest_snapshot(storage)
    report = maintain(racing, TIGHT)
    assert (report.exit_code, report.snapshots_written) == (0, 3)
    assert [one.version for one in scan(racing).stores[0].attestations] == [17, 25]
    assert states(racing) == expected()


def test_a_base_that_is_replaced_meanwhile_protects_what_lies_below(storage: MemoryStorage) -> None:
    def replace_base(verb: str, path: str) -> None:
        if verb == "append" and "ledger/0/0" in path and b'"version": 17' in storage.read(path):
            storage.write("state/0/0/17.snapshot", [b"somebody else's"], overwrite=True)

    replacing = HookedStorage(storage, after=replace_base)
    report = maintain(replacing, TIGHT)
    assert codes(report) == [FindingCode.SUPERSEDED]
    assert {f"{version}.delta" for version in range(1, 26)} <= names(replacing)
    assert report.exit_code == 6


def _rewound(storage: Storage) -> None:
    """Somebody starts the query over, under its old state."""
    for entry in [*storage.list("commits"), *storage.list("offsets")]:
        storage.delete(entry.path)
    storage.write("state/0/0/1.delta", [delta_bytes([(b"other", b"input")])], overwrite=True)


def _run_again(storage: Storage) -> None:
    storage.write("commits/24", [COMMIT, b" "], overwrite=True)


def _gone_on(storage: Storage) -> None:
    """The query has gone on, further than its log goes back."""
    for batch in range(25, 40):
        storage.write(f"commits/{batch}", [COMMIT])
    for batch in range(16, 30):
        storage.delete(f"commits/{batch}")


def _rewound_and_gone_on(storage: Storage) -> None:
    """The commit that would tell is not in the log any more."""
    storage.write("state/0/0/22.delta", [delta_bytes([(b"other", b"input")])], overwrite=True)
    _gone_on(storage)


@pytest.mark.parametrize(
    ("happens", "deletes"),
    [(_rewound, False), (_run_again, False), (_gone_on, True), (_rewound_and_gone_on, False)],
)
def test_a_run_under_which_the_query_was_rewound_deletes_nothing(
    storage: MemoryStorage,
    happens: Callable[[Storage], None],
    deletes: bool,  # noqa: FBT001
) -> None:
    """Something happens to the query once the run has proved what it relies on."""
    moved: list[str] = []

    def move(verb: str, path: str) -> None:
        if verb == "append" and not moved and b'"version": 17' in storage.read(path):
            moved.append(path)
            happens(storage)

    moving = HookedStorage(storage, after=move)
    report = maintain(moving, TIGHT)
    assert moved
    assert ("1.delta" not in names(moving)) is deletes
    assert ("2.delta" not in names(moving)) is deletes
    if not deletes:
        assert {one.code for one in report.findings} == {FindingCode.SUPERSEDED}
        assert "the query was rewound; plan again" in report.findings[0].detail


def test_a_proved_snapshot_that_is_replaced_under_a_fold_is_superseded(
    storage: MemoryStorage,
) -> None:
    """What was proved at the scan is something else by the time that the fold opens it."""

    def poison(verb: str, path: str) -> None:
        if (verb, path) == ("open", "state/0/0/20.snapshot"):
            storage.write(path, [snapshot_bytes({b"poison": b""})], overwrite=True)

    maintain(storage, TIGHT, request=Request(target=20, force_snapshot=True))
    before = names(storage)
    replacing = HookedStorage(storage, before=poison)
    report = maintain(replacing, TIGHT, request=Request(force_snapshot=True))
    assert codes(report) == [FindingCode.SUPERSEDED]
    assert names(replacing) == before
    assert names(replacing, 1) >= {"25.snapshot"}


def test_a_delta_that_is_cleaned_away_meanwhile_is_superseded(storage: MemoryStorage) -> None:
    def clean_up(verb: str, _path: str) -> None:
        if verb == "open":
            storage.delete("state/0/0/3.delta")

    report = maintain(HookedStorage(storage, before=clean_up), TIGHT)
    assert codes(report) == [FindingCode.SUPERSEDED]
    assert [one.state for one in report.stores] == [StoreOutcome.SKIPPED, StoreOutcome.DONE]


def test_that_nothing_lies_below_a_snapshot_needs_a_second_look(storage: MemoryStorage) -> None:
    """The first misses what somebody else has just written, and what it has deleted."""
    storage.write("state/0/0/16.snapshot", [snapshot_bytes(state_at(16))])
    storage.write("state/0/0/17.snapshot", [snapshot_bytes({b"poison": b""})])
    mixed = LateStorage(storage, "state", ("0/0/1.delta", "0/0/16.snapshot"))
    report = maintain(mixed, TIGHT)
    assert codes(report) == [FindingCode.SNAPSHOT_MISMATCH]
    assert "17.snapshot" in report.findings[0].detail


def test_a_finding_needs_a_second_scan(storage: MemoryStorage) -> None:
    late = LateStorage(storage, "state", "0/20.delta")
    assert maintain(late, TIGHT).exit_code == 0
    assert late.paths("list").count("state") == 2


def test_a_finding_that_only_moves_is_looked_at_again(storage: MemoryStorage) -> None:
    flickering = LateStorage(storage, "state", "0/20.delta", "1/22.delta")
    assert maintain(flickering, TIGHT).exit_code == 0
    assert flickering.paths("list").count("state") == 3


def test_a_plan_whose_base_nobody_attested_deletes_nothing(storage: MemoryStorage) -> None:
    _, decided = plan_checkpoint(storage, TIGHT)
    deletes = tuple(one for one in decided.stores[0].actions if isinstance(one, Delete))
    unproved = replace(decided.stores[0], actions=deletes)
    before = storage.files
    outcomes = list(execute(replace(decided, stores=(unproved,)), storage, run="r"))
    assert [type(one) for one in outcomes] == [Skipped]
    assert storage.files == before


# -- damage


def test_an_uncommitted_version_is_neither_snapshotted_nor_touched(storage: MemoryStorage) -> None:
    for partition in range(2):
        storage.write(f"state/0/{partition}/26.delta", [b"half a batch"])
    report = maintain(storage, TIGHT)
    assert report.exit_code == 0
    assert storage.read("state/0/0/26.delta") == b"half a batch"
    assert "26.snapshot" not in names(storage)
    assert "25.snapshot" in names(storage)


def test_a_missing_delta_halts_its_store_and_no_other(storage: MemoryStorage) -> None:
    storage.delete("state/0/0/20.delta")
    before = names(storage)
    report = maintain(storage, TIGHT)
    assert codes(report) == [FindingCode.BROKEN_CHAIN]
    assert names(storage) == before
    assert len(names(storage, 1)) == 11
    assert report.exit_code == 3


def test_a_damaged_delta_halts_its_store_and_no_other(storage: MemoryStorage) -> None:
    content = bytearray(storage.read("state/0/0/5.delta"))
    content[30] ^= 1
    storage.write("state/0/0/5.delta", [bytes(content)], overwrite=True)
    report = maintain(storage, TIGHT)
    assert codes(report) == [FindingCode.CORRUPT_FILE]
    assert "state/0/0/5.delta" in report.findings[0].detail
    assert "17.snapshot" not in names(storage)
    assert {f"{version}.delta" for version in range(1, 26)} <= names(storage)


def cut_commit(storage: MemoryStorage) -> None:
    storage.write("commits/20", [b"v1\n{"], overwrite=True)


def empty_commit(storage: MemoryStorage) -> None:
    storage.write("commits/20", [b""], overwrite=True)


def no_commits(storage: MemoryStorage) -> None:
    for batch in range(16, 25):
        storage.delete(f"commits/{batch}")


@pytest.mark.parametrize(
    ("spoil", "code", "state", "exit_code"),
    [
        (cut_commit, FindingCode.UNREADABLE_COMMIT, StoreOutcome.HALTED, 3),
        (empty_commit, FindingCode.UNREADABLE_COMMIT, StoreOutcome.HALTED, 3),
        (no_commits, FindingCode.MISSING_COMMIT, StoreOutcome.HALTED, 3),
    ],
)
def test_without_a_readable_commit_log_nothing_is_touched(
    storage: MemoryStorage,
    spoil: Callable[[MemoryStorage], None],
    code: FindingCode,
    state: StoreOutcome,
    exit_code: int,
) -> None:
    spoil(storage)
    before = storage.files
    report = maintain(storage, TIGHT)
    assert codes(report)[-1] == code
    assert {one.state for one in report.stores} == {state}
    assert storage.files == before
    assert report.exit_code == exit_code


class Garbling(MemoryStorage):
    """Stores another state than it is given, of snapshots of some version."""

    version = 17

    def write(self, path, chunks, *, overwrite=False, like=None):  # type: ignore[no-untyped-def]
        wrong = path.endswith(f"/{self.version}.snapshot")
        chunks = [snapshot_bytes(state_at(3))] if wrong else chunks
        return super().write(path, chunks, overwrite=overwrite, like=like)


def test_what_storage_garbles_is_never_relied_on(storage: MemoryStorage) -> None:
    garbling = Garbling(storage.files)
    report = maintain(garbling, TIGHT)
    assert set(codes(report)) == {FindingCode.SNAPSHOT_MISMATCH}
    assert report.files_deleted.total() == 0
    assert {f"{version}.delta" for version in range(1, 26)} <= names(garbling)


def test_the_proof_of_the_first_snapshot_does_not_depend_on_the_second(
    storage: MemoryStorage,
) -> None:
    refusing = HookedStorage(storage, before=refuse("write", f"state/0/0/{FLOOR}.snapshot"))
    report = maintain(refusing, TIGHT)
    assert set(codes(report)) == {FindingCode.STORAGE_FAILED}
    proofs = parse_attestations(refusing.read(attestation_path(StoreId(0, 0)))).proofs
    assert [one.version for one in proofs] == [TARGET]
    (line,) = ledger_lines(refusing, "0/0")
    assert (line["action"], line["version"]) == ("write_snapshot", TARGET)


def test_what_a_restart_would_begin_with_is_said_to_be_wrong_until_it_is_mended(
    storage: MemoryStorage,
) -> None:
    garbling = Garbling(storage.files)
    garbling.version = 25
    assert maintain(garbling, TIGHT).exit_code == 3
    later = MemoryStorage(garbling.files)
    for _ in range(2):  # nothing else is left to do: the run before has written it
        report = maintain(later, TIGHT)
        assert set(codes(report)) == {FindingCode.SNAPSHOT_MISMATCH}
        assert report.exit_code == 3
        assert names(later) == names(garbling)
    repair(later, trash_for=60.0)
    assert maintain(later, TIGHT).exit_code == 0
    assert verify(later, deep=True).findings == ()


def without_proofs(storage: MemoryStorage) -> None:
    """Leaves what a run leaves that is killed before it has proved what it wrote."""
    path = "_statemaint/attestations/0/0/default.json"
    noted = json.loads(storage.files[path]) | {"attestations": []}
    storage.write(path, [json.dumps(noted).encode()], overwrite=True)


def attests(storage: MemoryStorage, policy: Policy) -> list[tuple[str, AttestReason]]:
    found = plan_checkpoint(storage, policy)[1].actions
    return [(one.path, one.reason) for one in found if isinstance(one, Attest)]


def test_a_snapshot_that_a_killed_run_left_is_proved_by_the_next(storage: MemoryStorage) -> None:
    maintain(storage, TIGHT)
    without_proofs(storage)
    assert attests(storage, TIGHT) == [("state/0/0/25.snapshot", AttestReason.NEVER_PROVED)]
    maintain(storage, TIGHT)
    assert not plan_checkpoint(storage, TIGHT)[1].actions


def test_a_snapshot_of_a_killed_run_is_not_proved_where_the_policy_is_not_to_verify(
    storage: MemoryStorage,
) -> None:
    maintain(storage, TIGHT)
    without_proofs(storage)
    assert attests(storage, TIGHT.override(verify=False)) == []


def test_a_snapshot_of_a_killed_run_is_not_proved_where_nothing_tells_its_state(
    storage: MemoryStorage,
) -> None:
    maintain(storage, TIGHT)
    without_proofs(storage)
    for name in names(storage) - {"25.snapshot"}:
        storage.delete(f"state/0/0/{name}")
    assert attests(storage, TIGHT) == []


@pytest.mark.parametrize(
    ("verb", "below"),
    [
        ("write", "state/0/0/"),
        ("delete", "state/0/0/"),
        ("append", "_statemaint/ledger/0/0"),
        ("write", "_statemaint/attestations/0/0"),
    ],
)
def test_a_refusing_storage_ends_the_work_on_that_store_only(
    storage: MemoryStorage, verb: str, below: str
) -> None:
    refusing = HookedStorage(storage.files, before=refuse(verb, f"{below}*"))
    report = maintain(refusing, TIGHT)
    assert codes(report) == [FindingCode.STORAGE_FAILED]
    assert [one.state for one in report.stores] == [StoreOutcome.HALTED, StoreOutcome.DONE]
    assert report.exit_code == 5
    assert states(refusing) == expected()
    assert {f"{version}.delta" for version in range(1, 26)} <= names(refusing)


def test_without_a_durable_ledger_nothing_is_deleted(storage: MemoryStorage) -> None:
    refusing = HookedStorage(storage.files, before=refuse("append", "_statemaint/*"))
    assert maintain(refusing, TIGHT).files_deleted.total() == 0


def test_a_fault_of_ours_in_one_store_does_not_stop_the_others(storage: MemoryStorage) -> None:
    def surprise(verb: str, path: str) -> None:
        if verb == "open" and path.startswith("state/0/0/"):
            raise ZeroDivisionError("surprise")

    report = maintain(HookedStorage(storage, before=surprise), TIGHT)
    assert codes(report) == [FindingCode.FAULT]
    assert report.findings[0].detail == "ZeroDivisionError: surprise"
    assert [one.state for one in report.stores] == [StoreOutcome.HALTED, StoreOutcome.DONE]
    assert report.exit_code == 1


# -- bounds


def test_deletions_are_bounded_and_the_next_run_goes_on(storage: MemoryStorage) -> None:
    few = TIGHT.override(max_deletes_per_run=20)
    first = maintain(storage, few)
    assert first.files_deleted.total() == 20
    assert sum(one.reclaimable for one in first.stores) > 0
    assert maintain(storage, few).files_deleted.total() == 12
    assert maintain(storage, few).plan.actions == ()


def test_no_store_is_begun_after_the_time_is_up(storage: MemoryStorage) -> None:
    ticks = iter(range(1000))
    late = MemoryStorage(storage.files, clock=lambda: float(next(ticks)))
    report = maintain(late, TIGHT.override(max_seconds_per_run=18))
    assert [one.state for one in report.stores] == [StoreOutcome.DONE, StoreOutcome.SKIPPED]
    assert len(names(late, 1)) == 25
    assert report.exit_code == 0


def test_without_verification_snapshots_appear_and_nothing_goes(storage: MemoryStorage) -> None:
    report = maintain(storage, TIGHT.override(verify=False))
    assert report.snapshots_written == 4
    assert report.files_deleted.total() == 0
    assert parse_attestations(storage.read(attestation_path(StoreId(0, 0)))).proofs == ()


def test_many_deletions_are_noted_page_by_page() -> None:
    storage = write_checkpoint(MemoryStorage(), last=450, batches=range(441, 450), partitions=1)
    assert maintain(storage, TIGHT).files_deleted == {"below_base": 441}
    assert len(ledger_lines(storage, "0/0")) == 443


def test_a_snapshot_forced_by_request(storage: MemoryStorage) -> None:
    maintain(storage, TIGHT)
    for partition in range(2):
        storage.write(f"state/0/{partition}/26.delta", [delta_bytes([(b"k", b"v")])])
    storage.write("offsets/25", [offsets_bytes()])
    storage.write("commits/25", [COMMIT])
    report = maintain(storage, TIGHT, request=Request(force_snapshot=True))
    assert report.snapshots_written == 2
    assert "26.snapshot" in names(storage)


def test_a_target_that_was_cleaned_away_is_left_to_the_next_run(storage: MemoryStorage) -> None:
    maintain(storage, TIGHT)
    before = storage.files
    report = maintain(storage, TIGHT, request=Request(target=9))
    assert set(codes(report)) == {FindingCode.SUPERSEDED}
    assert {one.state for one in report.stores} == {StoreOutcome.SKIPPED}
    assert (storage.files, report.exit_code) == (before, 6)


# -- crashes


def converge(files: dict[str, bytes], policy: Policy) -> MemoryStorage:
    rested = MemoryStorage(files, clock=Clock(SECONDS))  # the lease of one that crashed has ended
    maintain(rested, policy, run="the same run")
    return rested


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("policy", [TIGHT, TIGHT.override(min_deltas_for_snapshot=10)])
def test_after_a_crash_at_any_change_the_next_run_converges(policy: Policy, *, after: bool) -> None:
    clean = write_checkpoint(MemoryStorage(), partitions=1)
    goal = {path for path in converge(clean.files, policy).files if path.startswith("state/")}
    crashes, act = 0, partial(maintain, policy=policy, run="the same run")
    for crashes, left in each_crash(clean, Clock(0), act, after=after, pause=0):
        assert states(left) == expected(), crashes
        again = converge(left.files, policy)
        assert {path for path in again.files if path.startswith("state/")} == goal
        assert states(again) == expected()
    assert crashes >= 21  # 2 snapshots, 2 proofs, 3 appends, 16 deletions


def test_deleted_outcomes_come_in_the_plans_order(storage: MemoryStorage) -> None:
    report = maintain(storage, TIGHT)
    gone = [one.action.version for one in report.stores[0].outcomes if isinstance(one, Deleted)]
    assert gone == list(range(1, 17))


# -- one fold for both snapshots


@engines
def test_target_and_floor_come_of_one_fold(storage: MemoryStorage, engine: Engine) -> None:
    counting = HookedStorage(storage)
    _, plan = plan_checkpoint(counting, TIGHT)
    list(execute(plan, counting, run="r", engine=engine))
    opened = Counter(counting.paths("open"))
    assert set(opened.values()) == {1}  # folded once, and read back once
    assert {"state/0/0/17.snapshot", "state/0/0/25.snapshot", "state/0/0/1.delta"} < set(opened)
    assert states(counting) == expected()


def test_what_is_not_of_one_chain_is_folded_by_itself(storage: MemoryStorage) -> None:
    # The proved snapshot at 20 shortens the target's chain, not the floor's.
    storage.write("state/0/0/20.snapshot", [snapshot_bytes(state_at(20))])
    entry = storage.stat("state/0/0/20.snapshot")
    proof = Attestation(entry.path, 20, entry.size, entry.modified, "", 0, 0)
    storage.write(attestation_path(StoreId(0, 0)), [render_attestations(StoreNotes((proof,)))])
    report = maintain(storage, replace(TIGHT, min_deltas_for_snapshot=4))
    assert names(storage) >= {"17.snapshot", "25.snapshot"}
    assert states(storage) == expected()
    assert report.exit_code == 0


def at_the_newest_snapshot(
    storage: MemoryStorage, happens: Callable[[str], None] = lambda _: None
) -> Hook:
    """Spark is first to write 25.snapshot, and something else may happen then."""

    def spark_writes(verb: str, path: str) -> None:
        if (verb, path) == ("write", "state/0/0/25.snapshot"):
            storage.write(path, [snapshot_bytes(state_at(TARGET))])
            happens(path)

    return spark_writes


def test_a_storage_that_notices_before_it_has_read_has_it_compared(
    storage: MemoryStorage,
) -> None:
    class RefusesUnread(HookedStorage):
        def write(self, path: str, chunks: Iterable[bytes], **how: Any) -> Entry:
            self._point("write", path)
            return MemoryStorage.write(self, path, chunks, **how)

    def refuse(path: str) -> None:
        raise AlreadyExistsError(path)

    racing = RefusesUnread(storage, before=at_the_newest_snapshot(storage, refuse))
    report = maintain(racing, TIGHT)
    assert (report.exit_code, report.snapshots_written) == (0, 3)
    assert states(racing) == expected()


def test_a_full_temporary_directory_is_a_storage_error(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(io.BytesIO):
        def write(self, _chunk: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(publish, "SpooledTemporaryFile", lambda _size: Full())
    before = {path for path in storage.files if path.startswith("state/")}
    report = maintain(storage, TIGHT)
    assert codes(report) == [FindingCode.STORAGE_FAILED] * 2
    assert "the temporary directory: No space left on device" in str(report.findings[0])
    assert {path for path in storage.files if path.startswith("state/")} == before


# -- Spark's checksum files


def add_checksum(storage: MemoryStorage, name: str, content: bytes | None = None) -> None:
    of = storage.read(f"state/0/0/{name}") if content is None else content
    side = checksum_file.spark(google_crc32c.value(of), len(of), 0)
    storage.write(f"state/0/0/{name}.crc", [side])


def test_snapshots_get_a_checksum_file_where_the_newest_delta_has_one(
    storage: MemoryStorage,
) -> None:
    for version in range(20, TARGET + 1):
        add_checksum(storage, f"{version}.delta")
    report = maintain(storage, TIGHT)
    written = {f"{TARGET}.snapshot", f"{TARGET}.snapshot.crc", f"{FLOOR}.snapshot"}
    assert names(storage) >= written
    assert f"{FLOOR}.snapshot.crc" not in names(storage)  # the query wrote none then
    side = checksum_file.parse_spark(storage.read(f"state/0/0/{TARGET}.snapshot.crc"))
    assert side.matches(storage.read(f"state/0/0/{TARGET}.snapshot"))
    assert sorted(report.stores[0].after.files, key=str) == sorted(
        scan(storage).stores[0].files, key=str
    )
    assert verify(storage, deep=True).findings == ()
    again = maintain(storage, TIGHT)
    assert again.plan.actions == ()
    lines = ledger_lines(storage, "0/0")
    assert [one["checksum"] for one in lines if one["action"] == "write_snapshot"] == [
        f"state/0/0/{TARGET}.snapshot.crc",
        None,
    ]


def test_the_checksum_of_a_snapshot_that_spark_wrote_meanwhile_is_compared(
    storage: MemoryStorage,
) -> None:
    def with_checksum(_path: str) -> None:
        add_checksum(storage, "25.snapshot", b"other")

    add_checksum(storage, "25.delta")
    racing = HookedStorage(storage, before=at_the_newest_snapshot(storage, with_checksum))
    report = maintain(racing, TIGHT)
    assert codes(report) == [FindingCode.STALE_CHECKSUM]


def test_a_checksum_file_goes_with_its_file(storage: MemoryStorage) -> None:
    for version in range(1, TARGET + 1):
        add_checksum(storage, f"{version}.delta")
    maintain(storage, TIGHT)
    left = {f"{version}.delta" for version in range(FLOOR, TARGET + 1)}
    left |= {f"{FLOOR}.snapshot", f"{TARGET}.snapshot"}
    assert names(storage) == left | {f"{name}.crc" for name in left}


@pytest.mark.parametrize("name", ["3.delta", "20.delta"])
def test_a_stale_checksum_file_halts_its_store(storage: MemoryStorage, name: str) -> None:
    add_checksum(storage, name, b"other")
    before = names(storage)
    report = maintain(storage, TIGHT)
    assert codes(report) == [FindingCode.STALE_CHECKSUM]
    assert (names(storage), report.exit_code) == (before, 3)
    assert f"state/0/0/{name}.crc: does not match state/0/0/{name}" in report.findings[0].detail


def test_nothing_goes_on_the_strength_of_a_snapshot_that_spark_refuses(
    storage: MemoryStorage,
) -> None:
    storage.write("state/0/0/17.snapshot", [snapshot_bytes(state_at(17))])
    add_checksum(storage, "17.snapshot", b"other")
    report = maintain(storage, replace(TIGHT, min_deltas_for_snapshot=30))
    assert codes(report) == [FindingCode.STALE_CHECKSUM]
    assert names(storage) >= {"1.delta", "17.snapshot"}


def test_a_checksum_file_of_somebody_else_is_compared_too(storage: MemoryStorage) -> None:
    def add_another(verb: str, path: str) -> None:
        if (verb, path) == ("write", "state/0/0/25.snapshot"):
            add_checksum(storage, "25.snapshot", b"other")

    add_checksum(storage, "25.delta")
    report = maintain(HookedStorage(storage, after=add_another), TIGHT)
    assert codes(report) == [FindingCode.STALE_CHECKSUM]


def test_snapshots_and_the_deletions_that_follow_are_one_page_of_the_ledger() -> None:
    storage = write_checkpoint(MemoryStorage(), partitions=1)
    ordered = HookedStorage(storage)
    report = maintain(ordered, TIGHT)
    assert (report.snapshots_written, sum(report.files_deleted.values())) == (2, 16)
    kinds = ("_statemaint/ledger/", "_statemaint/attestations/", "state/")
    changed = ordered.paths("write", "append", "delete")
    changes = [kind for path in changed for kind in kinds if path.startswith(kind)]
    ledger, proofs, state = kinds
    announced, target, floor, noted, proved, *deletions = changes
    assert (announced, target, floor) == (proofs, state, state)
    assert (noted, proved) == (ledger, proofs), "both before anything is deleted"
    assert deletions == [state] * 16
    (page,) = [one for one in ordered.files if one.startswith("_statemaint/ledger/0/0/")]
    lines = [json.loads(one)["action"] for one in ordered.files[page].splitlines()]
    assert lines == ["write_snapshot"] * 2 + ["delete"] * 16


def test_a_snapshot_is_noted_although_nothing_can_be_deleted(storage: MemoryStorage) -> None:
    class Rewound(MemoryStorage):
        def stat(self, path: str) -> Entry:
            entry = super().stat(path)
            return replace(entry, modified=7.0) if path.startswith("commits/") else entry

    rewound = Rewound(storage.files)
    report = maintain(rewound, TIGHT)
    assert codes(report) == [FindingCode.SUPERSEDED] * 2
    assert not report.files_deleted
    actions = Counter(one["action"] for one in ledger_lines(rewound, "0/0"))
    assert actions["write_snapshot"] == 2
    notes = parse_attestations(rewound.files[attestation_path(StoreId(0, 0))])
    assert [one.version for one in notes.proofs] == [FLOOR, TARGET]
