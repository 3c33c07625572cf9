"""Addresses: the secrets that may be in them, and the places that they name.

No request is made. Two addresses of one place may count as two: an alias of a host, a mount of
Hadoop's `viewfs`, a nameservice beside its NameNodes. Spellings that a storage could resolve to
another place than Spark does (`//`, `.` and `..` in an S3 key) count as one.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from urllib.parse import unquote, urlsplit

from statemaint.errors import ConfigError

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


def has_secret(address: str) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:
        return "@" in address
    scheme = parts.scheme.rpartition("+")[2]
    user, separator, _ = parts.netloc.rpartition("@")
    named = scheme in _NAMED and ":" not in user
    token = "://" in address and _TOKEN.search(address)
    return (bool(separator) and not named) or bool(token)


def must_have_no_secret(address: str, instead: str) -> None:
    if has_secret(address):
        raise ConfigError(f"the address has a secret in it, which would be shown; {instead}")


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
    """Returns the path on local disk that an address names, as `open_storage` reads it."""
    path = re.sub(r"^file:(//[^/]*)?", "", address.removeprefix(FORCED), flags=re.IGNORECASE)
    if path == address or address.startswith(FORCED):
        return path
    return unquote(re.split("[?#]", path, maxsplit=1)[0])


def _names(path: str) -> Iterable[str]:
    names: list[str] = []
    for name in path.split("/"):
        if name == "..":
            del names[-1:]
        elif name not in ("", "."):
            names.append(name)
    return names
