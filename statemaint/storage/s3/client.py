"""botocore's client for S3, shared by the storages of a bucket, and the server's clock.

It reads small objects without boto3's layers, which take more time than the network does. The
request is the one that boto3 makes: it takes the address and the headers of the last read that
boto3 made; botocore signs it, and it is sent through the same connections. Anything but the answer
to a read (no such key, a refusal, a server that is too busy, a broken connection) is left to boto3,
which sends the request again.
"""

import base64
import hashlib
import os
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from statemaint.errors import ConfigError, NotFoundError, NotInstalledError
from statemaint.storage.s3.options import S3Options

if TYPE_CHECKING:
    from boto3 import Session as GivenSession
    from botocore.awsrequest import AWSPreparedRequest, AWSResponse
    from botocore.credentials import Credentials
    from botocore.httpsession import URLLib3Session
    from botocore.loaders import Loader
    from botocore.session import Session
    from types_boto3_s3 import S3Client

    from statemaint.storage.s3.bucket import Bucket

_CONNECT_SECONDS = 10
_READ_SECONDS = 60
# Servers older than boto3's own checksums require this one for deletions. Some require one for a
# copy, in a bucket with a default retention. For a part that is copied none does, and Ceph compares
# the checksum of such a request, which has no body, with the copied bytes.
_WITH_MD5 = ("DeleteObjects", "CopyObject")
# Several stores are maintained in parallel, and each reads parts ahead.
CONNECTIONS = 32
# A new storage takes keys that were replaced in a file since. Older clients are let go of, and
# their connections with them.
_SHARED_SECONDS = 300
_MOST = 64
# Of a session of S3 Express, which has its own kind of signature.
_EXPRESS = "x-amz-s3session-token"
# Set again for each request, when it is signed or sent.
_OF_ONE_REQUEST = frozenset(
    ["authorization", "host", "if-match", "range", "x-amz-content-sha256", "x-amz-date",
     "x-amz-security-token"]
)  # fmt: skip
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


