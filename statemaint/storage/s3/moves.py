"""Moves objects: a copy of each, made by the server, then a deletion.

A copy is made only from the listed version of its object: the condition is the ETag of the listing,
so that no HEAD precedes it. It keeps metadata and tags, and loses the ACL.

The server gives a copy the bucket's encryption unless the request names one, and no listing shows
an object's own. It is read from the oldest and the newest object of a page: all objects between two
times with the same encryption have it too, unless it was changed and changed back meanwhile. This
is remembered, so that further pages and stores need none of it again. If the two differ, each
object of the page is asked.

Whether a new name is free is not asked when many objects are moved. The caller is the only one that
creates objects there, and knows of all that it has created.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from threading import BoundedSemaphore, Lock
from typing import Any
from urllib.parse import parse_qsl

from statemaint.errors import NotFoundError, StorageError, Superseded
from statemaint.listing import Entry
from statemaint.storage.base import Check, Moved, Moves
from statemaint.storage.s3.bucket import Bucket
from statemaint.storage.s3.client import CONNECTIONS
from statemaint.storage.s3.delete import PAGE, delete_all
from statemaint.storage.s3.errors import S3Error, is_unsupported
from statemaint.storage.s3.settings import (
    Params,
    encryption_of,
    ensure_tags,
    kept,
    read_tags,
    uses_key,
)
from statemaint.storage.s3.write import Job, multipart
from statemaint.workers import in_order

_Failure = StorageError | Superseded


class Mover:
    """The moves in one bucket; threads may share it."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._slots = BoundedSemaphore(CONNECTIONS)
        self._lock = Lock()
        self._known: tuple[float, float, Params] | None = None

    def move_all(self, moves: Moves, *, before: Check, after: Moved) -> None:
        """Moves objects page by page; the copies of a page are made several at a time.

        After a failure no further copy is made, and the objects that were copied are deleted under
        their old names; after a `Superseded` none is, since the query may have been rewound.
        """
        for start in range(0, len(moves), PAGE):
            page = moves[start : start + PAGE]
            self._move_page(page, before)
            for entry, _ in page:
                after(entry)

    def _move_page(self, moves: Moves, before: Check) -> None:
        encryption = self._encryption([entry for entry, _ in moves])
        failures: list[_Failure] = []
        jobs = (partial(self._copied, *move, encryption, failures) for move in moves)
        copied = [path for path in in_order(jobs, threads=self._bucket.options.threads) if path]
        replaced = next((error for error in failures if isinstance(error, Superseded)), None)
        if replaced:
            raise replaced
        if failures:
            with suppress(StorageError):  # the first failure is the one to report
                delete_all(self._bucket, copied, before=before)
            raise failures[0]
        delete_all(self._bucket, copied, before=before)

    def _copied(
        self, entry: Entry, to: str, encryption: Params | None, failures: list[_Failure]
    ) -> str | None:
        """Copies an object; returns its path if there is a copy now, and adds to the failures."""
        with self._slots:
            try:
                if not failures:
                    self._copy(entry, to, encryption)
                    return entry.path
            except NotFoundError:
                pass
            except (StorageError, Superseded) as error:
                failures.append(error)
        return None

    def _copy(self, entry: Entry, to: str, encryption: Params | None) -> None:
        bucket, path, tag = self._bucket, entry.path, entry.tag
        try:
            if tag is None or encryption is None or entry.size > bucket.options.copy_limit:
                made = None
            else:
                made = _copy_whole(bucket, path, to, f'"{tag}"', encryption)
            if made is not None and _is_same(made.strip('"'), tag or "", encryption or {}):
                return
            original = bucket.head(path)
            if tag and original["ETag"].strip('"') != tag:
                raise _replaced(entry)
            if made is None:
                copy(bucket, path, to, original, None)
            else:
                own = encryption_of(original).encryption
                _copy_whole(bucket, path, to, original["ETag"], own)
        except S3Error as error:
            if error.status != HTTPStatus.PRECONDITION_FAILED:
                raise
            raise _replaced(entry) from error

    def _encryption(self, entries: Sequence[Entry]) -> Params | None:
        """Returns the encryption of all objects of a page; `None` if they may have different ones.

        Only objects older or newer than those known so far are asked for theirs.
        """
        if any(entry.modified is None for entry in entries):
            return None
        with self._lock:
            for entry in (min(entries, key=_time), max(entries, key=_time)):
                if not self._learned(entry):
                    return None
            return self._known[2] if self._known else None

    def _learned(self, entry: Entry) -> bool:
        """Extends the known times to an object's, and returns whether it has their encryption."""
        time, known = _time(entry), self._known
        if known and known[0] <= time <= known[1]:
            return True
        try:
            encryption = encryption_of(self._bucket.head(entry.path)).encryption
        except NotFoundError:
            return False
        first, last, shared = known or (time, time, encryption)
        if encryption == shared:
            self._known = min(first, time), max(last, time), shared
        return encryption == shared


