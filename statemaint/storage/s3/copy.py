"""Copies of objects, made by the server, with their settings: the bucket gives a copy its own."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from statemaint.storage.s3.bucket import Bucket
from statemaint.storage.s3.errors import S3Error, is_unsupported
from statemaint.storage.s3.put import must_be_absent, put
from statemaint.storage.s3.settings import Params, encryption_of, ensure_tags, kept, read_tags
from statemaint.storage.s3.upload import multipart


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
    must_be_absent(bucket, to)  # not every server supports If-None-Match for copies
    params = dict(encryption_of(original).encryption if like is None else like)
    if like is not None and ("Tagging" in like or original.get("TagCount")):
        params["TaggingDirective"] = "REPLACE"
    if original["ContentLength"] > bucket.options.copy_limit or (
        copy_whole(bucket, path, to, original["ETag"], params) is None
    ):
        _copy_in_parts(bucket, path, to, original, like)


def copy_whole(bucket: Bucket, path: str, to: str, etag: str, params: Params) -> str | None:
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
        put(bucket, to, b"", **params)
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

    def jobs(upload: str) -> Iterator[Callable[[], dict[str, Any]]]:
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
