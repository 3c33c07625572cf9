"""Writes an object in one request, if it is new or still the one that was read."""

from collections.abc import Callable
from typing import Any

from statemaint.errors import AlreadyExistsError, NotFoundError, StorageError
from statemaint.storage.base import missing_newline
from statemaint.storage.s3.bucket import Bucket, content_md5, md5
from statemaint.storage.s3.errors import S3Error
from statemaint.storage.s3.probe import Probe
from statemaint.storage.s3.read import read_object

PRECONDITION_FAILED = 412
# "Another conditional write of this key is under way": the request is retried.
_CONFLICT = 409
_NOT_FOUND = 404
# Ceph's answer when the object changed between its check of the condition and its write.
_LOST_RACE = "UnknownError"
_MOST_CONFLICTS = 20
# A name that is refused as taken this often, and is absent each time, has a deletion marker.
_MOST_REFUSALS = 2
_MARKED = (
    "the server refuses the name as taken, and there is no such file: in a bucket whose "
    "versioning is suspended, a Ceph refuses `If-None-Match: *` for a name that was deleted "
    "before; delete the name's deletion marker (its version is `null`)"
)
_FIRST_WAIT_SECONDS = 0.02
_LONGEST_WAIT_SECONDS = 1.0


def put(bucket: Bucket, path: str, content: bytes, **params: object) -> dict[str, Any]:
    return bucket.call_object(
        "put_object", path, Body=content, ContentMD5=content_md5(content), **params
    )


def put_new(
    bucket: Bucket, probe: Probe, path: str, content: bytes, **params: object
) -> dict[str, Any] | None:
    """Writes an object that must not exist yet; returns the answer, or `None` if it was lost."""
    if not probe.exclusive:
        # An object that appears between these two lines is replaced; a caller that cannot accept
        # that asks the storage whether it is `exclusive`.
        must_be_absent(bucket, path)
        return put(bucket, path, content, **params)
    refusals = 0
    for _ in range(_MOST_CONFLICTS):
        try:
            return put(bucket, path, content, IfNoneMatch="*", **params)
        except S3Error as error:
            if error.status == _CONFLICT or error.reason == _LOST_RACE:
                continue
            if error.status != PRECONDITION_FAILED:
                raise
            if error.retried and _is_ours(bucket, path, content):
                return None
            must_be_absent(bucket, path)
            refusals += 1
            if refusals == _MOST_REFUSALS:
                raise S3Error(path, _MARKED, reason=error.reason, status=error.status) from error
    raise StorageError(path, f"other writers changed it at each of {_MOST_CONFLICTS} attempts")


def _is_ours(bucket: Bucket, path: str, content: bytes) -> bool:
    try:
        stored, _ = read_object(bucket, path)
    except NotFoundError:
        return False
    return md5(stored).digest() == md5(content).digest()


def head(bucket: Bucket, path: str) -> dict[str, Any]:
    """Returns the answer to a HEAD; raises `NotFoundError` only in a bucket that exists."""
    try:
        return bucket.call_object("head_object", path)
    except S3Error as error:
        if error.status != _NOT_FOUND:
            raise
        bucket.must_exist()
        raise NotFoundError(path) from error


def must_be_absent(bucket: Bucket, path: str) -> None:
    try:
        head(bucket, path)
    except NotFoundError:
        return
    raise AlreadyExistsError(path)


def append(
    bucket: Bucket, probe: Probe, path: str, lines: bytes, *, sleep: Callable[[float], None]
) -> None:
    """Appends lines to an object by rewriting it, if no other writer changed it meanwhile.

    An object that does not exist yet, the usual case, takes one request.
    """
    if probe.exclusive and _swapped(bucket, path, lines, {"IfNoneMatch": "*"}):
        return
    wait = _FIRST_WAIT_SECONDS
    for _ in range(_MOST_CONFLICTS):
        try:
            before, etag = read_object(bucket, path)
            condition = probe.match(etag)
        except NotFoundError:
            before, condition = b"", {"IfNoneMatch": "*"} if probe.exclusive else {}
        if _swapped(bucket, path, before + missing_newline(before) + lines, condition):
            return
        sleep(wait)
        wait = min(2 * wait, _LONGEST_WAIT_SECONDS)
    raise StorageError(path, f"other writers changed it at each of {_MOST_CONFLICTS} attempts")


def _swapped(bucket: Bucket, path: str, content: bytes, condition: dict[str, str]) -> bool:
    try:
        put(bucket, path, content, **condition)
    except NotFoundError:
        return False
    except S3Error as error:
        lost = error.reason == _LOST_RACE
        if not lost and error.status not in (PRECONDITION_FAILED, _CONFLICT):
            raise
        return (lost or error.retried) and _is_ours(bucket, path, content)
    return True
