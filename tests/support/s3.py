"""Servers of S3 for the tests: moto in this process, a real Ceph, and what both are asked."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import boto3
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from flask import Flask, request
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import make_server

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
        return _session(self.access_key, self.secret_key)

    @property
    def client(self) -> Any:
        return _client(self)

    def options(self, **options: Any) -> S3Options:
        found: dict[str, Any] = {"endpoint": self.url, "session": self.session, "attempts": 1}
        return S3Options(**{**found, **options})

    def bucket(self) -> str:
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

    def uploads(self, storage: S3Storage) -> list[object]:
        """Returns the uploads in parts that have not ended."""
        found = self.client.list_multipart_uploads(Bucket=storage._bucket.name)
        unended: list[object] = found.get("Uploads", [])
        return unended

    def fill(self, address: str, files: Mapping[str, bytes]) -> None:
        """Puts files below an address, without boto3's layers."""
        credentials = Credentials(self.access_key, self.secret_key)
        signer = S3SigV4Auth(credentials, "s3", "us-east-1")
        below = address.removeprefix("s3:/")
        with closing(HTTPConnection(self.url.removeprefix("http://"))) as server:
            for path, content in files.items():
                target = quote(f"{below}/{path}")
                asked: Any = AWSRequest("PUT", self.url + target, data=content)
                signer.add_auth(asked)
                server.request("PUT", target, content, dict(asked.headers.items()))
                answer = server.getresponse()
                assert (answer.status, answer.read()) == (200, b"")

    def waiting(self, address: str = "") -> S3Storage:
        """Returns a storage that waits where others are to get a turn, and asks again.

        A Ceph answers 500 `UnknownError` to a GET that races with a write; boto3 repeats it.
        """
        return self.storage(address, sleep=time.sleep, attempts=5)


@dataclass(frozen=True, slots=True)
class Moto(Place):
    """A moto of this process."""

    def fill(self, address: str, files: Mapping[str, bytes], **tags: str) -> None:
        """Puts files below an address, as requests would do it."""
        backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
        name, _, prefix = address.removeprefix("s3://").partition("/")
        bucket = backend.get_bucket(name)
        for path, content in files.items():
            key = backend.put_object(name, f"{prefix}/{path}", content, storage="STANDARD")
            key.set_metadata({})
            key.set_acl(bucket.acl)
            backend.put_object_tagging(key, tags or None)


@cache
def _session(access_key: str, secret_key: str) -> boto3.Session:
    """Returns the one session of a user: a new one reads boto3's descriptions of services again."""
    return boto3.Session(
        aws_access_key_id=access_key, aws_secret_access_key=secret_key, region_name="us-east-1"
    )


@cache
def _client(place: Place) -> Any:
    return place.session.client("s3", endpoint_url=place.url)


def moto_app() -> Flask:
    """Returns moto's S3 alone: to find the service of each request takes it half of its time.

    It answers one request at a time, so that a conditional write is atomic, as S3 promises: moto
    compares first and writes later, and a thread in between makes two writers succeed.
    """
    app: Flask = create_backend_app("s3")
    answer, turn = app.dispatch_request, threading.Lock()

    def in_turn() -> Any:
        request.get_data()  # before the turn: a client that stalls would hold it
        with turn:
            return answer()

    app.dispatch_request = in_turn  # type: ignore[method-assign]
    return app


@contextmanager
def serving(app: Callable[..., Any], **options: Any) -> Iterator[str]:
    """Runs an application for the length of a `with` block; yields its address."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, app, threaded=True, **options)
    thread = threading.Thread(target=server.serve_forever, args=[0.05], daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def moto() -> Iterator[Moto]:
    """Runs a moto server for the length of a `with` block."""
    with serving(moto_app(), request_handler=MotoRequestHandler) as url:
        yield Moto(url)
