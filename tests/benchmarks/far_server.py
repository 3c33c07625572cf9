"""A bucket at a distance: S3's protocol, in memory, each answer as late as one is told.

`python -m tests.benchmarks.far_server DELAY_MS [FOLDER [FILES]]` serves the bucket `far`, with the
files of the folder and so many files in the trash of thirty runs in it, on a free port of this
machine, and prints the port. Only what `S3Storage` asks
for small objects is there. A GET of `/` tells how many requests there were, and how many at once
at most; a POST of it counts anew, a DELETE of it also puts the bucket back to what it was.
"""

import asyncio
import json
import sys
import time
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from dataclasses import dataclass, field
from email.utils import formatdate
from hashlib import md5
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote
from xml.etree import ElementTree as ET

_PAGE = 1000
_TRASH, _RUNS, _DAY = "_statemaint/trash", 30, 86400.0
_XMLNS = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
_OWNER = "<Owner><ID>me</ID></Owner>"
_ACL = (
    f"<AccessControlPolicy {_XMLNS}>{_OWNER}<AccessControlList><Grant>"
    '<Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="CanonicalUser">'
    "<ID>me</ID></Grantee><Permission>FULL_CONTROL</Permission></Grant></AccessControlList>"
    "</AccessControlPolicy>"
)
_OWNERSHIP = (  # of a new bucket of AWS, which has no ACLs
    f"<OwnershipControls {_XMLNS}><Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership>"
    "</Rule></OwnershipControls>"
)
_REASONS = {200: "OK", 204: "No Content", 206: "Partial Content", 404: "Not Found",
            412: "Precondition Failed", 416: "Range Not Satisfiable"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Object:
    content: bytes
    modified: float
    tags: tuple[tuple[str, str], ...] = ()

    @property
    def etag(self) -> str:
        return f'"{md5(self.content, usedforsecurity=False).hexdigest()}"'


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    key: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    length: int | None = None


class Bucket:
    """The objects, and what was asked of them."""

    def __init__(self, objects: dict[str, _Object]) -> None:
        self._first, self._objects = objects, dict(objects)
        self._keys = sorted(objects)
        self.asked: Counter[str] = Counter()
        self.now = self.most = 0

    def answer(self, request: _Request) -> _Answer:
        """Returns the answer to a request of the bucket or one of its objects."""
        if not request.key:
            return self._of_bucket(request)
        if "acl" in request.query or "tagging" in request.query:
            there = self._objects.get(request.key)
            if there is None or request.method != "GET":
                return _error(404, "NoSuchKey")
            return _Answer(200, (_ACL if "acl" in request.query else _tagging(there)).encode())
        verbs = {"GET": self._get, "HEAD": self._head, "PUT": self._put, "DELETE": self._delete}
        return verbs[request.method](request)

    def _of_bucket(self, request: _Request) -> _Answer:
        if request.method == "POST" and "delete" in request.query:
            for key in ET.fromstring(request.body).iter():  # noqa: S314 -- our own request
                if key.tag.endswith("Key"):
                    self._forget(key.text or "")
            return _Answer(200, f"<DeleteResult {_XMLNS}></DeleteResult>".encode())
        if "ownershipControls" in request.query:
            return _Answer(200, _OWNERSHIP.encode())
        return self._list(request.query) if request.method == "GET" else _Answer(200)

    def _list(self, query: dict[str, str]) -> _Answer:
        prefix, after = query.get("prefix", ""), query.get("continuation-token", "")
        if delimiter := query.get("delimiter"):
            return self._folders(prefix, delimiter)
        begin = max(bisect_left(self._keys, prefix), bisect_right(self._keys, after))
        several = self._keys[begin : begin + _PAGE + 1]
        keys = [one for one in several if one.startswith(prefix)]
        page, more = keys[:_PAGE], len(keys) > _PAGE
        found = "".join(_content(one, self._objects[one]) for one in page)
        token = f"<NextContinuationToken>{quote(page[-1])}</NextContinuationToken>" if more else ""
        text = (
            f"<ListBucketResult {_XMLNS}><EncodingType>url</EncodingType>"
            f"<KeyCount>{len(page)}</KeyCount><IsTruncated>{str(more).lower()}</IsTruncated>"
            f"{token}{found}</ListBucketResult>"
        )
        return _Answer(200, text.encode())

    def _folders(self, prefix: str, delimiter: str) -> _Answer:
        """Returns the folders at a prefix, all of them in one page."""
        found, at = [], bisect_left(self._keys, prefix)
        while at < len(self._keys) and self._keys[at].startswith(prefix):
            name, inside, _ = self._keys[at].removeprefix(prefix).partition(delimiter)
            at += 1
            if inside:
                found.append(f"{prefix}{name}{delimiter}")
                at = bisect_left(self._keys, f"{prefix}{name}{chr(ord(delimiter) + 1)}", at)
        shown = "".join(
            f"<CommonPrefixes><Prefix>{quote(one)}</Prefix></CommonPrefixes>" for one in found
        )
        text = (
            f"<ListBucketResult {_XMLNS}><EncodingType>url</EncodingType>"
            f"<KeyCount>{len(found)}</KeyCount><IsTruncated>false</IsTruncated>{shown}"
            "</ListBucketResult>"
        )
        return _Answer(200, text.encode())

    def _get(self, request: _Request) -> _Answer:
        found = self._objects.get(request.key)
        if found is None:
            return _error(404, "NoSuchKey")
        content, headers = found.content, _about(found)
        if wanted := request.headers.get("range"):
            start, _, end = wanted.removeprefix("bytes=").partition("-")
            stop = min(int(end) + 1, len(content))
            if int(start) >= len(content):
                return _error(416, "InvalidRange")
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(content)}"
            return _Answer(206, content[int(start) : stop], headers)
        return _Answer(200, content, headers)

    def _head(self, request: _Request) -> _Answer:
        found = self._objects.get(request.key)
        if found is None:
            return _Answer(404)
        return _Answer(200, b"", _about(found), len(found.content))

    def _put(self, request: _Request) -> _Answer:
        there = self._objects.get(request.key)
        match = request.headers.get("if-match")
        if "if-none-match" in request.headers and there is not None:
            return _error(412, "PreconditionFailed")
        if match is not None and (there is None or there.etag != match):
            return _error(412, "PreconditionFailed")
        tags = parse_qsl(request.headers.get("x-amz-tagging", ""))
        source = request.headers.get("x-amz-copy-source")
        if source is not None:
            return self._copy(request, unquote(source).lstrip("/").removeprefix("far/"))
        made = _Object(request.body, time.time(), tuple(tags))
        if there is None:
            insort(self._keys, request.key)
        self._objects[request.key] = made
        return _Answer(200, b"", {"ETag": made.etag})

    def _copy(self, request: _Request, source: str) -> _Answer:
        there = self._objects.get(source)
        if there is None:
            return _error(404, "NoSuchKey")
        if request.headers.get("x-amz-copy-source-if-match", there.etag) != there.etag:
            return _error(412, "PreconditionFailed")
        if request.key not in self._objects:
            insort(self._keys, request.key)
        self._objects[request.key] = _Object(there.content, time.time(), there.tags)
        text = f"<CopyObjectResult {_XMLNS}><ETag>{there.etag}</ETag></CopyObjectResult>"
        return _Answer(200, text.encode())

    def _delete(self, request: _Request) -> _Answer:
        self._forget(request.key)
        return _Answer(204)

    def _forget(self, key: str) -> None:
        if self._objects.pop(key, None) is not None:
            del self._keys[bisect_left(self._keys, key)]

    def told(self) -> _Answer:
        """Returns what was asked so far."""
        return _Answer(200, json.dumps({"requests": self.asked, "at once": self.most}).encode())

    def reset(self) -> _Answer:
        """Puts everything back to what it was."""
        self._objects, self._keys = dict(self._first), sorted(self._first)
        return self.count_anew()

    def count_anew(self) -> _Answer:
        """Forgets what was asked so far."""
        self.asked, self.most = Counter(), 0
        return _Answer(204)


