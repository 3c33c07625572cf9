"""Writes objects: in one request if they are new or still the ones read, or in parts.

`Probe` tries whether the server supports conditional writes. The answer to one may be lost, and
boto3's next attempt is then refused by our own object; what is stored shows which writer won.
"""

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from itertools import chain
from typing import Any, TypeVar
from uuid import uuid4

from statemaint.errors import AlreadyExistsError, NotFoundError, StorageError
from statemaint.storage.base import PROBES, missing_newline
from statemaint.storage.s3.bucket import PROBE, Bucket, Params
from statemaint.storage.s3.client import md5
from statemaint.storage.s3.errors import S3Error
from statemaint.storage.s3.read import read_object
from statemaint.workers import in_order

Job = Callable[[], dict[str, Any]]
"""Creates a part of an upload; the answer has its ETag."""

_IF_NEW: Params = {"IfNoneMatch": "*"}
_UNMET = HTTPStatus.PRECONDITION_FAILED
# The answers of servers that do not know a condition's header.
_UNKNOWN = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_IMPLEMENTED)
_NO_ETAG = "0" * 32
_ELSEWHERE = "keep the checkpoint on a server that supports it"
_Answer = TypeVar("_Answer")
# Ceph's answer when the object changed between its check of the condition and its write.
_LOST_RACE = "UnknownError"
_NO_UPLOAD = "NoSuchUpload"
_MOST_CONFLICTS = 20
_CONTESTED = f"other writers changed it at each of {_MOST_CONFLICTS} attempts"
# A name that is refused as taken this often, and is absent each time, has a deletion marker.
_MOST_REFUSALS = 2
_MARKED = (
    "the server refuses the name as taken, and there is no such file: in a bucket whose "
    "versioning is suspended, a Ceph refuses `If-None-Match: *` for a name that was deleted "
    "before; delete the name's deletion marker (its version is `null`)"
)
_FIRST_WAIT_SECONDS = 0.02
_LONGEST_WAIT_SECONDS = 1.0
# S3 accepts 10,000 parts. After every 1,000 the parts grow, which allows for 440 GiB.
_SAME_SIZE = 1000
_MD5 = re.compile("[0-9a-f]{32}")


