"""Whether a server supports conditional writes: tried once, when it first matters.

What works for one storage of a bucket works for all that share its client, unless what was read
since says otherwise; what does not is tried by each, as it may be a matter of rights.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import TypeVar
from uuid import uuid4

from statemaint.storage.base import PROBES
from statemaint.storage.s3.bucket import Bucket
from statemaint.storage.s3.errors import S3Error

# The answers of servers that do not know the header.
_UNKNOWN = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_IMPLEMENTED)
_NO_ETAG = "0" * 32
PROBE = b"a probe of statemaint\n"
_ELSEWHERE = "keep the checkpoint on a server that supports it"
_Answer = TypeVar("_Answer")


class Probe:
    """Tries conditional writes on probe objects below `_statemaint/probe/`.

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
        """Returns whether the server refuses a second `If-None-Match: *` for one key."""
        with self._lock:
            if self._exclusive is None:
                trials = self._bucket.trials
                known = trials.exclusive and not self._bucket.ignores_conditions()
                found = known or self._tried("exclusive", self._try_exclusive) or False
                self._exclusive = trials.exclusive = found
            return self._exclusive

    @property
    def obstacle(self) -> str:
        """Returns why the server is not exclusive, by the trial, or before it by what was read."""
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

    def match(self, etag: str) -> dict[str, str]:
        """Returns the condition that an object still has an ETag; empty if none is supported."""
        with self._lock:
            if self._forms is None:
                trials = self._bucket.trials
                self._forms = trials.match or self._tried("match", self._try_match) or ()
                trials.match = self._forms
            return {"IfMatch": self._forms[0].format(etag.strip('"'))} if self._forms else {}

    def _tried(self, name: str, trial: Callable[[str], _Answer]) -> _Answer | None:
        for own in (name, str(uuid4())):
            with self._object(own) as path:
                if answer := trial(path):
                    return answer
        return None

    def _try_exclusive(self, path: str) -> bool:
        # A server that does not know the header may ignore it, or refuse every request with it.
        refusal = self._refusal(path, IfNoneMatch="*")
        if refusal and refusal.status in _UNKNOWN:
            why = f"the server refuses `If-None-Match: *` (HTTP {refusal.status})"
            self._why = f"{why}; {_ELSEWHERE}"
            return False
        # An object that an earlier run could not delete has the fixed name: that refusal will do.
        if refusal or self._refuses(path, IfNoneMatch="*"):
            return True
        ignored = f"the server ignores `If-None-Match: *`; {_ELSEWHERE}"
        self._why = self._of_versions if self._bucket.versioned else ignored
        return False

    def _try_match(self, path: str) -> tuple[str, ...]:
        for form in ('"{}"', "{}"):  # Ceph compares the ETag without its quotes
            etag = self._bucket.put(path, PROBE)["ETag"].strip('"')
            if self._refuses(path, IfMatch=form.format(_NO_ETAG)) and self._takes(
                path, IfMatch=form.format(etag)
            ):
                return (form,)
        return ()

    @contextmanager
    def _object(self, name: str) -> Iterator[str]:
        path = f"{PROBES}/{name}"
        try:
            yield path
        finally:
            self._bucket.call_object("delete_object", path)

    def _refusal(self, path: str, **condition: str) -> S3Error | None:
        try:
            self._bucket.put(path, PROBE, **condition)
        except S3Error as error:
            if error.status not in (HTTPStatus.PRECONDITION_FAILED, *_UNKNOWN):
                raise
            return error
        return None

    def _takes(self, path: str, **condition: str) -> bool:
        refusal = self._refusal(path, **condition)
        # A put that was carried out, but whose answer was lost, is refused when it is retried.
        return refusal is None or (refusal.retried and _is_unmet(refusal))

    def _refuses(self, path: str, **condition: str) -> bool:
        refusal = self._refusal(path, **condition)
        return refusal is not None and _is_unmet(refusal)


def _is_unmet(refusal: S3Error) -> bool:
    return refusal.status == HTTPStatus.PRECONDITION_FAILED