def _is_same(made: str, listed: str, encryption: Params) -> bool:
    """Returns whether a copy is known to be of the listed object, with the object's encryption.

    Without a key in the encryption, an ETag is the MD5 of the content. If the copy has another one,
    the original is encrypted with a key after all, or the server ignores the condition. An ETag of
    an upload in parts, or with a key, shows nothing; then the server's condition has to suffice.
    """
    return made in ("", listed) or "-" in listed or uses_key(encryption)


def _time(entry: Entry) -> float:
    return entry.modified or 0.0


def _replaced(entry: Entry) -> Superseded:
    return Superseded(entry.path, "was replaced since it was listed")


def copy(
    bucket: Bucket, path: str, to: str, original: Mapping[str, Any], like: Params | None
) -> None:
    """Copies an object on the server, if it is still the same and the new name is free.

    Args:
        bucket: the bucket of the object.
        path: the path of the object.
        to: the new name.
        original: the answer to a HEAD of the object.
        like: the settings of the copy; by default those of the object, except its ACL.
    """
    bucket.must_be_absent(to)  # not every server supports If-None-Match for copies
    params = dict(encryption_of(original).encryption if like is None else like)
    if like is not None and ("Tagging" in like or original.get("TagCount")):
        params["TaggingDirective"] = "REPLACE"
    if original["ContentLength"] > bucket.options.copy_limit or (
        _copy_whole(bucket, path, to, original["ETag"], params) is None
    ):
        _copy_in_parts(bucket, path, to, original, like)


def _copy_whole(bucket: Bucket, path: str, to: str, etag: str, params: Params) -> str | None:
    """Copies an object in one request; `None` if the server cannot: Ceph, if it is encrypted.

    The object must still have the ETag. Returns that of the copy; empty if the server does not
    report it.
    """
    try:
        answer = bucket.call_object(
            "copy_object", to, CopySource=_source(bucket, path), CopySourceIfMatch=etag, **params
        )
    except S3Error as error:
        if is_unsupported(error):
            return None
        raise
    return str(answer.get("CopyObjectResult", {}).get("ETag", ""))


def _copy_in_parts(
    bucket: Bucket, path: str, to: str, original: Mapping[str, Any], like: Params | None
) -> None:
    params = {**kept(original), **(_own(bucket, path, original) if like is None else like)}
    tags = parse_qsl(str(params.get("Tagging", "")), keep_blank_values=True)
    size, limit = original["ContentLength"], bucket.options.copy_limit
    if not size:
        bucket.put(to, b"", **params)
        return

    def send(upload: str, number: int) -> dict[str, Any]:
        start = limit * (number - 1)
        end = min(start + limit, size) - 1
        answer = bucket.call_object(
            "upload_part_copy", to, UploadId=upload, PartNumber=number,
            CopySource=_source(bucket, path), CopySourceIfMatch=original["ETag"],
            CopySourceRange=f"bytes={start}-{end}" if size > limit else None,
        )  # fmt: skip
        part: dict[str, Any] = answer["CopyPartResult"]
        return part

    def jobs(upload: str) -> Iterator[Job]:
        return (partial(send, upload, number) for number in range(1, -(-size // limit) + 1))

    multipart(bucket, to, jobs, params, new=True, exclusive=False)
    ensure_tags(bucket, to, tuple(sorted(tags)))


def _own(bucket: Bucket, path: str, original: Mapping[str, Any]) -> Params:
    """Returns the settings that a copy in parts would lose; tags that cannot be read are lost."""
    try:
        tags = read_tags(bucket, path)
    except S3Error as error:
        if not error.refused:
            raise
        tags = ()
    settings = replace(encryption_of(original), tags=tags)
    return {**settings.encryption, **settings.tagging}


def _source(bucket: Bucket, path: str) -> dict[str, str]:
    return {"Bucket": bucket.name, "Key": bucket.key(path)}
