"""Objects that are larger than a part: uploaded while their chunks come, copied by the server."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from statemaint.errors import StorageError
from statemaint.storage.s3_ahead import in_order
from statemaint.storage.s3_bucket import Bucket, content_md5
from statemaint.storage.s3_errors import S3Error, is_unsupported
from statemaint.storage.s3_put import PRECONDITION_FAILED, must_be_absent, put, taken
from statemaint.storage.s3_settings import encryption_of, kept, read_tags

# S3 takes 10,000 parts: after each so many they grow, which allows for 440 GiB.
_SAME_SIZE = 1000


def in_parts(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yields the same bytes in parts of a size, the last of which may be smaller."""
    waiting = bytearray()
    number = 0
    for chunk in chunks:
        waiting += chunk
        while len(waiting) >= (wanted := size * (1 + number // _SAME_SIZE)):
            yield bytes(waiting[:wanted])
            del waiting[:wanted]
            number += 1
    if waiting:
        yield bytes(waiting)


def upload(
    bucket: Bucket,
    path: str,
    parts: Iterable[bytes],
    params: Mapping[str, object],
    *,
    new: bool,
    exclusive: bool,
) -> None:
    """Uploads an object, in memory for a few parts only; a failure leaves nothing of it.

    Args:
        bucket: where to.
        path: whose object.
        parts: its content.
        params: what else it has.
        new: it must not be there.
        exclusive: whether the server knows `If-None-Match`.

    Raises:
        AlreadyExistsError: when it must not be there and is.
    """

    def send(upload: str, number: int, content: bytes) -> dict[str, Any]:
        return bucket.call_object(
            "upload_part", path, UploadId=upload, PartNumber=number, Body=content,
            ContentMD5=content_md5(content),
        )  # fmt: skip

    def jobs(upload: str) -> Iterator[Callable[[], dict[str, Any]]]:
        return (partial(send, upload, number, part) for number, part in enumerate(parts, 1))

    _multipart(bucket, path, jobs, params, new=new, exclusive=exclusive)


def copy(
    bucket: Bucket, path: str, to: str, found: Mapping[str, Any], like: Mapping[str, object] | None
) -> None:
    """Copies an object on the server, if it is still the same and the new name is free.

    Args:
        bucket: where it is.
        path: of the object.
        to: the new name.
        found: what a HEAD said of it.
        like: what else the copy has; by default what the object has, but for its ACL.

    Raises:
        AlreadyExistsError: when the new name is taken.
    """
    must_be_absent(bucket, to)  # not every server knows If-None-Match for copies
    if found["ContentLength"] > bucket.options.copy_limit or not _copied(
        bucket, path, to, found, like
    ):
        _copy_in_parts(bucket, path, to, found, like)


def _copied(
    bucket: Bucket, path: str, to: str, found: Mapping[str, Any], like: Mapping[str, object] | None
) -> bool:
    """Copies an object whole, unless the server cannot: Ceph does not where it is encrypted."""
    params = dict(encryption_of(found).encryption if like is None else like)
    if like is not None and ("Tagging" in like or found.get("TagCount")):
        params["TaggingDirective"] = "REPLACE"
    try:
        bucket.call_object(
            "copy_object", to, CopySource=_source(bucket, path), CopySourceIfMatch=found["ETag"],
            **params,
        )  # fmt: skip
    except S3Error as error:
        if is_unsupported(error):
            return False
        raise
    return True


def _copy_in_parts(
    bucket: Bucket, path: str, to: str, found: Mapping[str, Any], like: Mapping[str, object] | None
) -> None:
    params = {**kept(found), **(_own(bucket, path, found) if like is None else like)}
    size, limit = found["ContentLength"], bucket.options.copy_limit
    if not size:
        put(bucket, to, b"", **params)
        return

    def send(upload: str, number: int) -> dict[str, Any]:
        start = limit * (number - 1)
        end = min(start + limit, size) - 1
        answer = bucket.call_object(
            "upload_part_copy", to, UploadId=upload, PartNumber=number,
            CopySource=_source(bucket, path), CopySourceIfMatch=found["ETag"],
            CopySourceRange=f"bytes={start}-{end}" if size > limit else None,
        )  # fmt: skip
        part: dict[str, Any] = answer["CopyPartResult"]
        return part

    def jobs(upload: str) -> Iterator[Callable[[], dict[str, Any]]]:
        return (partial(send, upload, number) for number in range(1, -(-size // limit) + 1))

    _multipart(bucket, to, jobs, params, new=True, exclusive=False)


def _own(bucket: Bucket, path: str, found: Mapping[str, Any]) -> Mapping[str, object]:
    """Returns what an object has and a copy in parts would not; tags that are not told are lost."""
    try:
        tags = read_tags(bucket, path)
    except S3Error as error:
        if not error.refused:
            raise
        tags = ()
    settings = replace(encryption_of(found), tags=tags)
    return {**settings.encryption, **settings.tagging}


def _source(bucket: Bucket, path: str) -> dict[str, str]:
    return {"Bucket": bucket.name, "Key": bucket.key(path)}


def _multipart(
    bucket: Bucket,
    path: str,
    jobs: Callable[[str], Iterator[Callable[[], dict[str, Any]]]],
    params: Mapping[str, object],
    *,
    new: bool,
    exclusive: bool,
) -> None:
    upload: str = bucket.call_object("create_multipart_upload", path, **params)["UploadId"]
    try:
        answers = in_order(jobs(upload), threads=bucket.options.threads)
        parts = [
            {"PartNumber": number, "ETag": answer["ETag"]}
            for number, answer in enumerate(answers, 1)
        ]
        _complete(bucket, path, upload, parts, new=new, exclusive=exclusive)
    except BaseException:  # an interrupted run must not leave parts behind either: they cost money
        with suppress(StorageError):  # what failed first is what matters
            bucket.call_object("abort_multipart_upload", path, UploadId=upload)
        raise


def _complete(
    bucket: Bucket,
    path: str,
    upload: str,
    parts: list[dict[str, Any]],
    *,
    new: bool,
    exclusive: bool,
) -> None:
    condition = {}
    if new:
        # Ceph ignores the condition at this step. What appears between the two requests is then
        # replaced, and both writers believe they won: as when Spark writes one name twice. The
        # caller reads back what is there.
        must_be_absent(bucket, path)
        condition = {"IfNoneMatch": "*"} if exclusive else {}
    try:
        bucket.call_object(
            "complete_multipart_upload", path, UploadId=upload,
            MultipartUpload={"Parts": parts}, **condition,
        )  # fmt: skip
    except S3Error as error:
        if new and error.status == PRECONDITION_FAILED:
            raise taken(path) from error
        raise
