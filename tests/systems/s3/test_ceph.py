"""What a real Ceph does differently: bulk deletions by policy, conditional writes by versions."""

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from statemaint.errors import AlreadyExistsError, NotExclusiveError, StorageError
from statemaint.maintain import maintain, undo
from statemaint.model.findings import FindingCode
from statemaint.planning import plan_checkpoint
from statemaint.storage import MemoryStorage, Storage
from tests.support.checkpoints import TIGHT, state, write_checkpoint
from tests.support.iam import policy_of
from tests.support.paths import ROOT
from tests.support.s3 import Place
from tests.support.undone import undo_all

DELETE, PAGE = ROOT / "helm" / "iam" / "delete.json", ROOT / "docs" / "storage.md"
_OTHER = "arn:aws:iam:::user/other"
_UNKNOWN = "s3:GetBucketOwnershipControls"


def neglected() -> MemoryStorage:
    return write_checkpoint(MemoryStorage())


# -- a user who has the documented policy, by the policy of the bucket


class Granted:
    """A checkpoint of one account that another maintains by a policy of the bucket."""

    def __init__(self, owner: Place, maintainer: Place) -> None:
        self.owner, self.bucket = owner, owner.bucket()
        self.address = f"s3://{self.bucket}/checkpoints/hourly"
        self.storage = maintainer.storage(self.address)

    def grant(self, document: Any) -> None:
        statements = [{**one, "Principal": {"AWS": [_OTHER]}} for one in document["Statement"]]
        policy = json.dumps({**document, "Statement": statements})
        self.owner.client.put_bucket_policy(Bucket=self.bucket, Policy=policy)

    def documented(self, page: Path = DELETE) -> Any:
        """Returns the policy without the right that Ceph does not know, as the page says."""
        document = policy_of(page, self.address)
        first, *others = document["Statement"]
        actions = [one for one in first["Action"] if one != _UNKNOWN]
        return {**document, "Statement": [{**first, "Action": actions}, *others]}

    def keys(self) -> list[str]:
        return sorted(entry.path for entry in self.storage.list(""))


@pytest.fixture
def granted(ceph_place: Place, other_place: Place) -> Granted:
    return Granted(ceph_place, other_place)


def test_ceph_refuses_a_policy_with_a_right_that_it_does_not_know(granted: Granted) -> None:
    with pytest.raises(ClientError, match="InvalidArgument"):
        granted.grant(policy_of(PAGE, granted.address))


DOCUMENTED = pytest.mark.parametrize("page", [DELETE, PAGE], ids=["helm/iam", "docs/storage.md"])


@DOCUMENTED
def test_the_documented_policy_deletes_on_ceph(
    granted: Granted, caplog: pytest.LogCaptureFixture, page: Path
) -> None:
    granted.grant(granted.documented(page))
    granted.owner.fill(granted.address, {f"a/{number:03d}": b"" for number in range(230)})
    with caplog.at_level(logging.WARNING):
        granted.storage.delete_all([f"a/{number:03d}" for number in range(225)])
        granted.storage.delete_all(["a/225", "a/none"])
    assert granted.keys() == [f"a/{number:03d}" for number in range(226, 230)]
    # Ceph refused one bulk deletion; it is asked for none after that.
    assert granted.storage.requests["delete"] == 1 + 225 + 2
    (said,) = (one.getMessage() for one in caplog.records)
    assert said == (
        f"s3://{granted.bucket}: bulk deletions are refused (AccessDenied), so each file is "
        "deleted by a request of its own; to delete 200 in one, also grant s3:DeleteObject on "
        f"arn:aws:s3:::{granted.bucket}"
    )


def test_bulk_deletions_are_used_once_the_bucket_itself_is_granted(granted: Granted) -> None:
    document = granted.documented()
    bucket = {**document["Statement"][-1], "Resource": [f"arn:aws:s3:::{granted.bucket}"]}
    granted.grant({**document, "Statement": [*document["Statement"], bucket]})
    granted.owner.fill(granted.address, {f"a/{number}": b"" for number in range(20)})
    granted.storage.delete_all([f"a/{number}" for number in range(20)])
    assert (granted.keys(), granted.storage.requests["delete"]) == ([], 1)


def test_the_right_that_is_missing_is_named_with_its_resource(granted: Granted) -> None:
    document = granted.documented()
    granted.grant({**document, "Statement": document["Statement"][:-1]})
    granted.owner.fill(granted.address, {f"a/{number}": b"" for number in range(20)})
    with pytest.raises(StorageError) as caught:
        granted.storage.delete_all([f"a/{number}" for number in range(20)])
    assert str(caught.value) == (
        "a/0: not deleted (and 19 more): access denied, s3:DeleteObject is not allowed; grant it "
        f"on arn:aws:s3:::{granted.bucket}/checkpoints/hourly/*"
    )
    assert granted.storage.requests["delete"] == 2  # together, and the first alone
    assert len(granted.keys()) == 20


