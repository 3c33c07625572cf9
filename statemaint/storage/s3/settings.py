"""The settings of an S3 object that decide who reads it: encryption, tags, and an ACL (S22).

A copy and a new object get the bucket's settings, whatever the objects around them have. The
settings of a new object are first tried on a probe object below `_statemaint/probe/`: the server's
result is known before any object appears where a query would load it.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode
from uuid import uuid4

from statemaint.errors import NotFoundError, UnreadableError
from statemaint.storage.base import PROBES
from statemaint.storage.s3.bucket import PROBE, Bucket, Params
from statemaint.storage.s3.client import md5
from statemaint.storage.s3.errors import S3Error, is_unsupported

_BY_KEY = "aws:kms"
_OWNED_BY_BUCKET = "BucketOwnerEnforced"
# The tag of a probe, which shows whether the server counts tags.
_MARK = {"Tagging": "statemaint=probe"}
_MARKED = (("statemaint", "probe"),)
_ALL_USERS = 'uri="http://acs.amazonaws.com/groups/global/AllUsers"'
_GRANTS = {
    "FULL_CONTROL": "GrantFullControl",
    "READ": "GrantRead",
    "READ_ACP": "GrantReadACP",
    "WRITE_ACP": "GrantWriteACP",
}
_READS = ("FULL_CONTROL", "READ")
_KEPT = (
    "Metadata", "ContentType", "ContentEncoding", "ContentLanguage", "ContentDisposition",
    "CacheControl",
)  # fmt: skip
# Each is small, but a long-lived process must not collect them forever.
_MOST_KNOWN = 1000
Tags = tuple[tuple[str, str], ...]
"""Sorted pairs of a key and a value."""


@dataclass(frozen=True, slots=True)
class ObjectSettings:
    """The settings of an object."""

    sse: str = ""  # how the server encrypts it; empty if it does not report that
    key: str = ""
    bucket_key: bool = False  # the bucket's own key instead of a request for each object
    owner: str = ""  # empty if there are no ACLs, and the grants are `None`
    grants: frozenset[tuple[str, str]] | None = None
    tags: Tags = ()

    @property
    def readers(self) -> frozenset[str]:
        return frozenset(who for right, who in self.grants or () if right in _READS)

    def hides(self, other: "ObjectSettings") -> str | None:
        """Returns why a reader of an object with these settings may not read one with others."""
        if why := _otherwise_encrypted(self, other):
            return why
        lost = sorted(self.readers - other.readers)
        if self.grants is not None and lost and _ALL_USERS not in other.readers:
            return f"the ACL of the other lets {lost[0]} read, and its own does not"
        if self.tags != other.tags:
            return "its tags are not those of the other, and a policy may depend on them"
        return None

    @property
    def encryption(self) -> Params:
        """Returns the parameters for this encryption; `None` is left to the bucket."""
        return {
            "ServerSideEncryption": self.sse or None,
            "SSEKMSKeyId": self.key or None,
            "BucketKeyEnabled": self.bucket_key or None,
        }

    @property
    def tagging(self) -> Params:
        # Ceph does not decode a plus as a space.
        return {"Tagging": urlencode(self.tags, quote_via=quote)} if self.tags else {}

    def granting(self, owner: str) -> Params:
        grants = {*(self.grants or ()), ("FULL_CONTROL", f'id="{owner}"')}
        grantees: dict[str, list[str]] = {}
        for right, who in sorted(grants):
            if right in _GRANTS:
                grantees.setdefault(_GRANTS[right], []).append(who)
        return {name: ",".join(whom) for name, whom in grantees.items()}


def encryption_of(answer: Mapping[str, Any]) -> ObjectSettings:
    """Returns only the encryption, as an answer about an object reports it."""
    return ObjectSettings(
        answer.get("ServerSideEncryption") or "",
        answer.get("SSEKMSKeyId") or "",
        bool(answer.get("BucketKeyEnabled")),
    )


def uses_key(params: Params) -> bool:
    return str(params.get("ServerSideEncryption") or "").startswith(_BY_KEY)


def kept(answer: Mapping[str, Any]) -> Params:
    return {name: answer[name] for name in _KEPT if answer.get(name)}


def has_acls(bucket: Bucket) -> bool:
    # Not in a bucket that owns all its objects, as a new one of AWS does. A bucket that cannot be
    # asked, or does not know the question, may have ACLs.
    try:
        answer = bucket.call("get_bucket_ownership_controls", bucket.address)
    except S3Error as error:
        if not (error.refused or is_unsupported(error)):
            raise
        return True
    rules = answer.get("OwnershipControls", {}).get("Rules", ())
    return [rule.get("ObjectOwnership") for rule in rules] != [_OWNED_BY_BUCKET]


def read_tags(bucket: Bucket, path: str) -> Tags:
    answer = _answer(bucket, "get_object_tagging", path)
    return tuple(sorted((tag["Key"], tag["Value"]) for tag in answer.get("TagSet", ())))


def ensure_tags(bucket: Bucket, path: str, tags: Tags) -> None:
    """Gives an object its tags if it has lost them: Ceph drops those of uploads in parts."""
    if tags and read_tags(bucket, path) != tags:
        pairs = [{"Key": key, "Value": value} for key, value in tags]
        bucket.call_object("put_object_tagging", path, Tagging={"TagSet": pairs})


def _answer(bucket: Bucket, operation: str, path: str) -> dict[str, Any]:
    """Returns the answer; an empty one from a server that does not support the operation."""
    try:
        return bucket.call_object(operation, path)
    except S3Error as error:
        if is_unsupported(error):
            return {}
        raise


def _grant(grant: Mapping[str, Any]) -> tuple[str, str]:
    grantee = grant["Grantee"]
    names = {"URI": "uri", "ID": "id", "EmailAddress": "emailAddress"}
    name = next((key for key in names if grantee.get(key)), "ID")
    return grant["Permission"], f'{names[name]}="{grantee.get(name, "")}"'


def _shown(settings: ObjectSettings) -> str:
    key = f" and the key {settings.key}" if settings.key else ""
    return f"{settings.sse or 'nothing'}{key}"


@dataclass(slots=True)
class Likeness:
    """Finds the parameters that give one object the settings of another; threads may share it."""

    bucket: Bucket
    writes_show: bool = True  # the answer to a write shows the encryption as that to a HEAD does
    _known: dict[str, ObjectSettings] = field(default_factory=dict)
    _tried: dict[ObjectSettings, Params] = field(default_factory=dict)
    _may_read_tags: set[str] = field(default_factory=set)
    _acls: bool | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def params(self, path: str, like: str) -> Params:
        if not self._tried:  # the first shows what need not be asked for the others
            with self._lock:
                if not self._tried:
                    return self._params(path, like)
        self.settings(path, like)  # no thread waits for another's requests
        with self._lock:
            return self._params(path, like)

    def _params(self, path: str, like: str) -> Params:
        wanted = self.settings(path, like)
        if wanted not in self._tried:
            self._tried[wanted] = self._rehearsed(path, like, wanted)
        return self._tried[wanted]

    def settings(self, path: str, like: str) -> ObjectSettings:
        """Returns the settings of the object `like`, read once; errors are about `path`."""
        settings = self._known.get(like)
        if settings is None:
            settings = self._read(path, like, like, self.bucket.shown.of(like))
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[like] = settings
        return settings

    def check(self, path: str, like: str) -> None:
        wanted, actual = self.settings(path, like), self._read(path, like, path)
        if why := wanted.hides(actual):
            raise _unreadable(path, like, why)

    def ensure(self, path: str, like: str, answer: Mapping[str, Any], *, in_parts: bool) -> None:
        # The answer is that to a HEAD of the new object, or to its write if that shows the same.
        wanted = self.settings(path, like)
        if why := _otherwise_encrypted(wanted, encryption_of(answer)):
            raise _unreadable(path, like, why)
        if in_parts:
            ensure_tags(self.bucket, path, wanted.tags)

    def _rehearsed(self, path: str, like: str, wanted: ObjectSettings) -> Params:
        params = {**wanted.encryption, **wanted.tagging}
        made = self._try(path, like, params)
        if wanted.readers - made.readers:  # another account's, or open to others than its owner
            params = {**params, **wanted.granting(made.owner)}
            made = self._try(path, like, params)
        why = wanted.hides(made)
        if not why and wanted.sse and made.encryption != wanted.encryption:
            shown = f"it would be encrypted with {_shown(made)}"  # less protected than the other
            why = f"{shown}, and the other is with {_shown(wanted)}"
        if why:
            raise _unreadable(path, like, why)
        return params

    def _try(self, path: str, like: str, params: Params) -> ObjectSettings:
        """Returns the settings that the server gives an object that is made with parameters."""
        # The name follows from the parameters, so that a process without the right to delete leaves
        # one object for all its runs. If another process deletes it meanwhile, another is used.
        name = md5(repr(sorted(params.items())).encode()).hexdigest()
        try:
            return self._try_at(f"{PROBES}/{name}", path, like, params)
        except NotFoundError:
            return self._try_at(f"{PROBES}/{uuid4()}", path, like, params)

    def _try_at(self, probe: str, path: str, like: str, params: Params) -> ObjectSettings:
        marked = not self.bucket.shown.counts_tags and "Tagging" not in params
        try:
            written = self._put_probe(probe, params, marked=marked)
        except S3Error as error:
            if not error.refused:
                raise
            why = f"the server makes no object with the settings of the other: {error.detail}"
            raise _unreadable(path, like, why) from error
        try:
            answer = self.bucket.head(probe)
            self.bucket.shown.note(probe, answer)
            self.writes_show &= encryption_of(written) == encryption_of(answer)
            made = self._read(path, like, probe, answer)
        finally:
            self.bucket.call_object("delete_object", probe)
        return replace(made, tags=()) if marked and made.tags == _MARKED else made

    def _put_probe(self, probe: str, params: Params, *, marked: bool) -> Mapping[str, Any]:
        if marked:  # with a tag, which may show whether the server counts tags
            try:
                return self.bucket.put(probe, PROBE, **params, **_MARK)
            except S3Error as error:  # without the right to write tags, say
                if not error.refused and not is_unsupported(error):
                    raise
        return self.bucket.put(probe, PROBE, **params)

    def _read(
        self, path: str, like: str, target: str, shown: Mapping[str, Any] | None = None
    ) -> ObjectSettings:
        # The HEAD is refused where the object itself may not be read.
        encryption = encryption_of(self.bucket.head(target) if shown is None else shown)
        try:
            owner, grants = self._read_acl(target)
            tags = self._read_tags(target, shown)
            return replace(encryption, owner=owner, grants=grants, tags=tags)
        except S3Error as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            why = f"the readers of {target} are unknown: {error.detail}"
            raise _unreadable(path, like, why) from error

    def _read_acl(self, target: str) -> tuple[str, frozenset[tuple[str, str]] | None]:
        if self._acls is None:
            self._acls = has_acls(self.bucket)
        acl = _answer(self.bucket, "get_object_acl", target) if self._acls else {}
        if not acl:
            return "", None
        owner = str(acl.get("Owner", {}).get("ID", ""))
        return owner, frozenset(map(_grant, acl.get("Grants", ())))

    def _read_tags(self, target: str, shown: Mapping[str, Any] | None) -> Tags:
        # No request is made if an answer shows that there are none. Without the right to read tags
        # it does not count them either, so those of one object of the operator must have been read.
        folder = "/".join(target.split("/")[:2])  # of an operator, or another at that depth
        counted = self.bucket.shown.counts_tags and folder in self._may_read_tags
        if shown is not None and counted and "TagCount" not in shown:
            return ()
        tags = read_tags(self.bucket, target)
        self._may_read_tags.add(folder)
        return tags


def _otherwise_encrypted(wanted: ObjectSettings, actual: ObjectSettings) -> str | None:
    """Returns why a reader who can decrypt one object may not decrypt the other."""
    if not actual.sse.startswith(_BY_KEY) or actual.encryption == wanted.encryption:
        return None
    return f"it is encrypted with {_shown(actual)}, and the other with {_shown(wanted)}"


def _unreadable(path: str, like: str, why: str) -> UnreadableError:
    return UnreadableError(path, f"a reader of {like} might not be able to read it: {why}")
