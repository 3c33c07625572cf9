"""Refusals by a server of S3: each is named by its cause, and what was done all the same."""

import hashlib
from collections.abc import Callable

import pytest

from statemaint.audit import verify
from statemaint.errors import AlreadyExistsError, NotExclusiveError, StorageError
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.storage import MemoryStorage, S3Storage
from tests.support.checkpoints import TIGHT, write_checkpoint
from tests.support.fault_proxy import Answer, FaultProxy, Lost, Seen, Then, about, error
from tests.support.s3 import Moto, Place

MIB = 1024 * 1024
CONTENT = bytes(range(256)) * (12 * MIB // 256)
MANY = 1000
DENIED = Answer(403, error("AccessDenied"))


# -- credentials


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidToken", "RequestExpired"])
@pytest.mark.parametrize(
    "request_",
    [
        lambda storage: maintain(storage, Policy()),
        lambda storage: storage.stat("a"),
        lambda storage: storage.now(),
    ],
)
def test_expired_credentials_are_named_by_every_request(
    broken: Place, proxy: FaultProxy, code: str, request_: Callable[[S3Storage], object]
) -> None:
    # As AWS answers them: a HEAD with 400 and no body, a GET with the reason.
    proxy.fail("HEAD", Answer(400), times=MANY)
    proxy.fail("GET", Answer(400, error(code, "The provided token has expired.")), times=MANY)
    with pytest.raises(
        StorageError, match=rf": the credentials were refused \({code}\); bucket "
    ) as caught:
        request_(broken.storage())
    assert caught.value.exit_code == 5


def test_a_head_that_is_refused_for_another_reason_stays_an_error_of_its_own(
    broken: Place, proxy: FaultProxy
) -> None:
    storage = broken.storage()
    proxy.fail("HEAD", Answer(400), times=MANY)
    with pytest.raises(StorageError, match=r"^a: HeadObject failed: 400: Bad Request; bucket "):
        storage.stat("a")


# -- uploads in parts


def composite(*parts: bytes) -> str:
    digests = b"".join(hashlib.md5(part, usedforsecurity=False).digest() for part in parts)
    return f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(parts)}"


PARTS = [CONTENT[start : start + 5 * MIB] for start in range(0, len(CONTENT), 5 * MIB)]
COMPLETE = about("uploadId")


def test_an_upload_is_complete_if_its_answer_was_lost_and_the_retry_finds_no_upload(
    broken: Place, proxy: FaultProxy
) -> None:
    # As AWS and others answer the retry; moto and Ceph answer it as they answered the first.
    storage = broken.storage(part_size=5 * MIB, attempts=2)
    for exists, code in ((404, "NoSuchUpload"), (412, "PreconditionFailed")):
        proxy.fail("POST", Lost(), when=COMPLETE)
        proxy.fail("POST", Answer(exists, error(code)), when=COMPLETE)
        assert storage.write("a", [CONTENT]).tag == composite(*PARTS)
        assert storage.read("a") == CONTENT
        storage.delete("a")


def test_an_upload_whose_every_answer_was_lost_is_complete(
    broken: Place, proxy: FaultProxy
) -> None:
    storage = broken.storage(part_size=5 * MIB)
    proxy.fail("POST", Lost(), when=COMPLETE)
    assert storage.write("a", [CONTENT]).size == len(CONTENT)


def test_an_upload_that_is_gone_is_an_error_unless_the_object_has_its_parts(
    broken: Place, proxy: FaultProxy
) -> None:
    storage = broken.storage(part_size=5 * MIB, attempts=2)
    gone = Answer(404, error("NoSuchUpload"))
    proxy.fail("POST", gone, when=COMPLETE)
    with pytest.raises(StorageError, match=r"^a: CompleteMultipartUpload failed: NoSuchUpload"):
        storage.write("a", [CONTENT])
    # Another writer's object of the same size appears in between.
    proxy.fail("HEAD", Then(lambda: None), when=about("/a"))
    other = Then(lambda: broken.storage(storage.root).write("a", [bytes(len(CONTENT))]))
    proxy.fail("POST", other, when=COMPLETE)
    with pytest.raises(AlreadyExistsError):
        storage.write("a", [CONTENT])
    assert storage.read("a") == bytes(len(CONTENT))


# -- a bucket with a default retention


def _without_checksum(seen: Seen) -> bool:
    names = {name.lower() for name in seen.headers}
    creates = seen.method == "PUT" and not (
        "uploadId" in seen.target and "x-amz-copy-source" in names
    )
    return creates and not any(
        name == "content-md5" or name.startswith("x-amz-checksum-") for name in names
    )