@DOCUMENTED
@pytest.mark.parametrize("trash_for", [0.0, 86_400.0])
def test_a_run_with_the_documented_policy_leaves_what_a_run_of_the_owner_leaves(
    granted: Granted, page: Path, trash_for: float
) -> None:
    memory, policy = neglected(), TIGHT.override(trash_for=trash_for)
    before = state(memory)
    granted.grant(granted.documented(page))
    granted.owner.fill(granted.address, memory.files)
    report, expected = maintain(granted.storage, policy), maintain(memory, policy)
    assert (report.exit_code, report.files_deleted) == (0, expected.files_deleted)
    assert state(granted.storage) == state(memory)
    if trash_for:
        assert undo(granted.storage, report.run).left == {}
        assert before.items() <= state(granted.storage).items()


@pytest.mark.parametrize("trash_for", [0.0, 86_400.0])
@pytest.mark.parametrize("action", ["GetObject", "PutObject", "DeleteObject"])
def test_a_partition_that_the_policy_denies_halts_its_own_store(
    granted: Granted, action: str, trash_for: float
) -> None:
    denied = f"arn:aws:s3:::{granted.bucket}/checkpoints/hourly/state/0/1/*"
    deny = {"Effect": "Deny", "Action": [f"s3:{action}"], "Resource": [denied]}
    document = granted.documented()
    granted.grant({**document, "Statement": [*document["Statement"], deny]})
    granted.owner.fill(granted.address, neglected().files)
    before = state(granted.owner.storage(granted.address))
    policy = TIGHT.override(trash_for=trash_for)
    report = maintain(granted.storage, policy)
    (damage,) = (one for one in report.findings if one.damage)
    assert str(damage.store) == "op 0 / part 1 / default"
    assert damage.code is FindingCode.STORAGE_FAILED
    assert damage.detail.startswith("state/0/1/")
    assert f"s3:{action} is not allowed" in damage.detail
    assert report.exit_code == 5
    left = {one.path for one in granted.storage.list("state")}
    assert {path.split("/")[2] for path in before.keys() - left} == {"0"}
    granted.grant(document)
    assert maintain(granted.storage, policy).exit_code == 0
    if trash_for:
        undo_all(granted.storage)
        assert before.items() <= state(granted.storage).items()


# -- a bucket with a default retention


def test_a_bucket_with_a_default_retention_takes_files_and_moves(ceph_place: Place) -> None:
    name, client = f"{ceph_place.bucket()}-locked", ceph_place.client
    client.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    retention = {"Mode": "GOVERNANCE", "Days": 1}
    client.put_object_lock_configuration(
        Bucket=name,
        ObjectLockConfiguration={
            "ObjectLockEnabled": "Enabled",
            "Rule": {"DefaultRetention": retention},
        },
    )
    storage = ceph_place.storage(f"s3://{name}/ck", part_size=5 << 20, copy_limit=5 << 20)
    content = bytes(6 << 20)
    storage.write("small", [b"x"], overwrite=True)
    storage.write("large", [content], overwrite=True)
    for path in ("small", "large"):
        storage.move(path, f"trash/{path}")
    assert [storage.read(f"trash/{path}") for path in ("small", "large")] == [b"x", content]


# -- versioned buckets


def versioned(place: Place, *states: str) -> str:
    """Returns the address of a checkpoint in a new bucket whose versioning has had some states."""
    name = place.bucket()
    for one in states:
        place.client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": one})
    return f"s3://{name}/ck"


VERSIONS = {"off": (), "suspended": ("Enabled", "Suspended"), "enabled": ("Enabled",)}


@pytest.mark.parametrize("kind", VERSIONS)
def test_of_eight_writers_one_wins_unless_versioning_is_enabled(
    ceph_place: Place, kind: str
) -> None:
    storage = ceph_place.waiting(versioned(ceph_place, *VERSIONS[kind]))
    assert storage.exclusive is (kind != "enabled")
    tries = range(5 if storage.exclusive else 60)  # on a busy machine writers may not overlap
    winners = (racing(storage, f"_statemaint/lease/{number}.json") for number in tries)
    assert {*winners} == {1} if storage.exclusive else any(count > 1 for count in winners)


def racing(storage: Storage, path: str) -> int:
    """Returns how many of eight writers concluded that they had created a file."""

    def create(number: int) -> bool:
        try:
            storage.write(path, [str(number).encode()])
        except AlreadyExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        return sum(pool.map(create, range(8)))