class Probe:
    """Tries conditional writes on probe objects below `_statemaint/probe/`, when it first matters.

    What works for one storage of a bucket works for all that share its client, unless what was read
    since says otherwise; what does not is tried by each, as it may be a matter of rights.

    The first trial is on a fixed name, so that a process without the right to delete leaves one
    object there, however often it runs. Another process may use it at the same moment: a condition
    counts as unsupported only after a trial on a name that no other process has.
    """

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._lock = threading.Lock()
        self._exclusive: bool | None = None
        self._forms: tuple[str, ...] | None = None
        self._why = ""

    @property
    def exclusive(self) -> bool:
        with self._lock:
            if self._exclusive is None:
                shared = self._bucket.shared
                shown = shared.exclusive and not self._bucket.ignores_conditions()
                exclusive = shown or self._tried("exclusive", self._try_exclusive) or False
                self._exclusive = shared.exclusive = exclusive
            return self._exclusive

    @property
    def obstacle(self) -> str:
        if self._exclusive is None and self._bucket.ignores_conditions():
            return self._of_versions
        return self._why

    @property
    def _of_versions(self) -> str:
        return (
            f"the versioning of the bucket {self._bucket.name!r} is enabled, and its server "
            "ignores `If-None-Match: *` then, as Ceph does; suspend the versioning, or keep the "
            "checkpoint in a bucket without"
        )

    def match(self, etag: str) -> Params:
        """Returns the condition that an object still has an ETag; empty if none is supported."""
        with self._lock:
            if self._forms is None:
                shared = self._bucket.shared
                self._forms = shared.match or self._tried("match", self._try_match) or ()
                shared.match = self._forms
            return {"IfMatch": self._forms[0].format(etag.strip('"'))} if self._forms else {}

    def _tried(self, name: str, trial: Callable[[str], _Answer]) -> _Answer | None:
        for own in (name, str(uuid4())):
            path = f"{PROBES}/{own}"
            try:
                if answer := trial(path):
                    return answer
            finally:
                self._bucket.call_object("delete_object", path)
        return None

    def _try_exclusive(self, path: str) -> bool:
        # A server that does not know the header may ignore it, or refuse every request with it.
        refusal = self._refusal(path, **_IF_NEW)
        if refusal and refusal.status in _UNKNOWN:
            why = f"the server refuses `If-None-Match: *` (HTTP {refusal.status})"
            self._why = f"{why}; {_ELSEWHERE}"
            return False
        # An object that an earlier run could not delete has the fixed name: that refusal will do.
        if refusal or self._refuses(path, **_IF_NEW):
            return True
        ignored = f"the server ignores `If-None-Match: *`; {_ELSEWHERE}"
        self._why = self._of_versions if self._bucket.versioned else ignored
        return False

    def _try_match(self, path: str) -> tuple[str, ...]:
        for form in ('"{}"', "{}"):  # Ceph compares the ETag without its quotes
            etag = self._bucket.put(path, PROBE)["ETag"].strip('"')
            if not self._refuses(path, IfMatch=form.format(_NO_ETAG)):
                continue
            refusal = self._refusal(path, IfMatch=form.format(etag))
            # A put that was carried out, but whose answer was lost, is refused when it is retried.
            if refusal is None or (refusal.retried and refusal.status == _UNMET):
                return (form,)
        return ()

    def _refusal(self, path: str, **condition: object) -> S3Error | None:
        try:
            self._bucket.put(path, PROBE, **condition)
        except S3Error as error:
            if error.status not in (_UNMET, *_UNKNOWN):
                raise
            return error
        return None

    def _refuses(self, path: str, **condition: object) -> bool:
        refusal = self._refusal(path, **condition)
        return refusal is not None and refusal.status == _UNMET


def write(
    bucket: Bucket, probe: Probe, path: str, parts: Iterator[bytes], params: Params, *, new: bool
) -> dict[str, Any] | None:
    """Writes an object; returns the answer if it took one request, and the answer came."""
    first, second = next(parts, b""), next(parts, None)
    if second is None:
        if new:
            return _put_new(bucket, probe, path, first, params)
        return bucket.put(path, first, **params)
    whole = chain((first, second), parts)
    del first, second

    def jobs(upload: str) -> Iterator[Job]:
        return (
            partial(bucket.put, path, part, "upload_part", UploadId=upload, PartNumber=number)
            for number, part in enumerate(whole, 1)
        )

    condition = _IF_NEW if new and probe.exclusive else {}
    multipart(bucket, path, jobs, params, condition=condition if new else None)
    return None


def _put_new(
    bucket: Bucket, probe: Probe, path: str, content: bytes, params: Params
) -> dict[str, Any] | None:
    if not probe.exclusive:
        # An object that appears between these two lines is replaced; a caller that cannot accept
        # that asks the storage whether it is `exclusive`.
        bucket.must_be_absent(path)
        return bucket.put(path, content, **params)
    refusals = 0
    for _ in range(_MOST_CONFLICTS):
        try:
            return bucket.put(path, content, **_IF_NEW, **params)
        except S3Error as error:
            # A conflict: another conditional write of this key is under way.
            if error.status == HTTPStatus.CONFLICT or error.reason == _LOST_RACE:
                continue
            if error.status != _UNMET:
                raise
            if error.retried and _is_ours(bucket, path, content):
                return None
            bucket.must_be_absent(path)
            refusals += 1
            if refusals == _MOST_REFUSALS:
                raise S3Error(path, _MARKED, reason=error.reason, status=error.status) from error
    raise StorageError(path, _CONTESTED)


