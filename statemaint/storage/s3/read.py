"""Reads an object: one GET when it fits into a part, otherwise parts that are fetched ahead.

After a seek, a new GET fetches the bytes that are read next. All parts have one ETag: an object
that is replaced during a read is an error, not a mixture.
"""

import io
import re
from collections.abc import Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, BinaryIO

from statemaint.errors import StorageError, Superseded
from statemaint.listing import Entry
from statemaint.storage.base import file_time, must_be_small
from statemaint.storage.s3.bucket import Bucket, shown_by
from statemaint.storage.s3.errors import S3Error
from statemaint.workers import in_order

if TYPE_CHECKING:
    from collections.abc import Buffer  # type: ignore[attr-defined]

_PIECE = 256 * 1024
# A connection that breaks this often without a byte in between ends the read.
_MOST_BREAKS = 5
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


def entry_of(path: str, size: int, answer: Mapping[str, Any]) -> Entry:
    """Returns the entry that boto3's answer shows of an object; times are in whole seconds."""
    # Some servers leave the quotes out of some answers.
    tag = answer.get("ETag", "").strip('"') or None
    return Entry(path, size, file_time(float(int(answer["LastModified"].timestamp()))), tag)


def open_object(bucket: Bucket, path: str) -> BinaryIO:
    """Opens an object for reading, with its `entry`; `read(n)` is shorter only at its end."""
    opened, first = _quickly(bucket, path) or _surely(bucket, path)
    if len(first) == opened.size:  # all of it is here, wherever the caller seeks
        stream: BinaryIO = io.BytesIO(first)
    else:
        stream = io.BufferedReader(_Raw(opened, opened.parts(first)), _PIECE)
    stream.entry = opened.entry  # type: ignore[attr-defined]
    return stream


def read_object(bucket: Bucket, path: str, *, small: bool = False) -> tuple[bytes, str]:
    opened, first = _quickly(bucket, path) or _surely(bucket, path)
    if len(first) == opened.size:
        return first, opened.etag
    if small:
        must_be_small(opened.size, path)
    return b"".join(opened.parts(first)), opened.etag


@dataclass(frozen=True, slots=True)
class _Object:
    bucket: Bucket
    path: str
    size: int
    etag: str
    entry: Entry | None = None  # as the answer to the read has it

    def parts(self, first: bytes, start: int = 0) -> Generator[bytes]:
        """Yields the content from a byte on, in parts; the first may already have been read."""
        if first:
            yield first
        options = self.bucket.options
        starts = range(start + len(first), self.size, options.part_size)
        jobs = (partial(self.fetch, at, min(at + options.part_size, self.size)) for at in starts)
        yield from in_order(jobs, threads=options.threads)

    def fetch(self, start: int, stop: int, body: Any = None) -> bytes:
        """Returns the bytes of a range; after a broken connection, requests the rest."""
        content = bytearray()
        breaks = 0
        while len(content) < stop - start:
            before = len(content)
            error = _drain(body or self._get(start + before, stop), content, stop - start)
            body = None
            breaks = 0 if len(content) > before else breaks + 1
            if breaks == _MOST_BREAKS:
                raise S3Error(self.path, f"the connection broke {breaks} times") from error
        return bytes(content)

    def _get(self, start: int, stop: int) -> Any:
        wanted = f"bytes={start}-{stop - 1}"
        try:
            answer = self.bucket.call_object(
                "get_object", self.path, Range=wanted, IfMatch=self.etag
            )
        except S3Error as error:
            if error.status == HTTPStatus.PRECONDITION_FAILED:
                raise Superseded(self.path, "was replaced while it was read") from error
            raise
        if _span(answer.get("ContentRange", "")) != (start, stop, self.size):
            answer["Body"].close()
            raise StorageError(self.path, f"the server did not answer with the range {wanted}")
        return answer["Body"]


def _quickly(bucket: Bucket, path: str) -> tuple[_Object, bytes] | None:
    """Returns an object and its first part, if it can be read without boto3's layers."""
    most = bucket.options.part_size
    answer = bucket.shared.read(path, most, bucket)
    if answer is None or "etag" not in answer.headers:
        return None
    headers, length = answer.headers, len(answer.content)
    start, stop, size = _span(headers.get("content-range", "")) or (0, length, length)
    if start or stop != length or stop != min(size, most):
        return None
    bucket.shown.note(path, shown_by(headers))
    entry, tag = None, headers["etag"]
    with suppress(ValueError):  # without a time there is no entry
        modified = parsedate_to_datetime(headers.get("last-modified", ""))
        entry = entry_of(path, size, {"ETag": tag, "LastModified": modified})
    return _Object(bucket, path, size, tag, entry), answer.content


def _surely(bucket: Bucket, path: str) -> tuple[_Object, bytes]:
    wanted = f"bytes=0-{bucket.options.part_size - 1}"
    try:
        answer = bucket.call_object("get_object", path, Range=wanted)
    except S3Error as error:
        if error.status != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        # Of an empty object. The refusal has no ETag.
        answer = bucket.call_object("head_object", path)
        if answer["ContentLength"]:
            raise Superseded(path, "was replaced while it was read") from error
        return _Object(bucket, path, 0, answer["ETag"], entry_of(path, 0, answer)), b""
    part = _span(answer.get("ContentRange", ""))
    start, stop, size = part or (0, answer["ContentLength"], answer["ContentLength"])
    if start or not 0 <= stop <= min(size, bucket.options.part_size):
        answer["Body"].close()
        raise StorageError(path, f"the server did not answer with the range {wanted}")
    bucket.shown.note(path, answer)
    opened = _Object(bucket, path, size, answer["ETag"], entry_of(path, size, answer))
    return opened, opened.fetch(0, stop, answer["Body"])


def _span(content_range: str) -> tuple[int, int, int] | None:
    # The first byte of the answer, the byte after its last, and the object's size.
    match = _RANGE.fullmatch(content_range)
    return (int(match[1]), int(match[2]) + 1, int(match[3])) if match else None


def _drain(stream: Any, content: bytearray, wanted: int) -> Exception | None:
    from botocore.exceptions import BotoCoreError
    from urllib3.exceptions import HTTPError

    try:
        while piece := stream.read(min(_PIECE, max(1, wanted - len(content)))):
            content += piece
            if len(content) >= wanted:
                break
    except (BotoCoreError, HTTPError) as error:  # the latter of TLS
        return error
    finally:
        stream.close()
    return None


class _Raw(io.RawIOBase):
    """An object's parts as a stream, which ends only when all parts have been read."""

    def __init__(self, opened: _Object, parts: Generator[bytes]) -> None:
        self._object, self._parts = opened, parts
        self._at = 0
        self._part = memoryview(b"")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._object.size}[whence]
        if start + offset != self._at:
            self._at = start + offset
            self._parts.close()
            self._parts, self._part = self._object.parts(b"", self._at), memoryview(b"")
        return self._at

    def readinto(self, buffer: "Buffer") -> int:
        target = memoryview(buffer).cast("B")
        if not self._part:
            self._part = memoryview(next(self._parts, b""))
        count = min(len(target), len(self._part))
        rest = self._object.size - self._at
        if target and not count and rest > 0:  # a read after one that failed
            raise StorageError(self._object.path, f"its last {rest} bytes were not read")
        target[:count] = self._part[:count]
        self._part = self._part[count:]
        self._at += count
        return count

    def close(self) -> None:
        self._parts.close()
        super().close()
