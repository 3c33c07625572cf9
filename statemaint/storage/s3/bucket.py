"""One bucket behind boto3: requests counted, the server's clock kept, errors translated."""

import base64
import hashlib
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import lru_cache
from http import HTTPStatus
from typing import Any

from statemaint.errors import AlreadyExistsError, NotFoundError
from statemaint.storage.base import Tally
from statemaint.storage.s3.client import client_of
from statemaint.storage.s3.errors import NO_BUCKET, S3Error, place_of, translated
from statemaint.storage.s3.options import S3Options
from statemaint.storage.s3.quick import QuickReads

_NO_VERSION = "null"
_OF_CEPH = re.compile("tx[0-9a-f]{20,}-[0-9a-f]+-")
_WITHOUT_BODY = frozenset({"head_bucket", "head_object"})
_VERBS = {
    "ListObjectsV2": "list",
    "GetObject": "get",
    "HeadObject": "head",
    "HeadBucket": "head",
    "GetObjectAcl": "acl",
    "GetObjectTagging": "tags",
    "GetBucketOwnershipControls": "get",
    "GetBucketVersioning": "get",
    "PutObject": "put",
    "UploadPart": "put",
    "CopyObject": "copy",
    "UploadPartCopy": "copy",
    "DeleteObject": "delete",
    "DeleteObjects": "delete",
}
# Servers older than boto3's own checksums require this one for deletions. Some require one for a
# copy, in a bucket with a default retention. For a part that is copied none does, and Ceph compares
# the checksum of such a request, which has no body, with the copied bytes.
_WITH_MD5 = ("DeleteObjects", "CopyObject")
_WRITES = frozenset({"put_object", "copy_object", "create_multipart_upload"})
# Of the objects that were read last. A fold reads the newest change shortly before its snapshot is
# written with the settings of that change.
_MOST = 4096
_SSE = "x-amz-server-side-encryption"
# boto3's names of what is kept, and those of the headers.
_KEPT = {
    "ServerSideEncryption": _SSE,
    "SSEKMSKeyId": f"{_SSE}-aws-kms-key-id",
    "BucketKeyEnabled": f"{_SSE}-bucket-key-enabled",
    "TagCount": "x-amz-tagging-count",
}


