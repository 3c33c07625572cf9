"""The files of one store, distinguished by name.

HDFSBackedStateStoreProvider writes

    <v>.delta                        the changes of a version
    <v>.snapshot                     the whole state at a version

RocksDBStateStoreProvider writes, with `_<uuid>` where versions have unique ids (structure V2),

    <v>[_<uuid>].changelog           the changes of a version
    <v>[_<uuid>].zip                 the whole state at a version, except
    SSTs/<n>-<uuid>.sst              the sorted tables that it names, and
    logs/<n>-<uuid>.log              the archived logs, both shared by snapshots

and beside any of them there may be

    .<name>.crc                      Hadoop's side file, on local disk only
    <name>.crc  .<name>.crc.crc      Spark's checksum file (4.1+) and Hadoop's side file of it
    .<name>.<uuid>.tmp               an atomic write that is under way, or was killed
    .<name>.<uuid>.TID<n>.tmp        the same in a task
    ..<name>.<uuid>.tmp.crc          Hadoop's side file of either

Everything else is unknown, and unknown files are kept (S11). `docs/files.md` has all names,
including those of logs and metadata. Mirrors `CheckpointFileManager.generateTempPath`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from statemaint.listing import Entry


@dataclass(frozen=True, slots=True)
class _LoadedFile:
    version: int
    entry: Entry
    id: str | None = None  # of an attempt at the version, if the structure has unique ids


class Delta(_LoadedFile):
    """The changes of one version: a delta, or a changelog of RocksDB."""

    __slots__ = ()


class Snapshot(_LoadedFile):
    """The whole state at one version: a snapshot, or a zip of RocksDB."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class SstFile:
    """A file of RocksDB's own that any number of snapshots refer to by its name."""

    entry: Entry

    @property
    def version(self) -> int:
        """Returns 0: it belongs to the versions of the snapshots that refer to it."""
        return 0


@dataclass(frozen=True, slots=True)
class ChecksumFile:
    """A checksum that belongs to the file named `owner` (a path)."""

    version: int
    owner: str
    entry: Entry

    @property
    def by_spark(self) -> bool:
        """Returns whether it is Spark's own kind, which Spark checks when it loads the owner."""
        return self.entry.path == f"{self.owner}.crc"


@dataclass(frozen=True, slots=True)
class TempFile:
    """The file of an atomic write of some version until it is renamed."""

    version: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class UnknownFile:
    """A file whose name no known writer uses."""

    entry: Entry


def spark_checksums(files: Iterable["StateFile"]) -> dict[str, str]:
    sides = (file for file in files if isinstance(file, ChecksumFile))
    return {side.owner: side.entry.path for side in sides if side.by_spark}


def owner_of(file: "StateFile") -> str:
    """Returns the path of a file, or of the file that a checksum belongs to."""
    return file.owner if isinstance(file, ChecksumFile) else file.entry.path


StateFile = Delta | Snapshot | SstFile | ChecksumFile | TempFile | UnknownFile

_VERSION = r"(?P<version>[1-9][0-9]{0,17})"
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_TEMP_END = rf"\.{UUID}(?:\.TID[0-9]{{1,19}})?\.tmp"
_HDFS = rf"{_VERSION}\.(?P<kind>delta|snapshot)"
_ROCKS = rf"{_VERSION}(?:_(?P<id>{UUID}))?\.(?P<kind>changelog|zip)"
_CHANGES = ("delta", "changelog")
_SNAPSHOT = re.compile(rf"{_VERSION}(?:\.snapshot|(?:_{UUID})?\.zip)")
_SHARED = rf"(?P<shared>[0-9]{{1,18}}-{UUID}\.(?:sst|log))"


def with_companions(name: str) -> str:
    """Returns a pattern of a driver's file and of those that its write and Hadoop put beside it."""
    return rf"{name}|\.{name}\.crc|\.{{1,2}}{name}{_TEMP_END}(?:\.crc)?"


def temp_of(name: str) -> str | None:
    """Returns the name of the file that a temp file was to become; `None` for any other file."""
    match = re.fullmatch(rf"\.{{1,2}}(?P<name>.+?){_TEMP_END}(?:\.crc)?", name)
    return match["name"] if match else None


class FileNames:
    """The file names of one provider."""

    def __init__(self, owner: str) -> None:
        self._owner = re.compile(owner)
        self._has_ids = "id" in self._owner.groupindex
        self._side = re.compile(rf"\.?(?P<owner>{owner})(?:\.crc)?\.crc")
        self._temp = re.compile(rf"\.{{1,2}}(?:{owner})(?:\.crc)?{_TEMP_END}(?:\.crc)?")

    def classify(self, entry: Entry) -> StateFile:
        name = entry.name
        if match := self._owner.fullmatch(name):
            if match["version"] is None:
                return SstFile(entry)
            kind = Delta if match["kind"] in _CHANGES else Snapshot
            return kind(int(match["version"]), entry, match["id"] if self._has_ids else None)
        if match := self._side.fullmatch(name):
            owner = entry.path.removesuffix(name) + match["owner"]
            return ChecksumFile(int(match["version"] or 0), owner, entry)
        if match := self._temp.fullmatch(name):
            return TempFile(int(match["version"] or 0), entry)
        return UnknownFile(entry)


HDFS_NAMES = FileNames(_HDFS)
ROCKS_NAMES = FileNames(rf"{_ROCKS}|{_SHARED}")


classify = HDFS_NAMES.classify


def classify_any(entry: Entry) -> StateFile:
    file = HDFS_NAMES.classify(entry)
    return ROCKS_NAMES.classify(entry) if isinstance(file, UnknownFile) else file


def checksum_file_of(entry: Entry) -> ChecksumFile | None:
    file = classify_any(entry)
    return file if isinstance(file, ChecksumFile) else None


def snapshot_version(path: str) -> int | None:
    """Returns the version in a snapshot's path, of any provider; `None` for any other path."""
    match = _SNAPSHOT.fullmatch(path.rpartition("/")[2])
    return int(match["version"]) if match else None


def disables_spark(entry: Entry) -> bool:
    """Returns whether Spark's own listing of the store fails on this unknown name.

    Mirrors `HDFSBackedStateStoreProvider.fetchFiles`: a name of exactly two parts whose first is
    not a number ends its snapshot and clean-up with a NumberFormatException that is only logged.
    """
    stem, dot, rest = entry.name.partition(".")
    return bool(dot) and "." not in rest and not re.fullmatch(r"[+-]?[0-9]+", stem)
