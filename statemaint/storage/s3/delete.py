"""Deletes many objects: in pages of keys, repeating only the keys that were refused."""

from collections.abc import Callable, Sequence

from statemaint.storage.base import nothing
from statemaint.storage.s3.bucket import Bucket
from statemaint.storage.s3.errors import THROTTLED, S3Error

# S3 accepts 1,000. One request of that size counts as 1,000 where servers limit the rate.
_PAGE = 200
_WAITS_SECONDS = (0.5, 1.0, 2.0, 4.0)

Refused = tuple[str, str]
"""A path, and S3's code."""


def delete_all(
    bucket: Bucket,
    paths: Sequence[str],
    *,
    sleep: Callable[[float], None],
    before: Callable[[], object] = nothing,
) -> None:
    """Deletes objects; waits and repeats the request for those that the server was too busy for.

    Raises:
        S3Error: naming the first refused object, the number of refused objects, and the reason.
    """
    refused: list[Refused] = []
    for start in range(0, len(paths), _PAGE):
        refused += _page(bucket, paths[start : start + _PAGE], sleep, before)
    if refused:
        path, code = refused[0]
        words = "access denied, s3:DeleteObject is not allowed" if code == "AccessDenied" else code
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        raise S3Error(path, f"not deleted{more}: {words}", reason=code)


def _page(
    bucket: Bucket,
    paths: Sequence[str],
    sleep: Callable[[float], None],
    before: Callable[[], object],
) -> list[Refused]:
    before()
    refused = _request(bucket, paths)
    for wait in _WAITS_SECONDS:
        later = [path for path, code in refused if code in THROTTLED]
        if not later:
            break
        sleep(wait)
        before()
        refused = [one for one in refused if one[1] not in THROTTLED] + _request(bucket, later)
    return refused


def _request(bucket: Bucket, paths: Sequence[str]) -> list[Refused]:
    keys = [{"Key": bucket.key(path)} for path in paths]
    answer = bucket.call("delete_objects", paths[0], Delete={"Objects": keys, "Quiet": True})
    return [
        (bucket.path(one.get("Key", "")), one.get("Code", "no code"))
        for one in answer.get("Errors", [])
        if one.get("Code") != "NoSuchKey"
    ]
