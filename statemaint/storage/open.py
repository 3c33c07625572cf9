"""From an address to a storage, and to the checkpoints that it leads to."""

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from statemaint.errors import ConfigError, StorageError, UnsupportedError
from statemaint.storage.address import EXCLUSIVE_ON, FORCED, must_have_no_secret
from statemaint.storage.base import Storage
from statemaint.storage.local.storage import LocalStorage
from statemaint.storage.s3.options import SCHEMES, S3Options, options_from

_SUPPORTED = "local disk (a path, or file:), S3 (s3:, s3a:, s3n:) and what Hadoop reaches"
_SECRETS = (
    "give it without: boto3 and Hadoop find credentials in their own settings, or Airflow in a "
    "connection"
)
# The schemes that only Hadoop reaches; `hadoop+SCHEME:` sends any other scheme through it.
_HADOOP = frozenset(
    "abfs abfss adl gs hdfs o3fs ofs swebhdfs viewfs wasb wasbs webhdfs".split()  # noqa: SIM905
)
_DEPTH = 3
_MOST_FOLDERS = 10_000
MARKS = frozenset({"offsets", "commits"})
"""The folders of which a checkpoint has at least one, once a query has begun."""
Opener = Callable[[str], Storage]


def open_storage(uri: str, *, s3: S3Options | None = None) -> Storage:
    """Returns the storage that an address names.

    A path, `file:` with a path, an S3 bucket, or an address that Hadoop reaches (`hdfs://`,
    `abfss://`, `gs://`, ..., and `hadoop+SCHEME:` for every other scheme of the user's Hadoop
    configuration).

    Args:
        uri: the address.
        s3: how S3 is reached; by default, as the environment sets it.

    Raises:
        ConfigError: when the address is empty, contains a secret, or names another machine's
            files, or when the environment's settings for its storage are not valid.
        UnsupportedError: for a scheme that this version cannot reach.
    """
    if not uri.strip():
        raise ConfigError("the checkpoint's address is empty")
    must_have_no_secret(uri, _SECRETS)
    if uri.partition("://")[0] in SCHEMES:
        from statemaint.storage.s3.storage import S3Storage  # noqa: PLC0415 -- when it is used

        return S3Storage(uri, s3 or options_from(os.environ))
    parts = urlsplit(uri)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise ConfigError(f"{uri}: a file: address names no host; write file:///path")
        return LocalStorage(Path(unquote(parts.path)).absolute())
    if parts.scheme in _HADOOP or parts.scheme.startswith(FORCED):
        from statemaint.storage.hadoop.storage import HadoopStorage  # noqa: PLC0415 -- as above

        return HadoopStorage(uri, exclusive_on=_exclusive_on(os.environ))
    if parts.scheme and "://" in uri:
        raise UnsupportedError(uri, f"storage {parts.scheme!r}", _SUPPORTED)
    return LocalStorage(Path(uri).absolute())


def _exclusive_on(environment: Mapping[str, str]) -> frozenset[str]:
    value = environment.get(EXCLUSIVE_ON, "")
    schemes = frozenset(filter(None, (scheme.strip().lower() for scheme in value.split(","))))
    if wrong := sorted(scheme for scheme in schemes if not scheme.isalnum()):
        raise ConfigError(f"{EXCLUSIVE_ON}: {wrong[0]!r} is not a scheme; write gs,o3fs")
    return schemes


def checkpoints_below(
    uri: str, *, marks: Collection[str] = MARKS, opened: Opener = open_storage
) -> list[str]:
    """Returns the addresses of the checkpoints below a folder, up to three folders deep, sorted.

    A checkpoint has one of `marks`. Folders whose names begin with `.` or `_` are skipped. Nothing
    inside a checkpoint is listed.
    """
    checkpoints: list[str] = []
    level, seen = [uri.rstrip("/") or "/"], 0
    for _ in range(_DEPTH + 1):
        deeper: list[str] = []
        for folder in level:
            names = folders_in(folder, opened=opened)
            seen += 1
            if seen > _MOST_FOLDERS:
                raise ConfigError(f"{uri}: more than {_MOST_FOLDERS:,} folders; name one of them")
            if not names.isdisjoint(marks):
                checkpoints.append(folder)
            else:
                deeper += [f"{folder}/{name}" for name in sorted(names) if name[0] not in "._"]
        level = deeper
    return sorted(checkpoints)


def folders_in(uri: str, *, opened: Opener = open_storage) -> frozenset[str]:
    return frozenset(opened(uri).folders(""))


def checkpoint_around(uri: str) -> str | None:
    """Returns the checkpoint that an address is inside of; `None` if it is in none."""
    address = uri.rstrip("/") if "://" in uri else os.path.abspath(uri)  # noqa: PTH100 -- `..`
    for _ in range(5):  # state / operator / partition / store / file
        address, _, name = address.rpartition("/")
        if not name or not address or address.endswith(":/"):
            return None
        try:
            if folders_in(address) & MARKS:
                return address
        except StorageError:
            return None
    return None


def is_file(uri: str) -> bool:
    storage = open_storage(uri)
    return isinstance(storage, LocalStorage) and Path(storage.root).is_file()
