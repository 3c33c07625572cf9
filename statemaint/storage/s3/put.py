"""Writing an object in one request, if it is new or still the one that was read."""

from collections.abc import Callable
from typing import Any

from statemaint.errors import AlreadyExistsError, NotFoundError, StorageError
from statemaint.storage.s3.bucket import Bucket, content_md5, md5
from statemaint.storage.s3.errors import S3Error
from statemaint.storage.s3.probe import Probe
from statemaint.storage.s3.read import read_object

PRECONDITION_FAILED = 412
# "Another conditional write of this key is under way": to be made again.
_CONFLICT = 409
_NOT_FOUND = 404
# What Ceph answers when the object changed between its look at the condition and its write.
_LOST_RACE = "UnknownError"
_MOST_CONFLICTS = 20
_FIRST_WAIT_SECONDS = 0.02
_LONGEST_WAIT_SECONDS = 1.0


def put(bucket: Bucket, path: str, content: bytes, **params: object) -> None:
    """Writes an object; raises `S3Error` when it is refused."""
    bucket.call_object("put_object", path, Body=content, ContentMD5=content_md5(content), **params)


def put_new(bucket: Bucket, probe: Probe, path: str, content: bytes, **params: object) -> None:
    """Writes an object that must not be there.

    Raises:
        AlreadyExistsError: when it is there.
    """
    if not probe.exclusive:
        # What appears between these two lines is replaced; whoever cannot bear it asks the
        # storage whether it is `exclusive`.
        must_be_absent(bucket, path)
        put(bucket, path, content, **params)
        return
    for _ in range(_MOST_CONFLICTS):
        try:
            put(bucket, path, content, IfNoneMatch="*", **params)
        except S3Error as error:
            if error.status == _CONFLICT or error.reason == _LOST_RACE:
                continue
            if error.status != PRECONDITION_FAILED:
                raise
            if not (error.retried and _is_ours(bucket, path, content)):
                raise taken(path) from error
        return
    raise StorageError(path, f"others wrote to it at each of {_MOST_CONFLICTS} attempts")


def _is_ours(bucket: Bucket, path: str, content: bytes) -> bool:
    """Tells whether an earlier attempt, whose answer was lost, wrote the object."""
    try:
        found, _ = read_object(bucket, path)
    except NotFoundError:
        return False
    return md5(found).digest() == md5(content).digest()


def taken(path: str) -> AlreadyExistsError:
    """Returns the error of a name that somebody else's object has."""
    return AlreadyExistsError(path, "a file of that name is already there")


def head(bucket: Bucket, path: str) -> dict[str, Any]:
    """Returns what a HEAD says of an object.

    Raises:
        NotFoundError: when there is no such object, in a bucket that is there.
    """
    try:
        return bucket.call_object("head_object", path)
    except S3Error as error:
        if error.status != _NOT_FOUND:
            raise
        bucket.must_exist()
        raise NotFoundError(path, "no such file") from error


def must_be_absent(bucket: Bucket, path: str) -> None:
    """Raises `AlreadyExistsError` when there is such an object."""
    try:
        head(bucket, path)
    except NotFoundError:
        return
    raise taken(path)


def append(
    bucket: Bucket, probe: Probe, path: str, lines: bytes, *, sleep: Callable[[float], None]
) -> None:
    """Adds lines to an object by writing it anew, if nobody else wrote it meanwhile.

    One that is not there yet, which is the rule, takes one request.

    Raises:
        StorageError: when others were faster every time.
    """
    if probe.exclusive and _swapped(bucket, path, lines, {"IfNoneMatch": "*"}):
        return
    wait = _FIRST_WAIT_SECONDS
    for _ in range(_MOST_CONFLICTS):
        before, etag = _content(bucket, path)
        cut = b"" if before.endswith(b"\n") or not before else b"\n"
        if _swapped(bucket, path, before + cut + lines, _condition(probe, etag)):
            return
        sleep(wait)
        wait = min(2 * wait, _LONGEST_WAIT_SECONDS)
    raise StorageError(path, f"others wrote to it at each of {_MOST_CONFLICTS} attempts")


def _content(bucket: Bucket, path: str) -> tuple[bytes, str | None]:
    try:
        return read_object(bucket, path)
    except NotFoundError:
        return b"", None


def _condition(probe: Probe, etag: str | None) -> dict[str, str]:
    if etag is not None:
        return probe.match(etag)
    return {"IfNoneMatch": "*"} if probe.exclusive else {}


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
