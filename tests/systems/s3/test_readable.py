"""On S3: what we write is for whoever reads the objects beside it (S22).

Ceph encrypts with keys (`aws:kms`), has tags and ACLs, and tells accounts apart; it knows neither
`AES256` nor a bucket's own default, which moto plays. Bucket keys are seen on moto only.
"""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from statemaint.audit import verify
from statemaint.errors import AlreadyExistsError, StorageError, UnreadableError
from statemaint.maintain import maintain, undo
from statemaint.model.findings import FindingCode
from statemaint.storage import MemoryStorage, S3Storage, entry_shown
from statemaint.storage.s3.bucket import LastShown
from tests.support.ceph import KMS_KEYS
from tests.support.checkpoints import TIGHT, write_checkpoint
from tests.support.ledgers import page_of_ledger
from tests.support.s3 import Place

MIB = 1024 * 1024
PART = 5 * MIB
DAY = 86400.0
DELTA, SNAPSHOT = "state/0/0/25.delta", "state/0/0/25.snapshot"
KEY, ANOTHER = KMS_KEYS
KMS: dict[str, Any] = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": KEY}
ALL_USERS = "http://acs.amazonaws.com/groups/global/AllUsers"


class Bucket:
    """What lies below the prefix of a storage, seen past it."""

    def __init__(self, place: Place, storage: S3Storage) -> None:
        self.client, self.storage = place.client, storage
        self.name = storage._bucket.name

    def at(self, path: str) -> dict[str, str]:
        return {"Bucket": self.name, "Key": self.storage._bucket.key(path)}

    def put(self, path: str, content: bytes = b"x", **params: object) -> None:
        self.client.put_object(**self.at(path), Body=content, **params)

    def again(self, *paths: str, **params: object) -> None:
        """Writes objects once more, with other settings."""
        for path in paths:
            self.put(path, self.storage.read(path), **params)

    def key(self, path: str) -> tuple[str | None, str | None]:
        found = self.client.head_object(**self.at(path))
        return found.get("ServerSideEncryption"), found.get("SSEKMSKeyId")

    def tags(self, path: str) -> dict[str, str]:
        found = self.client.get_object_tagging(**self.at(path)).get("TagSet", ())
        return {one["Key"]: one["Value"] for one in found}

    def metadata(self, path: str) -> tuple[dict[str, str], str]:
        found = self.client.head_object(**self.at(path))
        return found["Metadata"], found["ContentType"]

    def readers(self, path: str) -> set[str]:
        grants = self.client.get_object_acl(**self.at(path))["Grants"]
        return {one["Grantee"].get("URI") or one["Grantee"]["ID"] for one in grants}

    def deny(self, *actions: str) -> None:
        """Lets nobody do some things to what is in the bucket."""
        statement = {
            "Effect": "Deny", "Principal": "*", "Action": list(actions),
            "Resource": f"arn:aws:s3:::{self.name}/*",
        }  # fmt: skip
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        self.client.put_bucket_policy(Bucket=self.name, Policy=policy)


def bucket(place: Place, **options: Any) -> Bucket:
    return Bucket(place, place.storage(**options))


def checkpoint(place: Place, **params: object) -> Bucket:
    """Returns a neglected checkpoint whose deltas have settings of their own."""
    found, memory = bucket(place), MemoryStorage()
    write_checkpoint(memory)
    own = {path for path in memory.files if params and path.startswith("state/")}
    for path in own:
        found.put(path, memory.read(path), **params)
    place.fill(found.storage.root, {path: memory.read(path) for path in memory.files.keys() - own})
    return found


# -- encryption


def test_a_snapshot_is_encrypted_with_the_key_of_its_deltas(place: Place) -> None:
    found = checkpoint(place, **KMS)
    report = maintain(found.storage, TIGHT)
    assert (report.exit_code, report.snapshots_written) == (0, 4)
    assert sum(report.files_deleted.values()) > 0
    assert found.key(SNAPSHOT) == ("aws:kms", KEY)
    assert found.key(page_of_ledger(found.storage)) == (None, None)
    assert not list(found.storage.list("_statemaint/probe"))
    assert verify(found.storage, deep=True).healthy


def test_a_large_snapshot_is_encrypted_as_a_small_one(place: Place) -> None:
    found = bucket(place, part_size=PART)
    found.put("9.delta", **KMS, Tagging="team=data&kind=state")
    found.storage.write("9.snapshot", [bytes(MIB)] * 12, like="9.delta")
    assert found.key("9.snapshot") == ("aws:kms", KEY)
    assert found.tags("9.snapshot") == {"team": "data", "kind": "state"}
    assert found.storage.read("9.snapshot") == bytes(12 * MIB)
    with pytest.raises(AlreadyExistsError):
        found.storage.write("9.snapshot", [bytes(MIB)] * 12, like="9.delta")