class Bucket:
    """The objects of one bucket below one prefix; threads may share it.

    Attributes:
        deletes_pages: whether the server deletes many objects in one request, as far as is known.
        shown: what the last reads have shown of objects.
        versioned: whether the newest object that was written or read has a version of its own.
    """

    def __init__(
        self, name: str, prefix: str, options: S3Options, sleep: Callable[[float], None]
    ) -> None:
        self.name, self.prefix, self.options, self.sleep = name, prefix, options, sleep
        self.clock, self.shown = ServerClock(), LastShown()
        self.deletes_pages = True  # until the server refuses it
        self.versioned = False
        self._newest, self._is_ceph = 0.0, False
        self._requests = Tally()
        self._seen = False
        self._client, credentials, self._connections = client_of(options)
        self._place = place_of(name, self._client.meta.endpoint_url)
        self._asking = threading.local()
        self.quick = QuickReads(
            self._connections, credentials, sent=self._sent_quickly, received=self._note
        )
        events = self._client.meta.events
        events.register("before-send.s3", self._send)
        events.register("response-received.s3", self._received)
        for operation in _WITH_MD5:
            events.register(f"before-call.s3.{operation}", _add_md5)

    @property
    def requests(self) -> Mapping[str, int]:
        return self._requests.counts()

    @property
    def address(self) -> str:
        return f"s3://{self.name}"

    @property
    def right_to_delete(self) -> str:
        return (
            f"s3:DeleteObject is not allowed; grant it on arn:aws:s3:::{self.name}/{self.key('*')}"
        )

    def key(self, path: str) -> str:
        return f"{self.prefix}/{path}" if self.prefix else path

    def path(self, key: str) -> str:
        return key.removeprefix(f"{self.prefix}/") if self.prefix else key

    def call(self, operation: str, path: str, **params: object) -> dict[str, Any]:
        """Returns the answer to one request to the bucket; errors name the path.

        A parameter that is `None` is left to the server, whatever the options set. `NotFoundError`
        means that the server reported for certain that there is no such key.
        """
        try:
            return self._answer(operation, path, params)
        except S3Error as error:
            if operation in _WITHOUT_BODY and error.status == HTTPStatus.BAD_REQUEST:
                # Expired credentials, among others. The answer to a GET has a body, which says so.
                self._answer("list_objects_v2", path, {"Prefix": self.key(""), "MaxKeys": 1})
            raise

    def _answer(self, operation: str, path: str, params: Mapping[str, object]) -> dict[str, Any]:
        with translated(path, self._place):
            request = getattr(self._client, operation)
            arguments = {"Bucket": self.name, **self._extras(operation), **params}
            answer: dict[str, Any] = request(
                **{name: value for name, value in arguments.items() if value is not None}
            )
            return answer

    def call_object(self, operation: str, path: str, **params: object) -> dict[str, Any]:
        """Returns the answer to one request about the object of a path; raises as `call`."""
        self._asking.key = self.key(path)
        return self.call(operation, path, Key=self._asking.key, **params)

    def put(self, path: str, content: bytes, **params: object) -> dict[str, Any]:
        return self.call_object(
            "put_object", path, Body=content, ContentMD5=content_md5(content), **params
        )

    def head(self, path: str) -> dict[str, Any]:
        """Returns the answer to a HEAD; raises `NotFoundError` only in a bucket that exists."""
        try:
            return self.call_object("head_object", path)
        except S3Error as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            self._must_exist()
            raise NotFoundError(path) from error

    def must_be_absent(self, path: str) -> None:
        with suppress(NotFoundError):
            self.head(path)
            raise AlreadyExistsError(path)

    def _must_exist(self) -> None:
        """Checks, once, that the bucket exists: a HEAD's 404 may mean the object or the bucket."""
        if self._seen:
            return
        try:
            self.ask()
        except S3Error as error:
            if error.status == HTTPStatus.NOT_FOUND:
                raise S3Error(self.address, NO_BUCKET + self._place) from error
            raise
        self._seen = True

    def ask(self) -> None:
        self.call("head_bucket", self.address)

    def _extras(self, operation: str) -> dict[str, str]:
        options = self.options
        extras = {}
        if options.requester_pays and operation != "head_bucket":
            extras["RequestPayer"] = "requester"
        if options.sse and operation in _WRITES:
            extras["ServerSideEncryption"] = options.sse
            if options.sse_kms_key_id:
                extras["SSEKMSKeyId"] = options.sse_kms_key_id
        return extras

    def _send(self, event_name: str, request: Any = None, **_: object) -> Any:
        operation = event_name.rpartition(".")[2]
        self.clock.sent()
        self._requests.add(_VERBS.get(operation, "post"))
        if operation == "GetObject":
            self.quick.learn(request, self._asking.key)
        return self._connections.send(request)

    def _sent_quickly(self) -> None:
        self.clock.sent()
        self._requests.add("get")

    def _received(self, parsed_response: Mapping[str, Any] | None = None, **_: object) -> None:
        self._note((parsed_response or {}).get("ResponseMetadata", {}).get("HTTPHeaders", {}))

    def _note(self, headers: Mapping[str, str]) -> None:
        """Notes what the headers of an answer show of the server and of the bucket."""
        date = headers.get("date")
        if not date:
            return
        self.clock.answered(date)
        self._is_ceph |= _OF_CEPH.match(headers.get("x-amz-request-id", "")) is not None
        written = _dated(headers.get("last-modified", date)) if "etag" in headers else None
        if written is not None and written >= self._newest:
            self._newest = written
            self.versioned = headers.get("x-amz-version-id", _NO_VERSION) != _NO_VERSION

    def ignores_conditions(self) -> bool:
        """Returns whether conditional writes are known to fail, from what was only read.

        Ceph ignores `If-None-Match` while a bucket is versioned. Objects keep their versions when
        versioning is suspended, so the bucket itself is asked, if it may be.
        """
        if not (self._is_ceph and self.versioned):
            return False
        try:
            return self.call("get_bucket_versioning", self.address).get("Status") == "Enabled"
        except S3Error as error:
            if not error.refused:
                raise
            return True  # no right to know: the newest object has a version


