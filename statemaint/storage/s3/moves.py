"""Deletes many objects, and moves them: a copy of each, made by the server, then a deletion.

A copy is made only from the listed version of its object: the condition is the ETag of the listing,
so that no HEAD precedes it. It keeps metadata and tags, and loses the ACL.

The server gives a copy the bucket's encryption unless the request names one, and no listing shows
an object's own. It is read from the oldest and the newest object of a page: all objects between two
times with the same encryption have it too, unless it was changed and changed back meanwhile. This
is remembered, so that further pages and stores need none of it again. If the two differ, each
object of the page is asked.

Whether a new name is free is not asked when many objects are moved. The caller is the only one that
creates objects there, and knows of all that it has created.

Deletions are sent in pages of keys, and only the keys that were refused are repeated. Ceph checks a
bulk deletion against the bucket's own ARN, which a policy on objects does not cover. A server that
denies or lacks bulk deletions gets one request for each object, once it has refused one.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from itertools import chain
from threading import BoundedSemaphore, Lock
from typing import Any
from urllib.parse import parse_qsl

from statemaint.errors import NotFoundError, StorageError, Superseded
from statemaint.listing import Entry
from statemaint.storage.base import Check, Moved, Moves
from statemaint.storage.s3.bucket import Bucket, Params
from statemaint.storage.s3.client import CONNECTIONS
from statemaint.storage.s3.errors import THROTTLED, S3Error, is_unsupported
from statemaint.storage.s3.settings import encryption_of, ensure_tags, kept, read_tags, uses_key
from statemaint.storage.s3.write import Job, multipart
from statemaint.workers import in_order

# S3 accepts 1,000. One request of that size counts as 1,000 where servers limit the rate.
_PAGE = 200
_WAITS_SECONDS = (0.5, 1.0, 2.0, 4.0)

_Refused = tuple[str, str]
"""A path, and S3's code."""

_log = logging.getLogger(__name__)


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
        for start in range(0, len(moves), _PAGE):
            page = moves[start : start + _PAGE]
            self._move_page(page, before)
            for entry, _ in page:
                after(entry)

    def _move_page(self, moves: Moves, before: Check) -> None:
        encryption = self._encryption([entry for entry, _ in moves])
        failures: list[StorageError | Superseded] = []

        def copied_path(entry: Entry, to: str) -> str | None:
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

        jobs = (partial(copied_path, *move) for move in moves)
        copied = [path for path in in_order(jobs, threads=self._bucket.options.threads) if path]
        replaced = next((error for error in failures if isinstance(error, Superseded)), None)
        if replaced:
            raise replaced
        if failures:
            with suppress(StorageError):  # the first failure is the one to report
                delete_all(self._bucket, copied, before=before)
            raise failures[0]
        delete_all(self._bucket, copied, before=before)

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
        """Returns the encryption of all objects of a page; `None` if it may not be the same."""
        dated = [(entry.modified, entry.path) for entry in entries if entry.modified is not None]
        if len(dated) < len(entries):
            return None
        with self._lock:
            alike = all(self._learned(time, path) for time, path in (min(dated), max(dated)))
            return self._known[2] if self._known and alike else None

    def _learned(self, time: float, path: str) -> bool:
        """Extends the known times to an object's, and returns whether it has their encryption."""
        known = self._known
        if known and known[0] <= time <= known[1]:
            return True
        try:
            encryption = encryption_of(self._bucket.head(path)).encryption
        except NotFoundError:
            return False
        first, last, shared = known or (time, time, encryption)
        if encryption == shared:
            self._known = min(first, time), max(last, time), shared
        return encryption == shared


def _is_same(made: str, listed: str, encryption: Params) -> bool:
    """Returns whether a copy is known to be of the listed object, with the object's encryption."""
    # Without a key in the encryption, an ETag is the MD5 of the content. If the copy has another
    # one, the original is encrypted with a key after all, or the server ignores the condition. An
    # ETag of an upload in parts, or with a key, shows nothing: the condition has to suffice.
    return made in ("", listed) or "-" in listed or uses_key(encryption)


def _replaced(entry: Entry) -> Superseded:
    return Superseded(entry.path, "was replaced since it was listed")


