"""A moto that holds requests to a policy of IAM, and remembers which rights they took.

Moto's own check knows fewer of S3's actions. What a request takes is what AWS's service
authorization reference for S3 says of its operation.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote
from xml.etree import ElementTree as ET

from tests.support.s3 import moto_app, serving

Right = tuple[str, str]
"""An action, and the ARN that it is for."""
_ARN = "arn:aws:s3:::"
_DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
_READS = {"acl": "s3:GetObjectAcl", "tagging": "s3:GetObjectTagging"}
_WRITES = {"acl": "s3:PutObjectAcl", "tagging": "s3:PutObjectTagging"}


@dataclass(slots=True)
class Policy:
    """A policy; `None` allows all. `taken` are the rights that requests took."""

    document: Mapping[str, Any] | None = None
    taken: set[Right] = field(default_factory=set)
    denied: set[Right] = field(default_factory=set)

    def allows(self, right: Right) -> bool:
        """Returns whether a statement allows an action on an ARN."""
        if self.document is None:
            return True
        action, arn = right
        return any(
            action in statement["Action"]
            and any(fnmatchcase(arn, pattern) for pattern in statement["Resource"])
            for statement in self.document["Statement"]
        )


def policy_of(path: Path, address: str) -> Mapping[str, Any]:
    """Returns the policy in a file, or the one in a page, for the checkpoint at an address."""
    bucket, _, prefix = address.removeprefix("s3://").partition("/")
    text = path.read_text()
    if path.suffix == ".md":
        (text,) = (
            one for one in re.findall("```json\n(.*?)```", text, re.DOTALL) if "Statement" in one
        )
    text = text.replace("BUCKET", bucket).replace("CHECKPOINT", prefix)
    document: Mapping[str, Any] = json.loads(text)
    return document


def rights(
    method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
) -> set[Right]:
    """Returns what a request to S3, with the bucket in its path, takes."""
    bucket, _, key = path.lstrip("/").partition("/")
    asked = parse_qs(query, keep_blank_values=True)
    if not key:
        return _of_bucket(method, bucket, asked, body)
    arn = f"{_ARN}{bucket}/{key}"
    if method in ("GET", "HEAD"):
        return {(next((_READS[name] for name in _READS if name in asked), "s3:GetObject"), arn)}
    if method == "DELETE":
        return {("s3:AbortMultipartUpload" if "uploadId" in asked else "s3:DeleteObject", arn)}
    named = next((_WRITES[name] for name in _WRITES if name in asked), None)
    return {(named, arn)} if named else _of_content(arn, headers)


def _of_bucket(method: str, bucket: str, asked: Mapping[str, Any], body: bytes) -> set[Right]:
    if method == "POST" and "delete" in asked:
        keys = [one.text for one in ET.fromstring(body).iter() if one.tag.endswith("Key")]  # noqa: S314 -- our own
        return {("s3:DeleteObject", f"{_ARN}{bucket}/{key}") for key in keys}
    if "ownershipControls" in asked:
        return {("s3:GetBucketOwnershipControls", _ARN + bucket)}
    return {("s3:ListBucket" if method in ("GET", "HEAD") else "s3:CreateBucket", _ARN + bucket)}


def _of_content(arn: str, headers: Mapping[str, str]) -> set[Right]:
    """Returns what a PUT or POST of content takes, or a copy."""
    found = {("s3:PutObject", arn)}
    if "x-amz-tagging" in headers:
        found.add(("s3:PutObjectTagging", arn))
    if any(name == "x-amz-acl" or name.startswith("x-amz-grant-") for name in headers):
        found.add(("s3:PutObjectAcl", arn))
    if source := headers.get("x-amz-copy-source"):
        found.add(("s3:GetObject", _ARN + unquote(source).lstrip("/")))
    return found


@contextmanager
def guarded(policy: Policy) -> Iterator[str]:
    """Runs a moto behind a policy, which may be changed meanwhile; yields its address."""
    with serving(_Guard(moto_app(), policy)) as url:
        yield url


class _Guard:
    def __init__(self, app: Callable[..., Any], policy: Policy) -> None:
        self._app, self._policy = app, policy

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Any:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = BytesIO(body)
        headers = {
            name.removeprefix("HTTP_").replace("_", "-").lower(): value
            for name, value in environ.items()
            if name.startswith("HTTP_")
        }
        path = environ["PATH_INFO"].encode("latin-1").decode()
        taken = rights(environ["REQUEST_METHOD"], path, environ["QUERY_STRING"], headers, body)
        self._policy.taken |= taken
        denied = {right for right in taken if not self._policy.allows(right)}
        if denied:
            self._policy.denied |= denied
            start("403 Forbidden", [("Content-Type", "application/xml")])
            return [b"" if environ["REQUEST_METHOD"] == "HEAD" else _DENIED]
        return self._app(environ, start)