def test_what_the_settings_say_is_for_our_records_only(place: Place) -> None:
    # As STATEMAINT_S3_SSE and STATEMAINT_S3_SSE_KMS_KEY_ID have it.
    found = bucket(place, sse="aws:kms", sse_kms_key_id=ANOTHER)
    found.put("1.delta", **KMS)
    found.put("2.delta")
    found.storage.write("1.snapshot", [b"x"], like="1.delta")
    found.storage.write("2.snapshot", [b"x"], like="2.delta")
    found.storage.write("_statemaint/l", [b"x"])
    keys = [found.key(path)[1] for path in ("1.snapshot", "2.snapshot", "_statemaint/l")]
    assert keys == [KEY, None, ANOTHER]


def test_a_bucket_key_is_used_where_the_query_uses_it(moto_place: Place) -> None:
    found = bucket(moto_place)
    found.put("9.delta", **KMS, BucketKeyEnabled=True)
    found.storage.write("9.snapshot", [b"x"], like="9.delta")
    assert found.client.head_object(**found.at("9.snapshot"))["BucketKeyEnabled"] is True


def test_where_the_bucket_encrypts_what_the_query_did_not_nothing_is_published(
    moto_place: Place,
) -> None:
    found = bucket(moto_place)
    found.put("9.delta")
    rule = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": ANOTHER}
    found.client.put_bucket_encryption(
        Bucket=found.name,
        ServerSideEncryptionConfiguration={"Rules": [{"ApplyServerSideEncryptionByDefault": rule}]},
    )
    with pytest.raises(UnreadableError, match=f"encrypted with aws:kms and the key {ANOTHER}"):
        found.storage.write("9.snapshot", [b"x"], like="9.delta")
    assert [one.path for one in found.storage.list("")] == ["9.delta"]


def test_what_the_server_refuses_to_make_is_said_and_not_published(ceph_place: Place) -> None:
    found = bucket(ceph_place)
    found.put("9.delta", **KMS)
    found.deny("s3:PutObject")
    with pytest.raises(UnreadableError, match="makes no object with the settings of the other"):
        found.storage.write("9.snapshot", [b"x"], like="9.delta")
    assert [one.path for one in found.storage.list("")] == ["9.delta"]


# -- tags


def test_a_snapshot_has_the_tags_of_its_deltas(place: Place) -> None:
    found = checkpoint(place, Tagging="team=data%20science&kind=%2Fstate")
    assert maintain(found.storage, TIGHT).exit_code == 0
    assert found.tags(SNAPSHOT) == {"team": "data science", "kind": "/state"}
    assert found.tags(page_of_ledger(found.storage)) == {}


# -- ACLs


def test_a_snapshot_has_the_acl_of_its_deltas(place: Place) -> None:
    found = checkpoint(place, ACL="public-read")
    assert maintain(found.storage, TIGHT).exit_code == 0
    assert found.readers(SNAPSHOT) == found.readers(DELTA) > {ALL_USERS}
    assert found.readers(page_of_ledger(found.storage)) == found.readers(DELTA) - {ALL_USERS}


def test_the_query_of_another_account_reads_what_we_write(
    ceph_place: Place, other_place: Place
) -> None:
    ours = bucket(ceph_place)
    lets_in = {
        "Effect": "Allow", "Principal": {"AWS": ["arn:aws:iam:::user/other"]},
        "Action": ["s3:PutObject", "s3:ListBucket"],
        "Resource": [f"arn:aws:s3:::{ours.name}", f"arn:aws:s3:::{ours.name}/*"],
    }  # fmt: skip
    policy = json.dumps({"Version": "2012-10-17", "Statement": [lets_in]})
    ours.client.put_bucket_policy(Bucket=ours.name, Policy=policy)
    theirs = Bucket(other_place, other_place.storage(ours.storage.root))
    theirs.put("9.delta", ACL="bucket-owner-full-control")
    theirs.put("8.delta", ACL="bucket-owner-full-control")
    ours.storage.write("9.snapshot", [b"x"], like="9.delta")
    assert ours.readers("9.snapshot") == {"test", "other"}
    assert theirs.storage.read("9.snapshot") == b"x"
    # as an earlier build wrote it
    ours.storage.write("8.snapshot", [b"x"])
    with pytest.raises(StorageError, match="access denied"):
        theirs.storage.read("8.snapshot")
    with pytest.raises(UnreadableError, match=r'8\.snapshot: .*lets id="other" read'):
        ours.storage.check_readable("8.snapshot", like="8.delta")


