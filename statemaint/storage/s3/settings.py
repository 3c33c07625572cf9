"""The settings of an S3 object that decide who reads it: encryption, tags, and an ACL (S22).

A copy and a new object get the bucket's settings, whatever the objects around them have. The
settings of a new object are first tried on a probe object below `_statemaint/probe/`: the server's
result is known before any object appears where a query would load it.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode
from uuid import uuid4

from statemaint.errors import NotFoundError, UnreadableError
from statemaint.storage.s3.bucket import Bucket, content_md5, md5
from statemaint.storage.s3.errors import FORBIDDEN, S3Error, is_unsupported
from statemaint.storage.s3.put import head

Params = Mapping[str, object]
_BY_KEY = "aws:kms"
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


@dataclass(frozen=True, slots=True)
class ObjectSettings:
    """The settings of an object.

    Attributes:
        sse: how the server encrypts it; empty if the server does not report it.
        key: the key, if one is named.
        bucket_key: whether the bucket's own key is used instead of a request for each object.
        owner: the account that owns it; empty if there are no ACLs.
        grants: pairs of a permission and its grantee; `None` if there are no ACLs.
        tags: its tags, sorted.
    """

    sse: str = ""
    key: str = ""
    bucket_key: bool = False
    owner: str = ""
    grants: frozenset[tuple[str, str]] | None = None
    tags: tuple[tuple[str, str], ...] = ()

    @property
    def readers(self) -> frozenset[str]:
        """Returns the grantees that the ACL lets read."""
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
        """Returns the parameter that gives an object these tags."""
        # Ceph does not decode a plus as a space.
        return {"Tagging": urlencode(self.tags, quote_via=quote)} if self.tags else {}

    def granting(self, owner: str) -> Params:
        """Returns the parameters that give an object this ACL, and its owner full control."""
        grants = {*(self.grants or ()), ("FULL_CONTROL", f'id="{owner}"')}
        grantees: dict[str, list[str]] = {}
        for right, who in sorted(grants):
            if right in _GRANTS:
                grantees.setdefault(_GRANTS[right], []).append(who)
        return {name: ",".join(whom) for name, whom in grantees.items()}


def encryption_of(answer: Mapping[str, Any]) -> ObjectSettings:
    """Returns the encryption that an answer about an object reports, and no other settings."""
    return ObjectSettings(
        answer.get("ServerSideEncryption") or "",
        answer.get("SSEKMSKeyId") or "",
        bool(answer.get("BucketKeyEnabled")),
    )


def uses_key(params: Params) -> bool:
    """Returns whether an object with these parameters is encrypted with a key of its own."""
    return str(params.get("ServerSideEncryption") or "").startswith(_BY_KEY)


def kept(answer: Mapping[str, Any]) -> Params:
    """Returns the parameters that keep an object's metadata when it is rewritten."""
    return {name: answer[name] for name in _KEPT if answer.get(name)}


def read_settings(bucket: Bucket, path: str) -> ObjectSettings:
    """Returns the settings of an object.

    Raises:
        NotFoundError: when there is no such object.
        S3Error: when they cannot be read.
    """
    encryption = encryption_of(head(bucket, path))
    acl = _answer(bucket, "get_object_acl", path)
    return ObjectSettings(
        encryption.sse,
        encryption.key,
        encryption.bucket_key,
        owner=str(acl.get("Owner", {}).get("ID", "")) if acl else "",
        grants=frozenset(_grant(one) for one in acl.get("Grants", ())) if acl else None,
        tags=read_tags(bucket, path),
    )


def read_tags(bucket: Bucket, path: str) -> tuple[tuple[str, str], ...]:
    """Returns the tags of an object; none if the server does not support tags.

    Raises:
        NotFoundError: when there is no such object.
        S3Error: when they cannot be read.
    """
    answer = _answer(bucket, "get_object_tagging", path) or {}
    return tuple(sorted((one["Key"], one["Value"]) for one in answer.get("TagSet", ())))


def ensure_tags(bucket: Bucket, path: str, tags: tuple[tuple[str, str], ...]) -> None:
    """Gives an object its tags if it has lost them: Ceph drops those of uploads in parts.

    Raises:
        S3Error: when the tags cannot be read or set.
    """
    if tags and read_tags(bucket, path) != tags:
        pairs = [{"Key": key, "Value": value} for key, value in tags]
        bucket.call_object("put_object_tagging", path, Tagging={"TagSet": pairs})


def _answer(bucket: Bucket, operation: str, path: str) -> dict[str, Any] | None:
    """Returns the answer; `None` from a server that does not support the operation."""
    try:
        return bucket.call_object(operation, path)
    except S3Error as error:
        if is_unsupported(error):
            return None
        raise


def _grant(grant: Mapping[str, Any]) -> tuple[str, str]:
    grantee = grant["Grantee"]
    names = {"URI": "uri", "ID": "id", "EmailAddress": "emailAddress"}
    name = next((one for one in names if grantee.get(one)), "ID")
    return grant["Permission"], f'{names[name]}="{grantee.get(name, "")}"'


