"""Deletes many objects: in pages of keys, repeating only the keys that were refused.

Ceph checks a bulk deletion against the bucket's own ARN, which a policy on objects does not cover.
A server that denies or lacks bulk deletions gets one request for each object, once it has refused
one.
"""

import logging
from collections.abc import Sequence
from functools import partial
from http import HTTPStatus
from itertools import chain

from statemaint.errors import NotFoundError
from statemaint.storage.base import Check
from statemaint.storage.s3.bucket import Bucket
from statemaint.storage.s3.errors import THROTTLED, S3Error, is_unsupported
from statemaint.workers import in_order, nothing

# S3 accepts 1,000. One request of that size counts as 1,000 where servers limit the rate.
PAGE = 200
_WAITS_SECONDS = (0.5, 1.0, 2.0, 4.0)

Refused = tuple[str, str]
"""A path, and S3's code."""
_DENIED = "AccessDenied"

_log = logging.getLogger(__name__)


def delete_all(bucket: Bucket, paths: Sequence[str], *, before: Check = nothing) -> None:
    """Deletes objects; waits and repeats the request for those that the server was too busy for."""
    refused: list[Refused] = []
    for start in range(0, len(paths), PAGE):
        refused += _page(bucket, paths[start : start + PAGE], before)
    if refused:
        path, code = refused[0]
        words = f"access denied, {bucket.right_to_delete}" if code == _DENIED else code
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        raise S3Error(path, f"not deleted{more}: {words}", reason=code)


def _page(bucket: Bucket, paths: Sequence[str], before: Check) -> list[Refused]:
    refused = _request(bucket, paths, before)
    for wait in _WAITS_SECONDS:
        later = [path for path, code in refused if code in THROTTLED]
        if not later:
            break
        bucket.sleep(wait)
        refused = [(path, code) for path, code in refused if code not in THROTTLED]
        refused += _request(bucket, later, before)
    return refused


def _request(bucket: Bucket, paths: Sequence[str], before: Check) -> list[Refused]:
    if bucket.deletes_pages:
        before()
        try:
            return _together(bucket, paths)
        except S3Error as error:
            if error.status != HTTPStatus.FORBIDDEN and not is_unsupported(error):
                raise
            denied = error
        first = _one_by_one(bucket, paths[:1], before)
        if first:
            return [(path, first[0][1]) for path in paths]  # no right to delete at all
        bucket.deletes_pages = False
        _log.warning(
            "%s: bulk deletions are refused (%s), so each file is deleted by a request of its own; "
            "to delete 200 in one, also grant s3:DeleteObject on arn:aws:s3:::%s",
            bucket.address, denied.reason or denied.status, bucket.name,
        )  # fmt: skip
        return _one_by_one(bucket, paths[1:], before)
    return _one_by_one(bucket, paths, before)


def _together(bucket: Bucket, paths: Sequence[str]) -> list[Refused]:
    keys = [{"Key": bucket.key(path)} for path in paths]
    answer = bucket.call("delete_objects", paths[0], Delete={"Objects": keys, "Quiet": True})
    return [
        (bucket.path(refusal.get("Key", "")), refusal.get("Code", "no code"))
        for refusal in answer.get("Errors", [])
        if refusal.get("Code") != "NoSuchKey"
    ]


def _one_by_one(bucket: Bucket, paths: Sequence[str], before: Check) -> list[Refused]:
    def delete(path: str) -> list[Refused]:
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