@pytest.mark.parametrize("action", ["GetObjectAcl", "GetObjectTagging"])
def test_what_cannot_be_told_stops_deletion(ceph_place: Place, action: str) -> None:
    found = checkpoint(ceph_place)
    found.deny(f"s3:{action}")
    before = {one.path for one in found.storage.list("state")}
    report = maintain(found.storage, TIGHT)
    assert (report.exit_code, report.snapshots_written, report.files_deleted) == (3, 0, {})
    assert {one.code for one in report.findings} == {FindingCode.UNREADABLE_BY_QUERY}
    assert f"are unknown: access denied, s3:{action} is not allowed" in report.findings[0].detail
    assert {one.path for one in found.storage.list("state")} == before


# -- snapshots from before


def test_nothing_is_deleted_for_an_old_snapshot_that_the_query_cannot_read(place: Place) -> None:
    found = checkpoint(place)
    storage = found.storage
    assert maintain(storage, TIGHT.override(grace=DAY)).snapshots_written == 4
    record = "_statemaint/attestations/0/0/default.json"
    for path in (one.path for one in storage.list("_statemaint/attestations")):
        old = storage.read(path).replace(b'"readable":true,', b"")
        assert b'"readable"' not in old
        storage.write(path, [old], overwrite=True)
    found.again(*(one.path for one in storage.list("state/0/0") if "delta" in one.path), **KMS)
    found.again("state/0/0/17.snapshot", ServerSideEncryption="aws:kms", SSEKMSKeyId=ANOTHER)
    before = {one.path for one in storage.list("state/0/0")}
    report = maintain(S3Storage(storage.root, storage._bucket.options), TIGHT)
    (finding,) = report.findings
    assert (report.exit_code, finding.code) == (3, FindingCode.UNREADABLE_BY_QUERY)
    assert f"encrypted with aws:kms and the key {ANOTHER}, and the other with" in finding.detail
    assert {one.path for one in storage.list("state/0/0")} == before
    assert sum(report.files_deleted.values()) > 0  # of the other store, whose snapshot is right
    assert b'"readable":true' in storage.read(record.replace("0/0/d", "0/1/d"))


def test_a_snapshot_is_compared_once(place: Place) -> None:
    found = checkpoint(place)
    maintain(found.storage, TIGHT.override(grace=DAY))
    before = found.storage.requests
    assert sum(maintain(found.storage, TIGHT).files_deleted.values()) > 0
    after = found.storage.requests
    # what this build wrote is known to be readable
    assert (after["acl"], after["tags"]) == (before["acl"], before["tags"])


def test_what_a_snapshot_costs_more(place: Place) -> None:
    found = bucket(place)
    found.put("1.delta")
    found.put("2.delta")
    found.storage.write("1.snapshot", [b"x"], like="1.delta")
    before = found.storage.requests
    found.storage.write("2.snapshot", [b"x"], like="2.delta")
    found.storage.write("2.snapshot.crc", [b"x"], like="2.delta")
    after = found.storage.requests
    added = {verb: count - before.get(verb, 0) for verb, count in after.items()}
    assert {verb: n for verb, n in added.items() if n} == {"put": 2, "head": 1, "acl": 1, "tags": 1}


def test_a_file_like_another_is_written_where_the_requester_pays(place: Place) -> None:
    storage = place.storage(requester_pays=True)
    storage.write(DELTA, [b"x"])
    assert storage.write(SNAPSHOT, [b"y"], like=DELTA).size == 1


CHANGES = ("state/0/0/1.delta", "state/0/1/1.delta", "state/0/2/1.delta")


