"""One bucket behind boto3: requests counted, the server's clock kept, errors translated."""

import re
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from statemaint.errors import AlreadyExistsError, NotFoundError
from statemaint.storage.base import Tally
from statemaint.storage.s3.client import content_md5, dated, shared_client
from statemaint.storage.s3.errors import (
    NO_BUCKET,
    OPERATIONS,
    OTHERS,
    S3Error,
    place_of,
    translated,
)
from statemaint.storage.s3.options import S3Options

Params = Mapping[str, object]
PROBE = b"a probe of statemaint\n"
_NO_VERSION = "null"
_OF_CEPH = re.compile("tx[0-9a-f]{20,}-[0-9a-f]+-")
_WITHOUT_BODY = frozenset({"head_bucket", "head_object"})
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
    """The objects of one bucket below one prefix; threads may share it."""

    def __init__(
        self, name: str, prefix: str, options: S3Options, sleep: Callable[[float], None]
    ) -> None:
        self.name, self.prefix, self.options, self.sleep = name, prefix, options, sleep
        self.shown = LastShown()
        self.deletes_pages = True  # many objects in one request, until the server refuses it
        self.versioned = False  # whether the newest object written or read has its own version
        self._newest, self._is_ceph = 0.0, False
        self.address = f"s3://{name}"
        self.requests = Tally()
        self._seen = False
        self.shared = shared_client(name, options)
        self._place = place_of(name, self.shared.client.meta.endpoint_url)

    def key(self, path: str) -> str:
        return f"{self.prefix}/{path}" if self.prefix else path

    def path(self, key: str) -> str:
        return key.removeprefix(f"{self.prefix}/") if self.prefix else key

    def call(self, operation: str, path: str, **params: object) -> dict[str, Any]:
        """Returns the answer to one request; a parameter that is `None` is left to the server."""
        # `NotFoundError` means that the server reported for certain that there is no such key.
        try:
            return self._answer(operation, path, params)
        except S3Error as error:
            if operation in _WITHOUT_BODY and error.status == HTTPStatus.BAD_REQUEST:
                # Expired credentials, among others. The answer to a GET has a body, which says so.
                self._answer("list_objects_v2", path, {"Prefix": self.key(""), "MaxKeys": 1})
            raise

    def _answer(self, operation: str, path: str, params: Mapping[str, object]) -> dict[str, Any]:
        with translated(path, self._place):
            arguments = {"Bucket": self.name, **self._extras(operation), **params}
            given = {name: value for name, value in arguments.items() if value is not None}
            return self.shared.call(operation, self, given)

    def call_object(self, operation: str, path: str, **params: object) -> dict[str, Any]:
        return self.call(operation, path, Key=self.key(path), **params)

    def put(
        self, path: str, content: bytes, operation: str = "put_object", /, **params: object
    ) -> dict[str, Any]:
        digest = content_md5(content)
        return self.call_object(operation, path, Body=content, ContentMD5=digest, **params)

    def head(self, path: str) -> dict[str, Any]:
        """Returns the answer to a HEAD; raises `NotFoundError` only in a bucket that exists."""
        try:
            return self.call_object("head_object", path)
        except S3Error as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            if not self._seen:  # it may also mean the bucket
                self._must_exist()
            raise NotFoundError(path) from error

    def must_be_absent(self, path: str) -> None:
        with suppress(NotFoundError):
            self.head(path)
            raise AlreadyExistsError(path)

    def _must_exist(self) -> None:
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
        if options.requester_pays and "bucket" not in operation:  # they know no payer
            extras["RequestPayer"] = "requester"
        if options.sse and operation in _WRITES:
            extras["ServerSideEncryption"] = options.sse
            if options.sse_kms_key_id:
                extras["SSEKMSKeyId"] = options.sse_kms_key_id
        return extras

    def sent(self, operation: str) -> None:
        self.requests.add(OPERATIONS.get(operation, OTHERS)[0])

    def answered(self, headers: Mapping[str, str]) -> None:
        date = headers.get("date")
        if not date:
            return
        self._is_ceph |= _OF_CEPH.match(headers.get("x-amz-request-id", "")) is not None
        written = dated(headers.get("last-modified", date)) if "etag" in headers else None
        if written is not None and written >= self._newest:
            self._newest = written
            self.versioned = headers.get("x-amz-version-id", _NO_VERSION) != _NO_VERSION

    def ignores_conditions(self) -> bool:
        """Returns whether conditional writes are known to fail, from what was only read."""
        # Ceph ignores `If-None-Match` while a bucket is versioned. Objects keep their versions when
        # versioning is suspended, so the bucket itself is asked, if it may be.
        if not (self._is_ceph and self.versioned):
            return False
        try:
            return self.call("get_bucket_versioning", self.address).get("Status") == "Enabled"
        except S3Error as error:
            if not error.refused:
                raise
            return True  # no right to know: the newest object has a version


def shown_by(headers: Mapping[str, str]) -> Mapping[str, Any]:
    shown: dict[str, Any] = {name: headers[key] for name, key in _KEPT.items() if key in headers}
    if "BucketKeyEnabled" in shown:
        shown["BucketKeyEnabled"] = shown["BucketKeyEnabled"].lower() == "true"
    return shown


class LastShown:
    """The settings of objects that the last answers have shown; threads may share it."""

    # An answer has the number of an object's tags if there are any, if the server counts them, and
    # if the caller may read them.

    def __init__(self) -> None:
        self.counts_tags = False  # whether an answer has shown that this server counts tags
        self._lock = threading.Lock()
        self._shown: dict[str, Mapping[str, Any]] = {}

    def note(self, path: str, answer: Mapping[str, Any]) -> None:
        shown = {name: answer[name] for name in _KEPT if answer.get(name)}
        if "TagCount" in shown:
            self.counts_tags = True
        with self._lock:
            self._shown.pop(path, None)
            self._shown[path] = shown
            if len(self._shown) > _MOST:
                del self._shown[next(iter(self._shown))]

    def of(self, path: str) -> Mapping[str, Any] | None:
        return self._shown.get(path)
