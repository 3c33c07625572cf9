"""Uploads objects that are larger than a part, while their chunks are produced."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from statemaint.errors import AlreadyExistsError, StorageError
from statemaint.storage.s3.bucket import Bucket, content_md5, md5
from statemaint.storage.s3.errors import S3Error
from statemaint.storage.s3.put import PRECONDITION_FAILED, head, must_be_absent
from statemaint.workers import in_order

# S3 accepts 10,000 parts. After every 1,000 the parts grow, which allows for 440 GiB.
_SAME_SIZE = 1000
_NO_UPLOAD = "NoSuchUpload"
_MD5 = re.compile("[0-9a-f]{32}")


def in_parts(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yields the same bytes in parts of a given size; the last may be smaller."""
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
    """Uploads an object, as `multipart` does, with only a few parts in memory."""

    def send(upload: str, number: int, content: bytes) -> dict[str, Any]:
        return bucket.call_object(
            "upload_part", path, UploadId=upload, PartNumber=number, Body=content,
            ContentMD5=content_md5(content),
        )  # fmt: skip

    def jobs(upload: str) -> Iterator[Callable[[], dict[str, Any]]]:
        return (partial(send, upload, number, part) for number, part in enumerate(parts, 1))

    multipart(bucket, path, jobs, params, new=new, exclusive=exclusive)


def multipart(
    bucket: Bucket,
    path: str,
    jobs: Callable[[str], Iterator[Callable[[], dict[str, Any]]]],
    params: Mapping[str, object],
    *,
    new: bool,
    exclusive: bool,
) -> None:
    """Creates an object from parts; a failure leaves no trace of it.

    Args:
        bucket: the bucket of the object.
        path: the path of the object.
        jobs: given the upload's id, the jobs that create the parts; each returns its ETag.
        params: its settings.
        new: whether it must not exist yet.
        exclusive: whether the server supports `If-None-Match`.
    """
    upload: str = bucket.call_object("create_multipart_upload", path, **params)["UploadId"]
    try:
        answers = in_order(jobs(upload), threads=bucket.options.threads)
        parts = [
            {"PartNumber": number, "ETag": answer["ETag"]}
            for number, answer in enumerate(answers, 1)
        ]
        _complete(bucket, path, upload, parts, new=new, exclusive=exclusive)
    except BaseException:  # nor may an interrupted run leave parts behind: they cost money
        with suppress(StorageError):  # the first failure is the one to report
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
        # Ceph ignores the condition at this step. An object that appears between the two requests
        # is then replaced, and both writers conclude that they won, as when Spark writes one name
        # twice. The caller reads the object back.
        must_be_absent(bucket, path)
        condition = {"IfNoneMatch": "*"} if exclusive else {}
    try:
        bucket.call_object(
            "complete_multipart_upload", path, UploadId=upload,
            MultipartUpload={"Parts": parts}, **condition,
        )  # fmt: skip
    except S3Error as error:
        repeated = error.reason == _NO_UPLOAD or error.retried or not error.refused
        if repeated and _is_complete(bucket, path, parts):
            return  # by an earlier attempt, whose answer was lost
        if new and error.status == PRECONDITION_FAILED:
            raise AlreadyExistsError(path) from error
        raise


def _is_complete(bucket: Bucket, path: str, parts: list[dict[str, Any]]) -> bool:
    """Returns whether the object consists of these very parts, as its ETag shows."""
    tags = [str(part["ETag"]).strip('"') for part in parts]
    if not all(_MD5.fullmatch(tag) for tag in tags):
        return False
    whole = f"{md5(bytes.fromhex(''.join(tags))).hexdigest()}-{len(parts)}"
    try:
        tag: str = head(bucket, path).get("ETag", "")
    except StorageError:  # the first failure is the one to report
        return False
    return tag.strip('"') == whole