def client_of(options: S3Options) -> tuple["S3Client", "Credentials | None", "URLLib3Session"]:
    # The client sends through these connections when its event `before-send` is answered so.
    try:
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
    except ImportError as error:
        raise NotInstalledError("boto3, which reads S3,", extra="s3") from error
    retries: dict[str, Any] = {"mode": options.retry_mode}
    if options.attempts is not None:
        retries["total_max_attempts"] = options.attempts
    styles = {None: "auto", True: "path", False: "virtual"}
    config: Any = Config(
        retries=retries,  # type: ignore[arg-type]
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        s3={"addressing_style": styles[options.path_style]},  # type: ignore[arg-type]
        # Uploads carry a Content-MD5, which every server compares; boto3's newer checksums are
        # unknown to many.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    try:
        session = session_of(options.session)
        client: Any = session.create_client(
            "s3", options.region, endpoint_url=options.endpoint, config=config
        )
        for operation in _WITH_MD5:
            client.meta.events.register(f"before-call.s3.{operation}", _add_md5)
        return client, session.get_credentials(), _connections(session, client.meta.endpoint_url)
    except (BotoCoreError, ValueError) as error:
        # "Invalid endpoint: ADDRESS" quotes an address that may contain a password.
        first, *_ = str(error).splitlines() or [type(error).__name__]
        why = "invalid endpoint" if "endpoint" in first.lower() else first
        raise ConfigError(f"S3 cannot be set up: {why}") from error


def _add_md5(params: dict[str, Any], **_: object) -> None:
    params["headers"]["Content-MD5"] = content_md5(params["body"] or b"")


def session_of(given: "GivenSession | None") -> "Session":
    """Returns a new session, with the credentials, the region and the profile of a given one."""
    from botocore.session import get_session

    session = get_session()
    if given is not None:
        if given.profile_name in given.available_profiles:
            session.set_config_variable("profile", given.profile_name)
        session.set_config_variable("region", given.region_name)
        # The given session renews its credentials.
        provider = SimpleNamespace(load_credentials=given.get_credentials)
        session.register_component("credential_provider", provider)
    # Sessions share botocore's descriptions of services: reading them takes a tenth of a second and
    # 12 MB, and a fleet has a storage for each query.
    session.register_component("data_loader", _models(session.get_config_variable("data_path")))
    # botocore parses times with a library for dates of any form. That takes a tenth of a
    # millisecond for each file of a listing, several times as long as all other work for the file.
    answers = session.get_component("response_parser_factory")
    answers.set_parser_defaults(timestamp_parser=parse_time)
    return session


@lru_cache(maxsize=4)
def _models(data_path: str | None) -> "Loader":
    from botocore.loaders import create_loader

    return create_loader(data_path)


def _connections(session: "Session", endpoint: str) -> "URLLib3Session":
    from botocore.httpsession import URLLib3Session
    from botocore.utils import get_environ_proxies

    options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
    if session.get_config_variable("tcp_keepalive"):
        options.append((socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1))
    certificates = session.get_config_variable("ca_bundle")
    return URLLib3Session(
        certificates or os.environ.get("REQUESTS_CA_BUNDLE") or True,  # type: ignore[arg-type]
        proxies=get_environ_proxies(endpoint),
        timeout=(_CONNECT_SECONDS, _READ_SECONDS),  # type: ignore[arg-type]
        max_pool_connections=CONNECTIONS,
        socket_options=options,  # type: ignore[arg-type]
    )


def parse_time(value: Any) -> datetime:
    """Returns a time as botocore does; that of listings and of HTTP headers in a quicker way."""
    from botocore.utils import parse_timestamp

    if isinstance(value, str):
        read = parsedate_to_datetime if "," in value else datetime.fromisoformat
        with suppress(ValueError):
            parsed = read(value)
            return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return parse_timestamp(value)


def md5(content: bytes) -> "hashlib._Hash":
    # Every S3 server compares an upload with it; it protects no secret.
    return hashlib.md5(content, usedforsecurity=False)


def content_md5(content: bytes) -> str:
    return base64.b64encode(md5(content).digest()).decode()


def shared_client(bucket: str, options: S3Options) -> "SharedClient":
    """Returns the client of a bucket, which storages share that are opened in the same minutes."""
    # A client takes 15 ms and half a megabyte, and a fleet opens several storages for each query.
    # One with a session of its own, as of an Airflow connection, is not shared. Nor is it between
    # processes, other environments, or buckets, whose failures spend the same budget of retries.
    if options.session is not None:
        return SharedClient(options)
    key = bucket, options, frozenset(os.environ.items()), os.getpid()
    now = time.monotonic()
    made, client = _held.get(key, (now, None))
    if client is None or now - made >= _SHARED_SECONDS:
        # Without a lock, which a fork might copy while it is held: two threads may make one each.
        client = SharedClient(options)
        recent = [held for held in list(_held.items()) if now - held[1][0] < _SHARED_SECONDS]
        _held.clear()
        _held.update(recent[1 - _MOST :])
        _held[key] = now, client
    return client


_held: "dict[tuple[object, ...], tuple[float, SharedClient]]" = {}


class SharedClient:
    """boto3's client; threads may share it, and each request is counted by who sends it."""

    def __init__(self, options: S3Options) -> None:
        self.client, self._credentials, self._connections = client_of(options)
        self.clock = ServerClock()
        # What trials have shown: that the server refuses a second `If-None-Match: *`, and the form
        # of an ETag that it compares.
        self.exclusive = False
        self.match: tuple[str, ...] = ()
        self._form: _Form | None = None
        self._paused_until = float("-inf")
        self._thread = threading.local()
        self.client.meta.events.register("before-send.s3", self._send)
        self.client.meta.events.register("response-received.s3", self._received)

    def call(self, operation: str, bucket: "Bucket", params: Mapping[str, Any]) -> dict[str, Any]:
        self._thread.bucket, self._thread.key = bucket, params.get("Key")
        answer: dict[str, Any] = getattr(self.client, operation)(**params)
        return answer

    def read(self, path: str, size: int, bucket: "Bucket") -> "AWSResponse | None":
        """Returns the answer to a read of an object's first bytes; `None` if boto3 must read it."""
        form = self._form
        if form is None or time.monotonic() < self._paused_until:
            return None
        self._thread.bucket = bucket
        answer = self._ask(form, bucket.key(path), size)
        if answer is None or answer.status_code not in (_WHOLE, _PART, _MISSING, _EMPTY):
            self._paused_until = time.monotonic() + _PAUSE_SECONDS
            return None
        if answer.status_code == _MISSING and b"<Code>NoSuchKey</Code>" in answer.content:
            raise NotFoundError(path)
        whole = len(answer.content) == int(answer.headers["content-length"])
        return answer if whole and answer.status_code in (_WHOLE, _PART) else None

    def _ask(self, form: _Form, key: str, size: int) -> "AWSResponse | None":
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError, ClientError
        from urllib3.exceptions import HTTPError

        headers = {**form.headers, "Range": f"bytes=0-{size - 1}"}
        request = AWSRequest("GET", form.base + _quoted(key), headers=headers, stream_output=True)
        try:
            frozen = self._credentials.get_frozen_credentials()  # type: ignore[union-attr]
            S3SigV4Auth(frozen, "s3", form.region).add_auth(request)
            prepared = request.prepare()
            self._sent("GetObject")
            answer = self._connections.send(prepared)
            self._note(answer.headers)
            most = size if answer.status_code in (_WHOLE, _PART) else _MOST_OF_AN_ERROR
            length = answer.headers.get("content-length", "")
            if not length.isdecimal() or int(length) > most:
                answer.raw.close()
                return None
            answer.content  # noqa: B018 -- received here, where a broken connection is expected
        except (BotoCoreError, ClientError, HTTPError, OSError):
            return None  # a ClientError is a refusal to renew the credentials
        return answer

    def _send(self, event_name: str, request: "AWSPreparedRequest", **_: object) -> Any:
        operation = event_name.rpartition(".")[2]
        self._sent(operation)
        if operation == "GetObject" and self._credentials is not None:
            self._form = _form_of(request, self._thread.key)
        return self._connections.send(request)

    def _sent(self, operation: str) -> None:
        self.clock.sent()
        self._thread.bucket.sent(operation)

    def _received(self, parsed_response: Mapping[str, Any] | None = None, **_: object) -> None:
        self._note((parsed_response or {}).get("ResponseMetadata", {}).get("HTTPHeaders", {}))

    def _note(self, headers: Mapping[str, str]) -> None:
        if date := headers.get("date"):
            self.clock.answered(date)
        self._thread.bucket.answered(headers)


def _form_of(request: "AWSPreparedRequest", key: str) -> _Form | None:
    """Returns the form of boto3's request; `None` if it is signed in any other way."""
    given: Any = request.headers.items()  # text or bytes
    headers = {
        name.lower(): value.decode("latin-1") if isinstance(value, bytes) else str(value)
        for name, value in given
    }
    signed, quoted = headers.get("authorization", ""), _quoted(key)
    if not signed.startswith(_SIGNED) or not request.url.endswith(f"/{quoted}"):
        return None
    if _EXPRESS in headers:
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
        received = time.monotonic()
        seconds = dated(date)
        if seconds is None:
            return
        earliest = seconds - received
        latest = seconds + 1 - getattr(self._thread, "sent", received)
        with self._lock:
            current = earliest if self._ahead is None else self._ahead
            self._ahead = min(max(current, earliest), latest)

    def now(self) -> float | None:
        """Returns the time, at most a second behind the server's; `None` before any answer."""
        with self._lock:
            return None if self._ahead is None else self._ahead + time.monotonic()


@lru_cache(maxsize=4)
def dated(date: str) -> float | None:
    """Returns the seconds of a `Date` header; every answer of one second has the same."""
    try:
        return parsedate_to_datetime(date).timestamp()
    except ValueError:
        return None