def append(bucket: Bucket, probe: Probe, path: str, lines: bytes) -> None:
    """Appends lines to an object by rewriting it, if no other writer changed it meanwhile."""
    # An object that does not exist yet, the usual case, takes one request.
    if probe.exclusive and _swapped(bucket, path, lines, _IF_NEW):
        return
    wait = _FIRST_WAIT_SECONDS
    for _ in range(_MOST_CONFLICTS):
        try:
            before, etag = read_object(bucket, path)
            condition = probe.match(etag)
        except NotFoundError:
            before, condition = b"", _IF_NEW if probe.exclusive else {}
        if _swapped(bucket, path, before + missing_newline(before) + lines, condition):
            return
        bucket.sleep(wait)
        wait = min(2 * wait, _LONGEST_WAIT_SECONDS)
    raise StorageError(path, _CONTESTED)


def _swapped(bucket: Bucket, path: str, content: bytes, condition: Params) -> bool:
    try:
        bucket.put(path, content, **condition)
    except NotFoundError:
        return False
    except S3Error as error:
        lost = error.reason == _LOST_RACE
        if not lost and error.status not in (_UNMET, HTTPStatus.CONFLICT):
            raise
        return (lost or error.retried) and _is_ours(bucket, path, content)
    return True


def _is_ours(bucket: Bucket, path: str, content: bytes) -> bool:
    try:
        stored, _ = read_object(bucket, path)
    except NotFoundError:
        return False
    return md5(stored).digest() == md5(content).digest()


def in_parts(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yields the same bytes in parts of a given size; the last may be smaller."""
    waiting = bytearray()
    number = 0
    for chunk in chunks:
        waiting += chunk
        while len(waiting) >= (wanted := size * (1 + number // _SAME_SIZE)):
            yield bytes(waiting[:wanted])
            del waiting[:wanted]
            number += 1
    if waiting:
        yield bytes(waiting)


def multipart(
    bucket: Bucket,
    path: str,
    jobs: Callable[[str], Iterator[Job]],
    params: Params,
    *,
    condition: Params | None,
) -> None:
    """Creates an object from parts, which the jobs of an upload's id create.

    A failure leaves no trace of it. If there is a condition, even an empty one where the server
    supports none, the object must not exist yet.
    """
    upload: str = bucket.call_object("create_multipart_upload", path, **params)["UploadId"]
    try:
        answers = in_order(jobs(upload), threads=bucket.options.threads)
        parts = [
            {"PartNumber": number, "ETag": answer["ETag"]}
            for number, answer in enumerate(answers, 1)
        ]
        _complete(bucket, path, upload, parts, condition)
    except BaseException:  # nor may an interrupted run leave parts behind: they cost money
        with suppress(StorageError):  # the first failure is the one to report
            bucket.call_object("abort_multipart_upload", path, UploadId=upload)
        raise


def _complete(
    bucket: Bucket, path: str, upload: str, parts: list[dict[str, Any]], condition: Params | None
) -> None:
    if condition is not None:
        # Ceph ignores the condition at this step. An object that appears between the two requests
        # is then replaced, and both writers conclude that they won, as when Spark writes one name
        # twice. The caller reads the object back.
        bucket.must_be_absent(path)
    try:
        bucket.call_object(
            "complete_multipart_upload", path, UploadId=upload,
            MultipartUpload={"Parts": parts}, **condition or {},
        )  # fmt: skip
    except S3Error as error:
        repeated = error.reason == _NO_UPLOAD or error.retried or not error.refused
        if repeated and _is_complete(bucket, path, parts):
            return  # by an earlier attempt, whose answer was lost
        if condition is not None and error.status == _UNMET:
            raise AlreadyExistsError(path) from error
        raise


def _is_complete(bucket: Bucket, path: str, parts: list[dict[str, Any]]) -> bool:
    """Returns whether the object consists of these very parts, as its ETag shows."""
    tags = [str(part["ETag"]).strip('"') for part in parts]
    if not all(_MD5.fullmatch(tag) for tag in tags):
        return False
    whole = f"{md5(bytes.fromhex(''.join(tags))).hexdigest()}-{len(parts)}"
    try:
        tag: str = bucket.head(path).get("ETag", "")
    except StorageError:  # the first failure is the one to report
        return False
    return tag.strip('"') == whole