def copy(
    bucket: Bucket, path: str, to: str, original: Mapping[str, Any], like: Params | None
) -> None:
    """Copies an object on the server, if it is still the same and the new name is free."""
    # `original` is the answer to a HEAD of the object, `like` the settings of the copy: by default
    # those of the object, except its ACL.
    bucket.must_be_absent(to)  # not every server supports If-None-Match for copies
    params = dict(encryption_of(original).encryption if like is None else like)
    if like is not None and ("Tagging" in like or original.get("TagCount")):
        params["TaggingDirective"] = "REPLACE"
    if original["ContentLength"] > bucket.options.copy_limit or (
        _copy_whole(bucket, path, to, original["ETag"], params) is None
    ):
        _copy_in_parts(bucket, path, to, original, like)


def _copy_whole(bucket: Bucket, path: str, to: str, etag: str, params: Params) -> str | None:
    # Returns the ETag of the copy; empty if it is not reported, and `None` if the server cannot
    # copy the object: Ceph, if it is encrypted.
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

    def send(upload: str, number: int) -> Any:
        start = limit * (number - 1)
        end = min(start + limit, size) - 1
        return bucket.call_object(
            "upload_part_copy", to, UploadId=upload, PartNumber=number,
            CopySource=_source(bucket, path), CopySourceIfMatch=original["ETag"],
            CopySourceRange=f"bytes={start}-{end}" if size > limit else None,
        )["CopyPartResult"]  # fmt: skip

    def jobs(upload: str) -> Iterator[Job]:
        return (partial(send, upload, number) for number in range(1, -(-size // limit) + 1))

    multipart(bucket, to, jobs, params, condition={})
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


def delete_all(bucket: Bucket, paths: Sequence[str], *, before: Check) -> None:
    """Deletes objects; waits and repeats the request for those that the server was too busy for."""
    refused: list[_Refused] = []
    for start in range(0, len(paths), _PAGE):
        refused += _page(bucket, paths[start : start + _PAGE], before)
    if refused:
        path, code = refused[0]
        right = f"s3:DeleteObject is not allowed; grant it on arn:aws:s3:::{bucket.name}"
        words = f"access denied, {right}/{bucket.key('*')}" if code == "AccessDenied" else code
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        raise S3Error(path, f"not deleted{more}: {words}", reason=code)


def _page(bucket: Bucket, paths: Sequence[str], before: Check) -> list[_Refused]:
    refused = _request(bucket, paths, before)
    for wait in _WAITS_SECONDS:
        later = [path for path, code in refused if code in THROTTLED]
        if not later:
            break
        bucket.sleep(wait)
        refused = [(path, code) for path, code in refused if code not in THROTTLED]
        refused += _request(bucket, later, before)
    return refused


def _request(bucket: Bucket, paths: Sequence[str], before: Check) -> list[_Refused]:
    if bucket.deletes_pages:
        before()
        try:
            return _together(bucket, paths)
        except S3Error as error:
            if error.status != HTTPStatus.FORBIDDEN and not is_unsupported(error):
                raise
            denied = error
        if first := _one_by_one(bucket, paths[:1], before):
            return [(path, first[0][1]) for path in paths]  # no right to delete at all
        bucket.deletes_pages = False
        _log.warning(
            "%s: bulk deletions are refused (%s), so each file is deleted by a request of its own; "
            "to delete 200 in one, also grant s3:DeleteObject on arn:aws:s3:::%s",
            bucket.address, denied.reason or denied.status, bucket.name,
        )  # fmt: skip
        paths = paths[1:]
    return _one_by_one(bucket, paths, before)


def _together(bucket: Bucket, paths: Sequence[str]) -> list[_Refused]:
    keys = [{"Key": bucket.key(path)} for path in paths]
    answer = bucket.call("delete_objects", paths[0], Delete={"Objects": keys, "Quiet": True})
    return [
        (bucket.path(refusal.get("Key", "")), refusal.get("Code", "no code"))
        for refusal in answer.get("Errors", [])
        if refusal.get("Code") != "NoSuchKey"
    ]


def _one_by_one(bucket: Bucket, paths: Sequence[str], before: Check) -> list[_Refused]:
    def delete(path: str) -> list[_Refused]:
        before()
        try:
            bucket.call_object("delete_object", path)
        except NotFoundError:
            return []
        except S3Error as error:
            if not error.reason:
                raise
            return [(path, error.reason)]
        return []

    jobs = (partial(delete, path) for path in paths)
    return [*chain.from_iterable(in_order(jobs, threads=bucket.options.threads))]