def test_each_request_that_creates_an_object_carries_the_checksum_of_a_retention(
    broken: Place, proxy: FaultProxy
) -> None:
    storage = broken.storage(part_size=5 * MIB)
    refused = Answer(400, error("InvalidRequest", "Content-MD5 OR x-amz-checksum- is required"))
    proxy.fail("PUT", refused, times=MANY, when=_without_checksum)
    storage.write("small", [b"x"])
    storage.write("large", [CONTENT])
    for path in ("small", "large"):
        storage.move(path, f"trash/{path}")
    assert storage.read("trash/large") == CONTENT
    assert proxy.count("PUT") > 6


# -- probes


def probes(place: Place, storage: S3Storage) -> list[str]:
    found = place.storage(storage.root).list("_statemaint/probe")
    return sorted(entry.path for entry in found)


@pytest.mark.parametrize(
    "probe",
    [lambda storage: storage.exclusive, lambda storage: storage.write("b", [b"x"], like="a")],
    ids=["conditional writes", "the settings of an object"],
)
def test_runs_without_the_right_to_delete_leave_one_probe(
    broken: Place, proxy: FaultProxy, moto_place: Moto, probe: Callable[[S3Storage], object]
) -> None:
    address = broken.storage().root
    moto_place.storage(address).write("a", [b"x"])
    proxy.fail("DELETE", DENIED, times=MANY)
    for _ in range(3):
        storage = broken.storage(address)
        with pytest.raises(StorageError, match="s3:DeleteObject is not allowed"):
            probe(storage)
    assert len(probes(moto_place, storage)) == 1


def test_a_probe_of_the_settings_that_another_process_deletes_is_tried_again(
    broken: Place, proxy: FaultProxy, moto_place: Moto
) -> None:
    storage = broken.storage()
    other = moto_place.storage(storage.root)
    other.write("a", [b"x"])
    delete = Then(lambda: other.delete_all(probes(moto_place, storage)))
    proxy.fail("HEAD", delete, when=about("/probe/"))
    storage.write("b", [b"x"], like="a")
    assert (storage.read("b"), probes(moto_place, storage)) == (b"x", [])


def test_a_probe_that_another_process_deletes_meanwhile_is_tried_again(
    broken: Place, proxy: FaultProxy, moto_place: Moto
) -> None:
    storage = broken.storage()
    other = moto_place.storage(storage.root)
    proxy.fail("PUT", Then(lambda: None), when=about("/probe/"))
    delete = Then(lambda: other.delete("_statemaint/probe/exclusive"))
    proxy.fail("PUT", delete, when=about("/probe/"))
    assert storage.exclusive is True
    assert probes(moto_place, storage) == []


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("ignored", "the server ignores `If-None-Match: *`; keep the checkpoint on a server"),
        ("refused", "the server refuses `If-None-Match: *` (HTTP 501); keep the checkpoint on"),
    ],
)
def test_the_reason_why_a_server_is_not_exclusive_is_said(
    broken: Place, proxy: FaultProxy, moto_place: Moto, how: str, words: str
) -> None:
    memory, storage = MemoryStorage(), broken.storage()
    write_checkpoint(memory)
    moto_place.fill(storage.root, memory.files)
    if how == "ignored":
        proxy.hide("If-None-Match")
    else:
        refused = Answer(501, error("NotImplemented"))
        proxy.fail("PUT", refused, times=MANY, when=lambda one: "If-None-Match" in one.headers)
    with pytest.raises(NotExclusiveError) as caught:
        maintain(storage, Policy(min_deltas_for_snapshot=3))
    assert words in str(caught.value)
    assert caught.value.exit_code == 2


# -- one partition that may not be read


def _content_of_partition(seen: Seen) -> bool:
    return "/state/0/1/" in seen.target and "?" not in seen.target


def test_a_partition_that_may_not_be_read_halts_its_own_store(
    broken: Place, proxy: FaultProxy, moto_place: Moto
) -> None:
    memory, storage = MemoryStorage(), broken.storage()
    write_checkpoint(memory)
    moto_place.fill(storage.root, memory.files)
    proxy.fail("GET", DENIED, times=MANY, when=_content_of_partition)
    report = maintain(storage, TIGHT)
    assert (report.exit_code, report.snapshots_written) == (5, 2)
    for findings in (report.findings, verify(broken.storage(storage.root)).findings):
        damage = [one for one in findings if one.damage]
        assert [str(one.store) for one in damage] == ["op 0 / part 1 / default"]
        assert "state/0/1/" in damage[0].detail
        assert "access denied, s3:GetObject is not allowed" in damage[0].detail
