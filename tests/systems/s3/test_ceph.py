"""What a real Ceph does differently: bulk deletions by policy, and conditional writes by versions."""

import json
import logging
from typing import Any

import pytest

from statemaint.errors import StorageError
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.storage import MemoryStorage, S3Storage, Storage
from tests.support.checkpoints import write_checkpoint
from tests.support.iam import policy_of
from tests.support.paths import ROOT
from tests.support.s3 import Place

TIGHT = Policy(min_deltas_for_snapshot=3, min_batches_to_retain=4, grace=0, orphan_age=0)
DELETE = ROOT / "helm" / "iam" / "delete.json"
_OTHER = "arn:aws:iam:::user/other"


def state(storage: Storage) -> dict[str, bytes]:
    return {entry.path: storage.read(entry.path) for entry in storage.list("state")}


def neglected() -> MemoryStorage:
    memory = MemoryStorage()
    write_checkpoint(memory)
    return memory


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

    @property
    def documented(self) -> Any:
        return policy_of(DELETE, self.address)

    def keys(self) -> list[str]:
        return sorted(entry.path for entry in self.storage.list(""))


@pytest.fixture
def granted(ceph_place: Place, other_place: Place) -> Granted:
    return Granted(ceph_place, other_place)


def test_the_documented_policy_deletes_on_ceph(
    granted: Granted, caplog: pytest.LogCaptureFixture
) -> None:
    granted.grant(granted.documented)
    granted.owner.fill(granted.address, {f"a/{number:03d}": b"" for number in range(230)})
    with caplog.at_level(logging.WARNING):
        granted.storage.delete_all([f"a/{number:03d}" for number in range(225)])
        granted.storage.delete_all(["a/225", "a/none"])
    assert granted.keys() == [f"a/{number:03d}" for number in range(226, 230)]
    # Ceph refused one bulk deletion; it is asked for none after that.
    assert granted.storage.requests["delete"] == 1 + 225 + 2
    assert [one.getMessage() for one in caplog.records] == [
        f"s3://{granted.bucket}: bulk deletions are refused (AccessDenied), so each file is deleted "
        "by a request of its own; to delete 200 in one, also grant s3:DeleteObject on "
        f"arn:aws:s3:::{granted.bucket}"
    ]


def test_bulk_deletions_are_used_once_the_bucket_itself_is_granted(granted: Granted) -> None:
    document = granted.documented
    bucket = {**document["Statement"][-1], "Resource": [f"arn:aws:s3:::{granted.bucket}"]}
    granted.grant({**document, "Statement": [*document["Statement"], bucket]})
    granted.owner.fill(granted.address, {f"a/{number}": b"" for number in range(20)})
    granted.storage.delete_all([f"a/{number}" for number in range(20)])
    assert (granted.keys(), granted.storage.requests["delete"]) == ([], 1)


def test_the_right_that_is_missing_is_named_with_its_resource(granted: Granted) -> None:
    document = granted.documented
    granted.grant({**document, "Statement": document["Statement"][:-1]})
    granted.owner.fill(granted.address, {f"a/{number}": b"" for number in range(20)})
    with pytest.raises(StorageError) as caught:
        granted.storage.delete_all([f"a/{number}" for number in range(20)])
    assert str(caught.value) == (
        "a/0: not deleted (and 19 more): access denied, s3:DeleteObject is not allowed; grant it on "
        f"arn:aws:s3:::{granted.bucket}/checkpoints/hourly/*"
    )
    assert granted.storage.requests["delete"] == 2  # together, and the first alone
    assert len(granted.keys()) == 20


def test_a_run_with_the_documented_policy_leaves_what_a_run_of_the_owner_leaves(
    granted: Granted,
) -> None:
    memory = neglected()
    granted.grant(granted.documented)
    granted.owner.fill(granted.address, memory.files)
    report, expected = maintain(granted.storage, TIGHT), maintain(memory, TIGHT)
    assert (report.exit_code, report.files_deleted) == (0, expected.files_deleted)
    assert state(granted.storage) == state(memory)


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