def _shown(settings: ObjectSettings) -> str:
    key = f" and the key {settings.key}" if settings.key else ""
    return f"{settings.sse or 'nothing'}{key}"


@dataclass(slots=True)
class Likeness:
    """Finds the parameters that give one object the settings of another; threads may share it."""

    bucket: Bucket
    _known: dict[str, ObjectSettings] = field(default_factory=dict)
    _tried: dict[ObjectSettings, Params] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def params(self, path: str, like: str) -> Params:
        """Returns the parameters that give a new object the settings of an existing one.

        Raises:
            NotFoundError: when the existing object is missing.
            UnreadableError: when a reader of the existing object may not read the new one.
            S3Error: when the server fails.
        """
        wanted = self.settings(path, like)
        with self._lock:
            if wanted not in self._tried:
                self._tried[wanted] = self._rehearsed(path, like, wanted)
            return self._tried[wanted]

    def settings(self, path: str, like: str) -> ObjectSettings:
        """Returns the settings of an object, which are read once.

        Args:
            path: the path of the object that gets the same settings, for errors.
            like: the path of the object.

        Raises:
            NotFoundError: when the object does not exist.
            UnreadableError: when this process has no right to read the settings.
        """
        settings = self._known.get(like)
        if settings is None:
            settings = self._read(path, like, like)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[like] = settings
        return settings

    def check(self, path: str, like: str) -> None:
        """Checks that every reader of one object can read another.

        Raises:
            NotFoundError: when either object does not exist.
            UnreadableError: when a reader may not.
        """
        wanted, actual = self.settings(path, like), self._read(path, like, path)
        if why := wanted.hides(actual):
            raise _unreadable(path, like, why)

    def ensure(self, path: str, like: str, answer: Mapping[str, Any], *, in_parts: bool) -> None:
        """Ensures that a new object has its intended settings.

        Args:
            path: the path of the new object.
            like: the path of the object with the intended settings.
            answer: the answer to a HEAD of the new object.
            in_parts: whether it was uploaded in parts.

        Raises:
            UnreadableError: when its settings differ.
        """
        wanted, made = self.settings(path, like), encryption_of(answer)
        if why := _otherwise_encrypted(wanted, made):
            raise _unreadable(path, like, why)
        if in_parts:
            ensure_tags(self.bucket, path, wanted.tags)

    def _rehearsed(self, path: str, like: str, wanted: ObjectSettings) -> Params:
        params = {**wanted.encryption, **wanted.tagging}
        made = self._try(path, like, params)
        if wanted.readers - made.readers:  # another account's, or open to others than its owner
            params = {**params, **wanted.granting(made.owner)}
            made = self._try(path, like, params)
        if why := wanted.hides(made) or _differs(wanted, made):
            raise _unreadable(path, like, why)
        return params

    def _try(self, path: str, like: str, params: Params) -> ObjectSettings:
        """Returns the settings that the server gives an object that is made with parameters.

        The name follows from the parameters, so that a process without the right to delete leaves
        one object for all its runs. If another process deletes it meanwhile, another name is used.
        """
        name = md5(repr(sorted(params.items())).encode()).hexdigest()
        try:
            return self._try_at(f"_statemaint/probe/{name}", path, like, params)
        except NotFoundError:
            return self._try_at(f"_statemaint/probe/{uuid4()}", path, like, params)

    def _try_at(self, probe: str, path: str, like: str, params: Params) -> ObjectSettings:
        body = b"a probe of statemaint\n"
        try:
            self.bucket.call_object(
                "put_object", probe, Body=body, ContentMD5=content_md5(body), **params
            )
        except S3Error as error:
            if not error.refused:
                raise
            why = f"the server makes no object with the settings of the other: {error.detail}"
            raise _unreadable(path, like, why) from error
        try:
            return self._read(path, like, probe)
        finally:
            self.bucket.call_object("delete_object", probe)

    def _read(self, path: str, like: str, target: str) -> ObjectSettings:
        try:
            return read_settings(self.bucket, target)
        except S3Error as error:
            if error.status != FORBIDDEN:
                raise
            raise _unreadable(
                path, like, f"the readers of {target} are unknown: {error.detail}"
            ) from error


def _otherwise_encrypted(wanted: ObjectSettings, actual: ObjectSettings) -> str | None:
    """Returns why a reader who can decrypt one object may not decrypt the other."""
    if not actual.sse.startswith(_BY_KEY) or actual.encryption == wanted.encryption:
        return None
    return f"it is encrypted with {_shown(actual)}, and the other with {_shown(wanted)}"


def _differs(wanted: ObjectSettings, actual: ObjectSettings) -> str | None:
    """Returns why a new object would be less protected than the one with the wanted settings."""
    if actual.encryption == wanted.encryption or not wanted.sse:
        return None
    return f"it would be encrypted with {_shown(actual)}, and the other is with {_shown(wanted)}"


def _unreadable(path: str, like: str, why: str) -> UnreadableError:
    return UnreadableError(path, f"a reader of {like} might not be able to read it: {why}")
