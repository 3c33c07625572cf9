"""Reads of small objects without boto3's layers, which take more time than the network does.

The request is the one that boto3 makes: it takes the address and the headers of the last read that
boto3 made; botocore signs it, and it is sent through the same connections. Anything but the answer
to a read (no such key, a refusal, a server that is too busy, a broken connection) is left to boto3,
which sends the request again.
"""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from statemaint.errors import NotFoundError

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest, AWSResponse
    from botocore.credentials import Credentials
    from botocore.httpsession import URLLib3Session

# A session of S3 Express has its own kind of signature.
_OTHER_KINDS = frozenset(["x-amz-s3session-token"])
# Set again for each request, when it is signed or sent.
_OF_ONE_REQUEST = frozenset(
    ["authorization", "host", "range", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token"]
)
_OF_BOTO3 = ("amz-sdk-", "traceparent", "tracestate", "x-amzn-trace-id")
_SIGNED = "AWS4-HMAC-SHA256 Credential="
_WHOLE, _PART, _MISSING, _EMPTY = 200, 206, 404, 416
# After a failure boto3 makes all requests for some time: it can wait for a busy server.
_PAUSE_SECONDS = 30.0
_MOST_OF_AN_ERROR = 64 * 1024


class _Form(NamedTuple):
    """The part of a request that all reads share."""

    base: str  # the address of the bucket, up to the keys
    headers: Mapping[str, str]
    region: str  # that it is signed for


class QuickReads:
    """Reads of one bucket; threads may share it."""

    def __init__(
        self,
        connections: "URLLib3Session",
        credentials: "Credentials | None",
        *,
        sent: Callable[[], None],
        received: Callable[[Mapping[str, str]], None],
    ) -> None:
        self._connections, self._credentials = connections, credentials
        self._sent, self._received = sent, received
        self._form: _Form | None = None
        self._paused_until = float("-inf")

    def learn(self, request: "AWSPreparedRequest", key: str) -> None:
        if self._credentials is not None:
            self._form = _form_of(request, key)

    def get(self, path: str, key: str, size: int) -> "AWSResponse | None":
        """Returns the answer to a read of an object's first bytes; `None` if boto3 must read it."""
        form = self._form
        if form is None or time.monotonic() < self._paused_until:
            return None
        answer = self._ask(form, key, size)
        if answer is None or answer.status_code not in (_WHOLE, _PART, _MISSING, _EMPTY):
            self._paused_until = time.monotonic() + _PAUSE_SECONDS
            return None
        if answer.status_code == _MISSING and b"<Code>NoSuchKey</Code>" in answer.content:
            raise NotFoundError(path)
        whole = len(answer.content) == int(answer.headers["content-length"])
        return answer if whole and answer.status_code in (_WHOLE, _PART) else None

    def _ask(self, form: _Form, key: str, size: int) -> "AWSResponse | None":
        from botocore.exceptions import BotoCoreError, ClientError
        from urllib3.exceptions import HTTPError

        try:
            request = self._signed(form, key, size)
            self._sent()
            answer = self._connections.send(request)
            self._received(answer.headers)
            if not _is_bounded(answer, size):
                answer.raw.close()
                return None
            answer.content  # noqa: B018 -- received here, where a broken connection is expected
        except (BotoCoreError, ClientError, HTTPError, OSError):
            return None  # a ClientError is a refusal to renew the credentials
        return answer

    def _signed(self, form: _Form, key: str, size: int) -> "AWSPreparedRequest":
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest

        headers = {**form.headers, "Range": f"bytes=0-{size - 1}"}
        request = AWSRequest("GET", form.base + _quoted(key), headers=headers, stream_output=True)
        frozen = self._credentials.get_frozen_credentials()  # type: ignore[union-attr]
        S3SigV4Auth(frozen, "s3", form.region).add_auth(request)
        return request.prepare()


def _form_of(request: "AWSPreparedRequest", key: str) -> _Form | None:
    """Returns the form of boto3's request; `None` if it is signed in any other way."""
    headers = {name.lower(): _text(value) for name, value in request.headers.items()}
    signed, quoted = headers.get("authorization", ""), _quoted(key)
    if not signed.startswith(_SIGNED) or not request.url.endswith(f"/{quoted}"):
        return None
    if _OTHER_KINDS & headers.keys():
        return None
    region, service = signed.partition(",")[0].split("/")[-3:-1]
    kept = {
        name: value
        for name, value in headers.items()
        if name not in _OF_ONE_REQUEST and not name.startswith(_OF_BOTO3)
    }
    return _Form(request.url.removesuffix(quoted), kept, region) if service == "s3" else None


def _quoted(key: str) -> str:
    return quote(key, safe="/~")


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _is_bounded(answer: "AWSResponse", size: int) -> bool:
    """Returns whether an answer states its length, and is no longer than requested."""
    most = size if answer.status_code in (_WHOLE, _PART) else _MOST_OF_AN_ERROR
    length = answer.headers.get("content-length", "")
    return length.isdecimal() and int(length) <= most