def read_changes(place: Place, *, owned: bool = True, **params: Any) -> Bucket:
    """Returns a bucket of which three changes were read; the last has settings of its own."""
    found = bucket(place)
    if owned:  # as a new bucket of AWS
        rule = {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
        found.client.put_bucket_ownership_controls(Bucket=found.name, OwnershipControls=rule)
    for path in CHANGES:
        found.put(path, **(params if path == CHANGES[-1] else {}))
        found.storage.read(path)
    return found


def test_a_snapshot_beside_a_change_that_was_read_costs_one_request(moto_place: Place) -> None:
    found = read_changes(moto_place)
    for path in CHANGES:
        before = found.storage.requests
        entry = found.storage.write(path.replace("delta", "snapshot"), [b"x"], like=path)
    after = found.storage.requests
    assert {verb: n - before[verb] for verb, n in after.items() if n > before[verb]} == {"put": 1}
    (listed,) = (one for one in found.storage.list("state/0/2") if one.path == entry.path)
    assert (entry.tag, entry.size, entry.modified) == (listed.tag, listed.size, None)
    with found.storage.open(entry.path) as stream:
        assert entry_shown(stream) == listed == found.storage.stat(entry.path)


def test_a_change_with_settings_unlike_the_others_gives_them_to_its_snapshot(place: Place) -> None:
    params = {**KMS, "Tagging": "team=data", "ACL": "public-read"}
    found = read_changes(place, owned=False, **params)
    for path in CHANGES:
        found.storage.write(path.replace("delta", "snapshot"), [b"x"], like=path)
    snapshots = [path.replace("delta", "snapshot") for path in CHANGES]
    assert [found.key(path)[1] for path in snapshots] == [None, None, KEY]
    assert [found.tags(path) for path in snapshots] == [{}, {}, {"team": "data"}]
    assert [ALL_USERS in found.readers(path) for path in snapshots] == [False, False, True]


def test_tags_are_read_of_each_change_where_the_server_does_not_count_them(
    moto_place: Place,
) -> None:
    class Uncounted(LastShown):
        def note(self, path: str, answer: Mapping[str, Any]) -> None:
            super().note(path, {name: answer[name] for name in answer if name != "TagCount"})

    found = read_changes(moto_place, Tagging="team=data")
    found.storage._bucket.shown = Uncounted()
    for path in CHANGES:
        found.storage.read(path)
        found.storage.write(path.replace("delta", "snapshot"), [b"x"], like=path)
    assert found.storage.requests["tags"] >= len(CHANGES)
    assert found.tags(CHANGES[-1].replace("delta", "snapshot")) == {"team": "data"}


# -- the trash


@pytest.mark.parametrize("size", [0, 10, 12 * MIB])
def test_a_move_keeps_encryption_tags_and_metadata(place: Place, size: int) -> None:
    found = bucket(place, copy_limit=PART)
    content = bytes(range(256)) * (size // 256 + 1)
    params = {"Tagging": "team=data", "Metadata": {"made-by": "spark"}, "ContentType": "text/x"}
    found.put("9.delta", content[:size], **KMS, **params)
    found.storage.move("9.delta", "trash/9.delta")
    if size > PART:
        assert found.storage.requests["copy"] == 3
    assert found.key("trash/9.delta") == ("aws:kms", KEY)
    assert found.tags("trash/9.delta") == {"team": "data"}
    assert found.metadata("trash/9.delta") == ({"made-by": "spark"}, "text/x")
    assert found.storage.read("trash/9.delta") == content[:size]
    assert [one.path for one in found.storage.list("")] == ["trash/9.delta"]


def test_what_the_settings_say_is_not_for_what_is_moved(moto_place: Place) -> None:
    found = bucket(moto_place, sse="aws:kms", sse_kms_key_id=ANOTHER)
    found.put("9.delta", ServerSideEncryption="AES256")
    found.storage.move("9.delta", "trash/9.delta")
    assert found.key("trash/9.delta") == ("AES256", None)


def test_undo_brings_files_back_for_whoever_reads_those_beside_them(place: Place) -> None:
    found = checkpoint(place, **KMS, Tagging="team=data", ACL="public-read")
    run = maintain(found.storage, TIGHT.override(trash_for=DAY)).run
    path = "state/0/0/3.delta"
    assert ALL_USERS not in found.readers(f"_statemaint/trash/{run}/{path}")
    undone = undo(found.storage, run)
    assert (undone.left, undone.files > 0) == ({}, True)
    assert found.readers(path) == found.readers(DELTA) > {ALL_USERS}
    assert (found.key(path), found.tags(path)) == (("aws:kms", KEY), {"team": "data"})
    assert verify(found.storage, deep=True).healthy


def test_undo_leaves_in_the_trash_what_the_query_might_not_read(ceph_place: Place) -> None:
    found = checkpoint(ceph_place)
    run = maintain(found.storage, TIGHT.override(trash_for=DAY)).run
    found.deny("s3:GetObjectAcl")
    again = S3Storage(found.storage.root, found.storage._bucket.options)
    undone = undo(again, run)
    assert undone.files == 0
    assert "s3:GetObjectAcl is not allowed" in undone.left["state/0/0/3.delta"]


# -- servers that lack some of it


def test_a_server_without_acls_and_tags_needs_none(
    moto_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = bucket(moto_place)
    found.put("9.delta")
    refuse(found.storage, monkeypatch, "GetObjectAcl", "GetObjectTagging")
    found.storage.write("9.snapshot", [b"x"], like="9.delta")
    found.storage.check_readable("9.snapshot", like="9.delta")


def refuse(storage: S3Storage, monkeypatch: pytest.MonkeyPatch, *operations: str) -> None:
    """Lets a server answer some requests as one does that does not know them."""
    client: Any = storage._bucket.shared.client
    asked = client._make_api_call

    def call(operation: str, params: object) -> object:
        if operation in operations:
            error, about = {"Code": "NotImplemented"}, {"HTTPStatusCode": 501}
            raise client.exceptions.ClientError(
                {"Error": error, "ResponseMetadata": about}, operation
            )
        return asked(operation, params)

    monkeypatch.setattr(client, "_make_api_call", call)
