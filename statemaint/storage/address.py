"""Addresses: the secrets in them, the places that they name, and their storages and checkpoints.

Two addresses of one place may count as two: an alias of a host, a mount of
Hadoop's `viewfs`, a nameservice beside its NameNodes. Spellings that a storage could resolve to
another place than Spark does (`//`, `.` and `..` in an S3 key) count as one.
"""

import os
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from statemaint.errors import ConfigError, StorageError, UnsupportedError
from statemaint.storage.base import Storage
from statemaint.storage.local.storage import LocalStorage
from statemaint.storage.s3.options import SCHEMES, S3Options, options_from

# In these schemes, the text before the @ is part of the place: a container, a bucket, a user name.
_NAMED = frozenset("abfs abfss wasb wasbs hdfs webhdfs swebhdfs".split())  # noqa: SIM905
_TOKEN = re.compile(r"[?&](?:sig|token|access_?key|secret\w*|password|delegation)=", re.IGNORECASE)
# Several schemes reach the same files.
_SYSTEMS = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    **dict.fromkeys(("hdfs", "webhdfs", "swebhdfs"), "hdfs"),
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), "azure"),
}
FORCED = "hadoop+"
"""The prefix of an address that is reached through Hadoop, whatever its scheme."""
LOCAL = "file:///"
"""The storage of what is on local disk."""
EXCLUSIVE_ON = "STATEMAINT_HADOOP_EXCLUSIVE"
"""The variable with the schemes whose file systems are said to create a file in one step."""
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


def has_secret(address: str) -> bool:
    if "://" in address and _TOKEN.search(address):
        return True
    try:
        parts = urlsplit(address)
        cut = parts.port is None and parts.netloc.endswith(":")
    except ValueError:
        cut = True
    if cut:  # the host ends at the first slash, which may be one of a secret key
        return "@" in address
    user, separator, _ = parts.netloc.rpartition("@")
    named = parts.scheme.rpartition("+")[2] in _NAMED and ":" not in user
    return bool(separator) and not named


@dataclass(frozen=True, slots=True)
class Place:
    """A folder of a storage system."""

    system: str  # `file`, `s3`, `hdfs`, `azure`, or the scheme
    host: str  # the bucket, the NameNode, or the container and its account
    parts: tuple[str, ...]
    port: str | None = field(default=None, compare=False)  # `None` matches any, see `meets`

    def meets(self, other: "Place") -> bool:
        return self.port == other.port or None in (self.port, other.port)

    def around(self) -> Iterator["Place"]:
        for count in range(len(self.parts), -1, -1):
            yield Place(self.system, self.host, self.parts[:count])


def place_of(address: str) -> Place:
    """Returns the place that an address names; links on local disk are followed."""
    scheme, separator, rest = address.removeprefix(FORCED).partition("://")
    scheme = scheme.lower()
    if not separator or scheme == "file":
        path = local_path(address)
        with suppress(OSError, ValueError):
            path = os.path.realpath(path)
        return Place("file", "", tuple(_names(path)))
    authority, _, path = rest.partition("/")
    system, parts = _SYSTEMS.get(scheme, scheme), tuple(_names(path))
    if system == "azure":
        return Place(system, authority.lower().replace(".blob.", ".dfs."), parts)
    authority = authority.lower().rpartition("@")[2]
    match = re.fullmatch(r"(\[.*\]|[^:]*):(\d+)", authority)
    host, port = (match[1], match[2]) if match else (authority, None)
    # Over HTTP a NameNode has another port.
    return Place(system, host, parts, port if scheme == system else None)


def storage_of(address: str) -> str:
    """Returns the storage that holds an address: `s3://lake`, `hdfs://node`, `file:///`."""
    place = place_of(address)
    return LOCAL if place.system == "file" else f"{place.system}://{place.host}"


def overlaps(addresses: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields the names of two addresses, the second of which equals the first or is inside it."""
    named: dict[Place, list[tuple[str, Place]]] = defaultdict(list)
    for name, address in addresses.items():
        place = place_of(address)
        named[place].append((name, place))
    order = {name: number for number, name in enumerate(addresses)}
    for name, place in chain.from_iterable(named.values()):
        around = chain.from_iterable(named.get(outer, ()) for outer in place.around())
        for other, there in around:
            same_place = there == place
            if there.meets(place) and (order[other] < order[name] if same_place else True):
                yield other, name
                break  # each is the second of two at most once


def local_path(address: str) -> str:
    """Returns the path on local disk that an address names."""
    # As in Spark, a `?` and a `#` are part of it.
    path = re.sub(r"^file:(//[^/]*)?", "", address.removeprefix(FORCED), flags=re.IGNORECASE)
    return path if path == address or address.startswith(FORCED) else unquote(path)


def _names(path: str) -> Iterable[str]:
    names: list[str] = []
    for name in path.split("/"):
        if name == "..":
            del names[-1:]
        elif name not in ("", "."):
            names.append(name)
    return names


# -- storages and checkpoints


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
    parts = _parts_of(uri)
    if parts.scheme in SCHEMES:
        from statemaint.storage.s3.storage import S3Storage  # noqa: PLC0415 -- when it is used

        return S3Storage(uri, s3 or options_from(os.environ))
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise ConfigError(f"{uri}: a file: address names no host; write file:///path")
        return LocalStorage(Path(local_path(uri)).absolute())
    if parts.scheme in _HADOOP or parts.scheme.startswith(FORCED):
        from statemaint.storage.hadoop.storage import HadoopStorage  # noqa: PLC0415 -- as above

        # Hadoop reads `hdfs:/path` as `hdfs:///path`; a place is read from the latter only.
        whole = re.sub(r"^([^:/]+):/(?!/)", r"\1:///", uri)
        return HadoopStorage(whole, exclusive_on=_exclusive_on(os.environ))
    if parts.scheme and "://" in uri:
        raise UnsupportedError(uri, f"storage {parts.scheme!r}", _SUPPORTED)
    return LocalStorage(Path(uri).absolute())


def _parts_of(uri: str) -> SplitResult:
    if has_secret(uri):
        raise ConfigError(f"the address has a secret in it, which would be shown; {_SECRETS}")
    try:
        return urlsplit(uri)
    except ValueError as error:
        raise ConfigError(f"{uri}: not a valid address: {error}") from error


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
    inside a checkpoint is listed. A folder that the storage refuses to list counts as a checkpoint,
    of which its reader reports why.
    """
    checkpoints: list[str] = []
    cut = uri.rstrip("/")
    top = uri if cut[-1:] in ("", ":") else cut  # `/` and `hdfs:///` stay
    level, seen = [top], 0
    for _ in range(_DEPTH + 1):
        deeper: list[str] = []
        for folder in level:
            try:
                names = folders_in(folder, opened=opened)
            except StorageError as error:
                if folder == top or not error.lasting:
                    raise
                names = frozenset(marks)
            seen += 1
            if seen > _MOST_FOLDERS:
                raise ConfigError(f"{uri}: more than {_MOST_FOLDERS:,} folders; name one of them")
            if not names.isdisjoint(marks):
                checkpoints.append(folder)
            else:
                deeper += [_below(folder, name) for name in sorted(names) if name[0] not in "._"]
        level = deeper
    return sorted(checkpoints)


def _below(folder: str, name: str) -> str:
    if folder[:5].lower() == "file:":  # see `local_path`
        name = name.replace("%", "%25")
    return f"{folder.removesuffix('/')}/{name}"


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
