"""The files of one HDFS-backed store, told apart by name.

    <v>.delta  <v>.snapshot          written by HDFSBackedStateStoreProvider
    .<name>.crc                      Hadoop's side file, on local disk only
    <name>.crc  .<name>.crc.crc      Spark's checksum file (4.1+) and Hadoop's side file of it
    .<name>.<uuid>.tmp               an atomic write that is under way, or was killed
    ..<name>.<uuid>.tmp.crc          Hadoop's side file of that

Everything else is unknown, and unknown files are kept (S11).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from statemaint.listing import Entry


@dataclass(frozen=True, slots=True)
class Delta:
    """The changes of one version."""

    version: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole state at one version."""

    version: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class SideFile:
    """A checksum that belongs to the delta or snapshot named `owner` (a path)."""

    version: int
    owner: str
    entry: Entry

    @property
    def by_spark(self) -> bool:
        """Tells whether it is Spark's own kind, which Spark compares when it loads the owner."""
        return self.entry.path == f"{self.owner}.crc"


@dataclass(frozen=True, slots=True)
class TempFile:
    """What an atomic write of some version leaves behind until it is renamed."""

    version: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class UnknownFile:
    """A name that nobody we know of writes."""

    entry: Entry


def spark_checksums(files: Iterable["StateFile"]) -> dict[str, str]:
    """Returns the path of Spark's checksum file of each file that has one."""
    sides = (file for file in files if isinstance(file, SideFile))
    return {side.owner: side.entry.path for side in sides if side.by_spark}


StateFile = Delta | Snapshot | SideFile | TempFile | UnknownFile

_VERSION = r"(?P<version>[1-9][0-9]{0,17})"
_STATE = rf"{_VERSION}\.(?P<kind>delta|snapshot)"
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_VERSIONED = re.compile(_STATE)
_SIDE = re.compile(rf"\.?(?P<owner>{_STATE})(?:\.crc)?\.crc")
_TEMP = re.compile(rf"\.{{1,2}}{_STATE}(?:\.crc)?\.{_UUID}\.tmp(?:\.crc)?")


def classify(entry: Entry) -> StateFile:
    """Returns what a file in a store's directory is, by its name alone."""
    name = entry.name
    if found := _VERSIONED.fullmatch(name):
        kind = Delta if found["kind"] == "delta" else Snapshot
        return kind(int(found["version"]), entry)
    if found := _SIDE.fullmatch(name):
        owner = entry.path.removesuffix(name) + found["owner"]
        return SideFile(int(found["version"]), owner, entry)
    if found := _TEMP.fullmatch(name):
        return TempFile(int(found["version"]), entry)
    return UnknownFile(entry)


def snapshot_version(path: str) -> int | None:
    """Returns the version that a snapshot's path names; `None` for any other path."""
    found = _VERSIONED.fullmatch(path.rpartition("/")[2])
    return int(found["version"]) if found and found["kind"] == "snapshot" else None


def disables_spark(entry: Entry) -> bool:
    """Tells whether Spark's own listing of the store fails on this unknown name.

    Mirrors `HDFSBackedStateStoreProvider.fetchFiles`: a name of exactly two parts whose first is
    not a number ends its snapshot and clean-up with a NumberFormatException that is only logged.
    """
    stem, dot, rest = entry.name.partition(".")
    return bool(dot) and "." not in rest and not re.fullmatch(r"[+-]?[0-9]+", stem)
