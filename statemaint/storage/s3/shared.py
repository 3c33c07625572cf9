"""What the storages of one bucket share: boto3's client, connections, and the server's clock."""

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from statemaint.storage.s3.client import client_of
from statemaint.storage.s3.options import S3Options
from statemaint.storage.s3.quick import QuickAnswer, QuickReads

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest

# A new storage takes keys that were replaced in a file since. Older clients are let go of, and
# their connections with them.
_SHARED_SECONDS = 300
_MOST = 64


class Asker(Protocol):
    """A storage of the bucket, which counts its own requests."""

    def sent(self, operation: str) -> None: ...

    def answered(self, headers: Mapping[str, str]) -> None: ...


def shared_client(bucket: str, options: S3Options) -> "SharedClient":
    """Returns the client of a bucket, which storages share that are opened in the same minutes.

    A client takes 15 ms and half a megabyte, and a fleet opens several storages for each query. One
    with a session of its own, as of an Airflow connection, is not shared. Nor is it between
    processes, other environments, or buckets, whose failures spend the same budget of retries.
    """
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


@dataclass(slots=True)
class Trials:
    """What trials have shown of conditional writes to a bucket.

    Attributes:
        exclusive: whether the server refuses a second `If-None-Match: *` for one key.
        match: the form of an ETag that it compares; empty if that was not tried, or none is.
    """

    exclusive: bool = False
    match: tuple[str, ...] = ()


class SharedClient:
    """boto3's client; threads may share it, and each request is counted by who sends it.

    Attributes:
        client: boto3's client.
        clock: the server's clock.
        trials: their results, which hold for every storage of the bucket.
    """

    def __init__(self, options: S3Options) -> None:
        self.client, credentials, self._connections = client_of(options)
        self.clock, self.trials = ServerClock(), Trials()
        self.quick = QuickReads(
            self._connections, credentials, sent=self._sent_quickly, received=self._note
        )
        self._thread = threading.local()
        self.client.meta.events.register("before-send.s3", self._send)
        self.client.meta.events.register("response-received.s3", self._received)

    def call(self, operation: str, asker: Asker, params: Mapping[str, Any]) -> dict[str, Any]:
        """Returns boto3's answer to one request of a storage."""
        self._thread.asker, self._thread.key = asker, params.get("Key")
        answer: dict[str, Any] = getattr(self.client, operation)(**params)
        return answer

    def read(self, path: str, key: str, size: int, asker: Asker) -> QuickAnswer | None:
        """Returns the answer to a read of an object's first bytes; `None` if boto3 must read it."""
        self._thread.asker = asker
        return self.quick.get(path, key, size)

    def _send(self, event_name: str, request: "AWSPreparedRequest", **_: object) -> Any:
        operation = event_name.rpartition(".")[2]
        self._sent(operation)
        if operation == "GetObject":
            self.quick.learn(request, self._thread.key)
        return self._connections.send(request)

    def _sent_quickly(self) -> None:
        self._sent("GetObject")

    def _sent(self, operation: str) -> None:
        self.clock.sent()
        self._thread.asker.sent(operation)

    def _received(self, parsed_response: Mapping[str, Any] | None = None, **_: object) -> None:
        self._note((parsed_response or {}).get("ResponseMetadata", {}).get("HTTPHeaders", {}))

    def _note(self, headers: Mapping[str, str]) -> None:
        if date := headers.get("date"):
            self.clock.answered(date)
        self._thread.asker.answered(headers)


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
