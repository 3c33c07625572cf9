"""Servers of S3 for the tests: moto in this process, a real Ceph, and what both are asked."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from threading import get_ident
from typing import Any
from uuid import uuid4

import boto3
from moto.server import ThreadedMotoServer

from statemaint.storage import S3Options, S3Storage
from tests.support.planted import secret


def _not_slept(_: float) -> None:
    """Waits for nothing."""


@dataclass(frozen=True, slots=True)
class Place:
    """A server of S3, and keys for it."""

    url: str
    access_key: str = "an-access-key"
    secret_key: str = secret("of-moto")  # which takes any

    @property
    def session(self) -> boto3.Session:
        return _session(self.access_key, self.secret_key, get_ident())

    @property
    def client(self) -> Any:
        return _client(self, get_ident())

    def options(self, **options: Any) -> S3Options:
        found: dict[str, Any] = {"endpoint": self.url, "session": self.session, "attempts": 1}
        return S3Options(**{**found, **options})

    def bucket(self) -> str:
        """Makes a bucket and returns its name."""
        name = f"b{uuid4().hex}"
        self.client.create_bucket(Bucket=name)
        return name

    def storage(
        self,
        address: str = "",
        *,
        sleep: Callable[[float], None] = _not_slept,
        **options: Any,
    ) -> S3Storage:
        """Returns a storage, in a bucket of its own unless an address is given."""
        at = address or f"s3://{self.bucket()}/some/checkpoint"
        return S3Storage(at, self.options(**options), sleep=sleep)

    def waiting(self, address: str = "") -> S3Storage:
        """Returns a storage that waits where others are to get a turn, and asks again.

        A Ceph answers 500 `UnknownError` to a GET that races with a write; boto3 repeats it.
        """
        return self.storage(address, sleep=time.sleep, attempts=5)


@cache  # a new one parses what boto3 knows of S3 once more: a tenth of a second
def _session(access_key: str, secret_key: str, _thread: int) -> boto3.Session:
    return boto3.Session(
        aws_access_key_id=access_key, aws_secret_access_key=secret_key, region_name="us-east-1"
    )


@cache
def _client(place: Place, thread: int) -> Any:
    session = _session(place.access_key, place.secret_key, thread)
    return session.client("s3", endpoint_url=place.url)


@contextmanager
def moto() -> Iterator[Place]:
    """Runs a moto server for the length of a `with` block."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield Place(f"http://{host}:{port}")
    finally:
        server.stop()
