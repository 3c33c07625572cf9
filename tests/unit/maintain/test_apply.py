"""A plan that was looked at is carried out exactly, or refused (S14)."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemaint.audit import verify
from statemaint.cli.verify import digest_json, verify_json
from statemaint.errors import ConfigError, LeaseHeldError, StatemaintError, Superseded
from statemaint.execute.lease import acquire
from statemaint.maintain import maintain
from statemaint.maintain.run import apply
from statemaint.model.policy import Policy
from statemaint.plan.actions import Request
from statemaint.planning import plan_checkpoint, scan_checkpoint
from statemaint.records.claims import Holder
from statemaint.report.plan_file import MaintenanceFile, parse_plan
from statemaint.report.run import Report
from statemaint.report.to_json import plan_json, report_json, scan_json
from statemaint.storage import MemoryStorage, Storage
from tests.support.checkpoints import COMMIT, changes, delta_bytes, state, write_checkpoint
from tests.support.faults import Clock

HOUR = 3600.0
TIGHT = Policy(min_deltas_for_snapshot=5, min_batches_to_retain=8, grace=0)
LATER = 2 * HOUR


@pytest.fixture
def storage(clock: Clock) -> MemoryStorage:
    return write_checkpoint(MemoryStorage(clock=clock))


def planned(
    storage: Storage, policy: Policy = TIGHT, request: Request | None = None
) -> dict[str, Any]:
    """Returns what `plan --json` prints, as it comes back from a file."""
    shown = plan_json(*plan_checkpoint(storage, policy, request=request))
    found: dict[str, Any] = json.loads(json.dumps(shown))
    return found


def applied(storage: Storage, document: dict[str, Any]) -> Report:
    return apply(storage, parsed(json.dumps(document).encode()), run="run")


def parsed(content: bytes) -> MaintenanceFile:
    plan = parse_plan("plan.json", content)
    assert isinstance(plan, MaintenanceFile)
    return plan


def commit(storage: MemoryStorage, batch: int) -> None:
    """Goes on as a query does that purges nothing yet."""
    for partition in range(2):
        content = delta_bytes(changes(batch + 1, partition))
        storage.write(f"state/0/{partition}/{batch + 1}.delta", [content])
    storage.write(f"offsets/{batch}", [storage.read("offsets/24")])
    storage.write(f"commits/{batch}", [COMMIT])


@pytest.mark.parametrize(
    "policy", [TIGHT, TIGHT.override(trash_for=HOUR), TIGHT.override(grace=HOUR), Policy()]
)
@pytest.mark.parametrize("request_", [Request(), Request(partitions=frozenset({1}))])
def test_apply_does_what_maintain_would_have_done_then(
    storage: MemoryStorage, clock: Clock, policy: Policy, request_: Request
) -> None:
    then = MemoryStorage(storage.files, clock=Clock(clock.now))
    by_maintain = maintain(then, policy, request=request_)
    document = planned(storage, policy, request_)
    clock.now += LATER
    by_apply = applied(storage, document)
    assert state(storage) == state(then)
    assert by_apply.plan.actions == by_maintain.plan.actions
    assert by_apply.files_deleted == by_maintain.files_deleted
    assert document["actions"] == planned(
        MemoryStorage(storage.files, clock=clock), policy, request_
    )["actions"] or by_apply.snapshots_written  # fmt: skip


def test_grace_counts_from_when_the_plan_was_made(storage: MemoryStorage, clock: Clock) -> None:
    maintain(storage, TIGHT.override(grace=HOUR))
    document = planned(storage, TIGHT.override(grace=HOUR))
    clock.now += LATER
    assert applied(storage, document).files_deleted.total() == 0


def test_a_plan_that_was_applied_cannot_be_again(storage: MemoryStorage) -> None:
    document = planned(storage)
    applied(storage, document)
    before = state(storage)
    with pytest.raises(Superseded) as refused:
        applied(storage, document)
    assert refused.value.exit_code == 6
    assert state(storage) == before


def resized(storage: MemoryStorage) -> None:
    storage.write("state/0/0/3.delta", [b"longer" + bytes(9999)], overwrite=True)


def touched(storage: MemoryStorage) -> None:
    storage.write("state/0/0/3.delta", [storage.read("state/0/0/3.delta")], overwrite=True)


def vanished(storage: MemoryStorage) -> None:
    storage.delete("state/0/1/1.delta")


def snapshotted(storage: MemoryStorage) -> None:
    storage.write("state/0/1/20.snapshot", [b"somebody's"])


@pytest.mark.parametrize("change", [resized, touched, vanished, snapshotted])
def test_apply_is_refused_when_what_it_is_about_has_changed(
    storage: MemoryStorage, clock: Clock, change: Callable[[MemoryStorage], None]
) -> None:
    document = planned(storage)
    clock.now += 1
    change(storage)
    before = state(storage)
    with pytest.raises(Superseded) as refused:
        applied(storage, document)
    assert "have changed; plan again" in str(refused.value)
    assert state(storage) == before
    assert acquire(storage, Holder("next")).number == 2  # nothing is held


def test_newer_batches_do_not_matter(storage: MemoryStorage, clock: Clock) -> None:
    document = planned(storage)
    clock.now += LATER
    for batch in range(25, 30):
        commit(storage, batch)
    report = applied(storage, document)
    assert report.plan.target == 25
    assert (report.snapshots_written, report.files_deleted.total()) == (4, 32)
    assert "state/0/0/30.snapshot" not in storage.files


def test_a_floor_that_moved_is_refused(storage: MemoryStorage) -> None:
    document = planned(storage, TIGHT.override(min_batches_to_retain=1))
    assert document["floor"] == 17  # the oldest commit's
    storage.delete("commits/16")
    commit(storage, 25)
    with pytest.raises(Superseded):
        applied(storage, document)


def test_another_query_is_refused(storage: MemoryStorage) -> None:
    document = planned(storage)
    storage.write("metadata", [b'{"id":"99999999-2222-3333-4444-555555555555"}'], overwrite=True)
    before = state(storage)
    with pytest.raises(ConfigError, match="the plan is of query 1111") as refused:
        applied(storage, document)
    assert refused.value.exit_code == 2
    assert state(storage) == before


def test_a_lease_that_is_held_comes_first(storage: MemoryStorage) -> None:
    document = planned(storage)
    acquire(storage, Holder("other"))
    with pytest.raises(LeaseHeldError):
        applied(storage, document)


EDITS: list[tuple[str, object]] = [
    ("now", 0.0),
    ("now", 4e9),
    ("now", 2_000_000_010.0),
    ("fingerprint", ""),
    ("policy.grace", 1.0),
    ("policy.trash_for", 60.0),
    ("policy.verify", False),
    ("policy.min_batches_to_retain", 1),
    ("policy.max_deletes_per_run", 1),
    ("policy.max_seconds_per_run", 0.0),
    ("request.target", 24),
    ("request.target", None),
    ("request.partitions", [0]),
    ("request.force_snapshot", True),
]


@pytest.mark.parametrize(("field", "value"), EDITS)
def test_a_plan_that_was_edited_is_refused_unless_it_means_the_same(
    storage: MemoryStorage, field: str, value: object
) -> None:
    document = planned(storage)
    *into, name = field.split(".")
    place = document[into[0]] if into else document
    assert name in place
    place[name] = value
    before = state(storage)
    if field in ("request.target", "request.force_snapshot") and value in (None, True):
        # The newest version, and a snapshot at it: what the plan says anyway.
        assert applied(storage, document).files_deleted.total() == 32
        return
    with pytest.raises(Superseded):
        applied(storage, document)
    assert state(storage) == before


def test_a_plan_from_the_future_is_refused(storage: MemoryStorage, clock: Clock) -> None:
    clock.now += HOUR
    document = planned(storage)
    clock.now -= HOUR
    with pytest.raises(Superseded, match="time is in the future"):
        applied(storage, document)


def test_clocks_that_disagree_are_said_to_be_the_reason(
    storage: MemoryStorage, clock: Clock
) -> None:
    class Ahead(MemoryStorage):
        """Stamps its files an hour ahead of what it says the time is."""

        def now(self) -> float:
            return super().now() - HOUR

    document = planned(storage)
    ahead = Ahead(clock=Clock(clock.now + HOUR))
    ahead._files = storage._files
    with pytest.raises(Superseded, match="stamps files 3600 seconds off its own clock"):
        applied(ahead, document)


# -- what is no plan


def others(storage: MemoryStorage) -> list[bytes]:
    documents: list[dict[str, Any]] = [
        scan_json(scan_checkpoint(storage)),
        report_json(maintain(storage, TIGHT, dry_run=True)),
        verify_json(verify(storage)),
        digest_json(1, ()),
        {},
    ]
    return [json.dumps(one).encode() for one in documents]


def test_what_is_no_plan_is_told_in_one_line(storage: MemoryStorage) -> None:
    whole = json.dumps(planned(storage)).encode()
    garbage = [b"", b"\x00\xff", b"null", b"[]", b"7", b'"plan"', b"[" * 100_000, b"{", whole[:-1]]
    for content in [*others(storage), *garbage]:
        with pytest.raises(ConfigError) as refused:
            parse_plan("some.json", content)
        assert str(refused.value).startswith("some.json: not a plan (")
        assert "\n" not in str(refused.value)
        assert refused.value.exit_code == 2


@settings(max_examples=200)
@given(data=st.data())
def test_a_plan_that_was_cut_or_flipped_never_gives_a_fault(data: st.DataObject) -> None:
    storage = write_checkpoint(MemoryStorage(), last=6, batches=range(3, 6), partitions=1)
    whole = bytearray(json.dumps(planned(storage)).encode())
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] = data.draw(st.integers(0, 255))
    end = data.draw(st.sampled_from([len(whole), at, at + 1]))
    before = storage.files
    refused = _refusal(storage, bytes(whole[:end]))
    if refused:
        assert refused.exit_code in (2, 6)
        assert {path: storage.files[path] for path in before} == before


def _refusal(storage: Storage, content: bytes) -> StatemaintError | None:
    try:
        apply(storage, parsed(content), run="run")
    except StatemaintError as error:
        return error
    return None