class ServerClock:
    """The server's clock, as its `Date` headers report it, in whole seconds.

    An answer dated D was made between D and D + 1. The estimate is kept if the answers allow it,
    so that it neither jumps with every answer nor stays wrong.
    """

    def __init__(self) -> None:
        self._ahead: float | None = None  # of the monotonic clock
        self._lock = threading.Lock()
        self._thread = threading.local()

    def sent(self) -> None:
        self._thread.sent = time.monotonic()

    def answered(self, date: str) -> None:
        """Corrects the clock by an answer's `Date`, which this thread received now."""
        received = time.monotonic()
        dated = _dated(date)
        if dated is None:
            return
        earliest = dated - received
        latest = dated + 1 - getattr(self._thread, "sent", received)
        with self._lock:
            current = earliest if self._ahead is None else self._ahead
            self._ahead = min(max(current, earliest), latest)

    def now(self) -> float | None:
        """Returns the time, at most a second behind the server's; `None` before any answer."""
        with self._lock:
            return None if self._ahead is None else self._ahead + time.monotonic()


def shown_by(headers: Mapping[str, str]) -> Mapping[str, Any]:
    """Returns what headers, by names in lower case, show of an object's settings."""
    shown: dict[str, Any] = {name: headers[key] for name, key in _KEPT.items() if key in headers}
    if "BucketKeyEnabled" in shown:
        shown["BucketKeyEnabled"] = shown["BucketKeyEnabled"].lower() == "true"
    return shown


class LastShown:
    """The settings of objects that the last answers have shown; threads may share it.

    An answer has the number of an object's tags if there are any, if the server counts them, and if
    the caller may read them.

    Attributes:
        counts_tags: whether an answer has shown that this server counts tags.
    """

    def __init__(self) -> None:
        self.counts_tags = False
        self._lock = threading.Lock()
        self._shown: dict[str, Mapping[str, Any]] = {}

    def note(self, path: str, answer: Mapping[str, Any]) -> None:
        """Notes what an answer, by boto3's names, has shown of an object."""
        shown = {name: answer[name] for name in _KEPT if answer.get(name)}
        if "TagCount" in shown:
            self.counts_tags = True
        with self._lock:
            self._shown.pop(path, None)
            self._shown[path] = shown
            if len(self._shown) > _MOST:
                del self._shown[next(iter(self._shown))]

    def of(self, path: str) -> Mapping[str, Any] | None:
        """Returns what the last read of an object has shown; `None` if it is not known."""
        return self._shown.get(path)


@lru_cache(maxsize=4)
def _dated(date: str) -> float | None:
    """Returns the seconds of a `Date` header; every answer of one second has the same."""
    try:
        return parsedate_to_datetime(date).timestamp()
    except ValueError:
        return None


def md5(content: bytes) -> "hashlib._Hash":
    """Returns the checksum that every S3 server compares an upload with; it protects no secret."""
    return hashlib.md5(content, usedforsecurity=False)


def content_md5(content: bytes) -> str:
    return base64.b64encode(md5(content).digest()).decode()


def _add_md5(params: dict[str, Any], **_: object) -> None:
    params["headers"]["Content-MD5"] = content_md5(params["body"] or b"")