@pytest.mark.parametrize("kind", ["off", "suspended"])
def test_a_bucket_without_versions_or_with_suspended_ones_is_maintained_and_undone(
    ceph_place: Place, kind: str
) -> None:
    memory = neglected()
    address = versioned(ceph_place, *VERSIONS[kind])
    ceph_place.fill(address, memory.files)
    storage, before = ceph_place.storage(address), memory.files
    assert plan_checkpoint(storage, TIGHT, dry=True)[1].findings == ()
    trash = TIGHT.override(trash_for=86_400.0)
    report = maintain(storage, trash)
    assert (report.exit_code, report.findings) == (0, ())
    assert report.files_deleted.total() > 30
    assert undo(storage, report.run).left == {}
    assert (
        state(storage).items()
        >= {path: one for path, one in before.items() if path.startswith("state/")}.items()
    )
    assert maintain(ceph_place.storage(address), trash).exit_code == 0


def test_a_bucket_that_keeps_versions_is_refused_by_the_plan_with_the_cause(
    ceph_place: Place,
) -> None:
    address = versioned(ceph_place, "Enabled")
    ceph_place.fill(address, neglected().files)
    name = address.split("/")[2]
    cause = (
        "two writers can both create the same file, so two maintainers could run at once, and "
        f"nothing is written or deleted: the versioning of the bucket {name!r} is enabled, and its "
        "server ignores `If-None-Match: *` then, as Ceph does; suspend the versioning, or keep the "
        "checkpoint in a bucket without"
    )
    storage = ceph_place.storage(address)
    _, plan = plan_checkpoint(storage, TIGHT, dry=True)
    assert (plan.actions, [one.detail for one in plan.findings]) == ((), [cause])
    dry = maintain(ceph_place.storage(address), TIGHT, dry_run=True)
    assert (dry.snapshots_written, dry.plan.actions, dry.exit_code) == (0, (), 3)
    before = {entry.path for entry in storage.list("")}
    with pytest.raises(NotExclusiveError) as caught:
        maintain(ceph_place.storage(address), TIGHT)
    assert (str(caught.value), caught.value.exit_code) == (f"{address}: {cause}", 2)
    assert {entry.path for entry in storage.list("")} == before
    # The remedy: the objects keep their versions, and the bucket itself is asked.
    suspend = {"Status": "Suspended"}
    ceph_place.client.put_bucket_versioning(Bucket=name, VersioningConfiguration=suspend)
    cured = ceph_place.storage(address)
    assert plan_checkpoint(cured, TIGHT, dry=True)[1].findings == ()
    assert maintain(cured, TIGHT).exit_code == 0


def test_a_maintainer_without_the_right_to_see_the_versioning_is_refused_by_the_plan_too(
    granted: Granted,
) -> None:
    enable = {"Status": "Enabled"}
    granted.owner.client.put_bucket_versioning(
        Bucket=granted.bucket, VersioningConfiguration=enable
    )
    granted.grant(granted.documented())
    granted.owner.fill(granted.address, neglected().files)
    _, plan = plan_checkpoint(granted.storage, TIGHT, dry=True)
    assert plan.actions == ()
    assert "suspend the versioning" in plan.findings[0].detail


def test_a_name_that_was_deleted_from_a_suspended_bucket_is_refused_with_the_cause(
    ceph_place: Place,
) -> None:
    storage = ceph_place.storage(versioned(ceph_place, "Enabled", "Suspended"))
    storage.write("a", [b"x"])
    storage.delete("a")
    with pytest.raises(StorageError, match=r"^a: .*delete the name's deletion marker") as caught:
        storage.write("a", [b"y"])
    assert not isinstance(caught.value, AlreadyExistsError)
    bucket = storage._bucket
    ceph_place.client.delete_object(Bucket=bucket.name, Key=bucket.key("a"), VersionId="null")
    storage.write("a", [b"y"])
    assert storage.read("a") == b"y"


@pytest.mark.parametrize("kind", ["suspended", "enabled"])
def test_a_versioned_bucket_of_another_server_is_maintained(moto_place: Place, kind: str) -> None:
    address = versioned(moto_place, *VERSIONS[kind])
    client, name = moto_place.client, address.split("/")[2]
    for path, content in neglected().files.items():
        client.put_object(Bucket=name, Key=f"ck/{path}", Body=content)
    storage = moto_place.storage(address)
    assert plan_checkpoint(storage, TIGHT, dry=True)[1].findings == ()
    assert maintain(storage, TIGHT).exit_code == 0
