"""How S3 is reached: the settings that boto3 does not read from the environment itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from statemaint.errors import ConfigError

if TYPE_CHECKING:
    from boto3 import Session

SCHEMES = ("s3", "s3a", "s3n")
_MIB = 1024 * 1024
_GIB = 1024 * _MIB
_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_VARIABLE = "STATEMAINT_S3_"


@dataclass(frozen=True, slots=True)
class S3Options:
    """Settings of one S3 storage. They never include credentials, which stay with boto3.

    Attributes:
        endpoint: the address of an S3-compatible server; boto3's own choice by default.
        region: boto3's own choice by default.
        path_style: the bucket in the path (true) or in the host name (false); boto3's own choice by
            default, which is the path wherever an endpoint is given.
        sse: `AES256`, `aws:kms` or `aws:kms:dsse`; the bucket's own setting by default.
        sse_kms_key_id: the key for `aws:kms`; the account's own by default.
        requester_pays: whether the requester pays, as some buckets demand.
        retry_mode: botocore's `standard` or `adaptive`.
        attempts: attempts at each request, including the first; botocore's own number by default.
        part_size: in bytes; larger files are read and written in parts. S3 accepts 5 MiB or more.
        threads: parts of one file in transfer at the same time, and so held in memory.
        copy_limit: in bytes; larger files are copied in parts of this size. S3 accepts 5 GiB.
        session: the source of credentials; boto3's usual chain by default. It may be the session
            of an Airflow connection (`S3Hook(...).get_session()`).
    """

    endpoint: str | None = None
    region: str | None = None
    path_style: bool | None = None
    sse: str | None = None
    sse_kms_key_id: str | None = None
    requester_pays: bool = False
    retry_mode: str = "standard"
    attempts: int | None = None
    part_size: int = 8 * _MIB
    threads: int = 4
    copy_limit: int = 5 * _GIB
    session: "Session | None" = field(default=None, repr=False, compare=False)


def options_from(environment: Mapping[str, str]) -> S3Options:
    key = environment.get(f"{_VARIABLE}SSE_KMS_KEY_ID") or None
    sse = _one_of(environment, "SSE", ("AES256", "aws:kms", "aws:kms:dsse"))
    if key and not (sse or "").startswith("aws:kms"):
        raise ConfigError(f"{_VARIABLE}SSE_KMS_KEY_ID needs {_VARIABLE}SSE=aws:kms")
    endpoint = f"{_VARIABLE}ENDPOINT"
    return S3Options(
        endpoint=checked_endpoint(endpoint, environment.get(endpoint)),
        path_style=_flag(environment, "PATH_STYLE"),
        sse=sse,
        sse_kms_key_id=key,
        requester_pays=_flag(environment, "REQUESTER_PAYS") or False,
        retry_mode=_one_of(environment, "RETRY_MODE", ("standard", "adaptive")) or "standard",
    )


def _one_of(environment: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str | None:
    value = environment.get(_VARIABLE + name) or None
    if value is not None and value not in allowed:
        raise ConfigError(f"{_VARIABLE}{name}: {value!r} is not one of {', '.join(allowed)}")
    return value


def _flag(environment: Mapping[str, str], name: str) -> bool | None:
    value = environment.get(_VARIABLE + name)
    if not value:
        return None
    if value.lower() not in _FLAGS:
        raise ConfigError(f"{_VARIABLE}{name}: {value!r} is neither true nor false")
    return _FLAGS[value.lower()]


def checked_endpoint(name: str, value: str | None) -> str | None:
    """Returns the address of a server, if one is set; a wrong one is never shown."""
    if not value:
        return None
    try:
        parts = urlsplit(value)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good, parts = False, urlsplit("")
    if not good or "@" in parts.netloc:  # never shown: it may contain a password
        raise ConfigError(f"{name} must be http(s)://host or http(s)://host:port")
    return value
