"""Storage on S3, or on any server that speaks its protocol."""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import chain
from typing import Any, BinaryIO

from statemaint.errors import AlreadyExistsError, ConfigError, NotFoundError, StorageError
from statemaint.listing import Entry
from statemaint.storage.base import Check, Chunks, Moved, Moves, Storage, named_as_file
from statemaint.storage.s3.bucket import Bucket
from statemaint.storage.s3.client import CONNECTIONS
from statemaint.storage.s3.errors import S3Error
from statemaint.storage.s3.moves import Mover, copy, delete_all
from statemaint.storage.s3.options import SCHEMES, S3Options
from statemaint.storage.s3.read import entry_of, open_object, read_object
from statemaint.storage.s3.settings import Likeness
from statemaint.storage.s3.write import Probe, append, in_parts, write
from statemaint.workers import nothing

_ADDRESS = re.compile(rf"(?:{'|'.join(SCHEMES)})://([A-Za-z0-9._-]{{1,255}})(?:/(.*))?", re.DOTALL)


class S3Storage(Storage):
    """A bucket, or the objects below a prefix in it. A write is a PUT, which appears complete.

    Times are the server's, in whole seconds, as in all of S3's answers except listings. Requests
    are those of HTTP, including retries: `list`, `get`, `put`, ...
    """

    parallel = CONNECTIONS

    def __init__(
        self,
        address: str,
        options: S3Options | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        match = _ADDRESS.fullmatch(address)
        if not match:
            raise ConfigError(_not_an_address(address))
        prefix = "/".join(part for part in (match[2] or "").split("/") if part)
        self._root = address
        self._bucket = Bucket(match[1], prefix, options or S3Options(), sleep)
        self._probe = Probe(self._bucket)
        self._likeness = Likeness(self._bucket)
        self._mover = Mover(self._bucket)

    @property
    def requests(self) -> Mapping[str, int]:
        return self._bucket.requests.counts()

    @property
    def exclusive(self) -> bool:
        return self._probe.exclusive

    @property
    def obstacle(self) -> str:
        return self._probe.obstacle

    def list(self, prefix: str) -> Iterator[Entry]:
        for page in self._pages(prefix):
            for item in page.get("Contents", []):
                path = self._bucket.path(item["Key"])
                if not item["Key"].endswith("/") or item["Size"]:
                    yield entry_of(path, item["Size"], item)
                elif named_as_file(path.rstrip("/").rpartition("/")[2]):
                    yield Entry(path, 0, None)  # an empty object that represents a directory

    def folders(self, prefix: str) -> Iterator[str]:
        within = self._bucket.key(_below(prefix))
        for page in self._pages(prefix, Delimiter="/"):
            for item in page.get("CommonPrefixes", []):
                if name := item["Prefix"].removeprefix(within).rstrip("/"):
                    yield name  # of a key with `//`, there is none

    def _pages(self, directory: str, **params: str) -> Iterator[dict[str, Any]]:
        where, prefix = _below(directory) or self.root, self._bucket.key(_below(directory))
        more: dict[str, str] = {}
        while True:
            page = self._bucket.call("list_objects_v2", where, Prefix=prefix, **params, **more)
            files = len(page.get("Contents", [])) + len(page.get("CommonPrefixes", []))
            if "IsTruncated" not in page or page.get("KeyCount", files) != files:
                raise StorageError(where, "the server's listing is not whole")
            yield page
            if not page["IsTruncated"]:
                return
            token = page.get("NextContinuationToken")
            if not token or token == more.get("ContinuationToken"):
                raise StorageError(where, "the server's listing does not continue where it should")
            more = {"ContinuationToken": token}

    def stat(self, path: str) -> Entry:
        answer = self._bucket.head(path)
        return entry_of(path, answer["ContentLength"], answer)

    def read(self, path: str) -> bytes:
        return read_object(self._bucket, path, small=True)[0]

    def open(self, path: str) -> AbstractContextManager[BinaryIO]:
        return open_object(self._bucket, path)

    def write(
        self, path: str, chunks: Chunks, *, overwrite: bool = False, like: str | None = None
    ) -> Entry:
        # A file larger than a part is uploaded while it is produced. A new file of one part, like
        # another, takes one request: the answer has its tag, and all of its settings if the server
        # answers a write as it answers a read. Its time is unknown then.
        pieces = iter(chunks)
        begun = next(pieces, b"")  # by now a fold has read the change whose settings are taken
        params = {} if like is None else self._likeness.params(path, like)
        sizes: list[int] = []

        def measured(parts: Chunks) -> Iterator[bytes]:
            for part in parts:
                sizes.append(len(part))
                yield part

        parts = measured(in_parts(chain((begun,), pieces), self._bucket.options.part_size))
        answer = write(self._bucket, self._probe, path, parts, params, new=not overwrite)
        if like is not None and not overwrite and answer and self._likeness.writes_show:
            self._likeness.ensure(path, like, answer, in_parts=False)
            return Entry(path, sum(sizes), None, answer["ETag"].strip('"'))
        answer = self._bucket.head(path)
        entry = entry_of(path, answer["ContentLength"], answer)
        if not overwrite and entry.size != sum(sizes):  # Ceph: see `write._complete`
            raise AlreadyExistsError(path)
        if like is not None:
            self._likeness.ensure(path, like, answer, in_parts=len(sizes) > 1)
        return entry

    def replace(self, path: str, chunks: Chunks) -> None:
        parts = in_parts(chunks, self._bucket.options.part_size)
        write(self._bucket, self._probe, path, parts, {}, new=False)

    def append(self, path: str, lines: bytes) -> None:
        append(self._bucket, self._probe, path, lines)

    def delete(self, path: str) -> None:
        with suppress(NotFoundError):  # the answer of some servers
            self._bucket.call_object("delete_object", path)

    def delete_all(self, paths: Sequence[str], *, before: Check = nothing) -> None:
        delete_all(self._bucket, paths, before=before)

    def move(self, path: str, to: str, *, like: str | None = None) -> None:
        answer = self._bucket.head(path)
        params = None if like is None else self._likeness.params(to, like)
        copy(self._bucket, path, to, answer, params)
        self.delete(path)

    def move_all(self, moves: Moves, *, before: Check = nothing, after: Moved = nothing) -> None:
        self._mover.move_all(moves, before=before, after=after)

    def check_readable(self, path: str, *, like: str) -> None:
        self._likeness.check(path, like)

    def now(self) -> float:
        # At most a second behind the server's time, since it reports whole seconds.
        now = self._bucket.shared.clock.now()
        if now is None:
            self._bucket.ask()
            now = self._bucket.shared.clock.now()
        if now is None:
            raise S3Error(self._bucket.address, "the server does not report its time")
        return now


def _below(directory: str) -> str:
    return f"{directory.strip('/')}/".lstrip("/")


def _not_an_address(address: str) -> str:
    scheme = address.partition(":")[0]
    if "@" in address:  # never shown: it may be a secret
        return f"{scheme}: credentials do not belong in an address; boto3 finds them elsewhere"
    return f"{address}: not an address of S3; write s3://bucket/path"