def _verb(request: _Request) -> str:
    """Returns what is counted: the method, and apart from it the listings and joint deletions."""
    if request.key:
        return request.method
    return {"GET": "LIST", "POST": "DELETE of many"}.get(request.method, request.method)


def _content(key: str, found: _Object) -> str:
    when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(found.modified))
    return (
        f"<Contents><Key>{quote(key)}</Key><LastModified>{when}</LastModified>"
        f"<ETag>{found.etag}</ETag><Size>{len(found.content)}</Size></Contents>"
    )


def _about(found: _Object) -> dict[str, str]:
    headers = {"ETag": found.etag, "Last-Modified": formatdate(found.modified, usegmt=True)}
    return {**headers, "x-amz-tagging-count": str(len(found.tags))} if found.tags else headers


def _tagging(found: _Object) -> str:
    tags = "".join(f"<Tag><Key>{one}</Key><Value>{two}</Value></Tag>" for one, two in found.tags)
    return f"<Tagging {_XMLNS}><TagSet>{tags}</TagSet></Tagging>"


def _error(status: int, code: str) -> _Answer:
    return _Answer(status, f"<Error><Code>{code}</Code></Error>".encode())


class Connection(asyncio.Protocol):
    """One connection, whose requests come one after the other."""

    def __init__(self, bucket: Bucket, delay: float) -> None:
        self._bucket, self._delay, self._data = bucket, delay, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answers, later, once a request is whole."""
        self._data += data
        head, found, rest = self._data.partition(b"\r\n\r\n")
        if not found:
            return
        lines = head.decode().split("\r\n")
        headers = {
            name.lower(): value
            for name, value in (line.split(": ", 1) for line in lines[1:])
        }  # fmt: skip
        size = int(headers.get("content-length", "0"))
        if headers.get("expect") and len(rest) < size:
            headers.pop("expect")
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")  # type: ignore[attr-defined]
        if len(rest) < size:
            return
        self._data = b""
        method, target, _ = lines[0].split(" ")
        path, _, query = target.partition("?")
        key = unquote(path).removeprefix("/far").removeprefix("/")
        asked = dict(parse_qsl(query, keep_blank_values=True))
        self._take(path, _Request(method, key, asked, headers, rest[:size]))

    def _take(self, path: str, request: _Request) -> None:
        bucket, loop = self._bucket, asyncio.get_running_loop()
        if path == "/":
            verbs = {"GET": bucket.told, "DELETE": bucket.reset, "POST": bucket.count_anew}
            self._send(verbs[request.method]())
            return
        bucket.asked[_verb(request)] += 1
        bucket.now += 1
        bucket.most = max(bucket.most, bucket.now)
        loop.call_later(self._delay, self._finish, request)

    def _finish(self, request: _Request) -> None:
        self._bucket.now -= 1
        self._send(self._bucket.answer(request))

    def _send(self, answer: _Answer) -> None:
        length = len(answer.body) if answer.length is None else answer.length
        headers = {"Date": formatdate(usegmt=True), "Content-Length": str(length), **answer.headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        line = f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\n"
        self._transport.write(f"{line}{head}\r\n".encode() + answer.body)  # type: ignore[attr-defined]


def _objects(folder: Path) -> dict[str, _Object]:
    return {
        one.relative_to(folder).as_posix(): _Object(one.read_bytes(), one.stat().st_mtime)
        for one in folder.rglob("*")
        if one.is_file()
    }


def _trash(files: int) -> dict[str, _Object]:
    """Returns files that runs have moved to the trash for another day, and their manifests."""
    now, per_run = time.time(), -(-files // _RUNS)
    found: dict[str, _Object] = {}
    for number in range(files):
        run, path = number // per_run, f"state/0/{number % 32}/{number}.delta"
        found[f"{_TRASH}/run-{run:02}/{path}"] = _Object(b"x", now)
    for run in range(_RUNS if files else 0):
        line = json.dumps({"path": "state/0/0/0.delta", "until": now + _DAY}).encode() + b"\n"
        found[f"{_TRASH}/run-{run:02}/manifest/0-0.page-000001.jsonl"] = _Object(line, now)
    return found


async def serve(delay: float, bucket: Bucket) -> None:
    """Serves until it is stopped."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(bucket, delay), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201
    await server.serve_forever()


if __name__ == "__main__":
    found = _objects(Path(sys.argv[2])) if len(sys.argv) > 2 else {}
    found |= _trash(int(sys.argv[3])) if len(sys.argv) > 3 else {}
    asyncio.run(serve(float(sys.argv[1]) / 1000, Bucket(found)))
