"""Whether a server supports conditional writes: tried once, when it first matters."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from statemaint.storage.s3.bucket import Bucket, content_md5
from statemaint.storage.s3.errors import S3Error

_PRECONDITION_FAILED = 412
# "Not implemented", and the answer of servers that reject the header.
_UNKNOWN = frozenset({400, 501})
_NO_ETAG = "0" * 32


class Probe:
    """Tries conditional writes on probe objects below `_statemaint/probe/`."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._lock = threading.Lock()
        self._exclusive: bool | None = None
        self._forms: tuple[str, ...] | None = None

    @property
    def exclusive(self) -> bool:
        """Returns whether the server refuses a second `If-None-Match: *` for one key."""
        with self._lock:
            if self._exclusive is None:
                self._exclusive = self._try_exclusive()
            return self._exclusive

    def match(self, etag: str) -> dict[str, str]:
        """Returns the condition that an object still has an ETag; empty if none is supported."""
        with self._lock:
            if self._forms is None:
                self._forms = self._try_match()
            return {"IfMatch": self._forms[0].format(etag.strip('"'))} if self._forms else {}

    def _try_exclusive(self) -> bool:
        with self._object() as path:
            # A server that does not know the header may ignore it, or refuse every request with it.
            return self._takes(path, IfNoneMatch="*") and self._refuses(path, IfNoneMatch="*")

    def _try_match(self) -> tuple[str, ...]:
        with self._object() as path:
            for form in ('"{}"', "{}"):  # Ceph compares the ETag without its quotes
                etag = self._put(path).strip('"')
                if self._refuses(path, IfMatch=form.format(_NO_ETAG)) and self._takes(
                    path, IfMatch=form.format(etag)
                ):
                    return (form,)
            return ()

    @contextmanager
    def _object(self) -> Iterator[str]:
        path = f"_statemaint/probe/{uuid4()}"
        try:
            yield path
        finally:
            self._bucket.call_object("delete_object", path)

    def _put(self, path: str, **condition: str) -> str:
        body = b"a probe of statemaint\n"
        answer = self._bucket.call_object(
            "put_object", path, Body=body, ContentMD5=content_md5(body), **condition
        )
        etag: str = answer["ETag"]
        return etag

    def _takes(self, path: str, **condition: str) -> bool:
        try:
            self._put(path, **condition)
        except S3Error as error:
            # A put that was carried out, but whose answer was lost, is refused when it is retried.
            if error.status == _PRECONDITION_FAILED or error.status in _UNKNOWN:
                return error.retried and error.status == _PRECONDITION_FAILED
            raise
        return True

    def _refuses(self, path: str, **condition: str) -> bool:
        try:
            self._put(path, **condition)
        except S3Error as error:
            if error.status == _PRECONDITION_FAILED or error.status in _UNKNOWN:
                return error.status == _PRECONDITION_FAILED
            raise
        return False
