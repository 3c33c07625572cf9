"""Names in a store's directory that stop Spark: unparsable names, and names of directories."""

import re
from collections.abc import Iterator

from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.files import Snapshot, UnknownFile
from statemaint.model.findings import Finding, FindingCode

_MOST = 2**63 - 1  # a Java long
_CHANGES = (".delta", ".changelog")
_SNAPSHOTS = (".snapshot", ".zip")


def name_findings(store: Store, checkpoint: Checkpoint) -> Iterator[Finding]:
    files = (file.entry.name for file in store.files if isinstance(file, UnknownFile | Snapshot))
    inside = f"{store.id.directory}/"
    folders = [path for path in checkpoint.directories if path.rpartition("/")[0] == inside[:-1]]
    names = [*files, *(path.removeprefix(inside) for path in folders)]
    for name in sorted(name for name in names if unloadable(store, name)):
        detail = (
            f"{inside}{name}: Spark takes every name with this ending for a snapshot and fails to "
            "load the store (HDFS-backed stores from 4.2 on); move it out of the directory, it is "
            "kept"
        )
        path = f"{inside}{name}"
        yield Finding(FindingCode.UNLOADABLE_NAME, detail, store.id, path=path)
    for path in folders:
        if not unloadable(store, path.removeprefix(inside)) and _in_the_way(store, path):
            detail = (
                f"{path} is a directory: a batch or a maintenance run that must write the file of "
                "that name fails; move it out of the directory"
            )
            yield Finding(FindingCode.BLOCKED_NAME, detail, store.id, _version(path), path=path)


def unloadable(store: Store, name: str) -> bool:
    """Returns whether Spark fails to load a store because of a name in its directory.

    Mirrors `SnapshotLoaderHelper.getEligibleSnapshotsForVersion`, which parses the rest of every
    name with a snapshot's suffix as a number. If versions have unique ids it requests known
    names. A store in which nothing counts may be such a store with its commits missing.
    """
    if store.rocks and (store.rocks.ids or not store.versions.all):
        return False
    suffix = ".snapshot" if store.rocks is None else ".zip"
    return name.endswith(suffix) and not _is_long(name.removesuffix(suffix))


def _in_the_way(store: Store, path: str) -> bool:
    """Returns whether a directory has a name that Spark or maintenance may read or write.

    With unique ids a new file has a new id in its name, so only names of committed versions are
    used again. Without ids every version's name is.
    """
    version = _version(path)
    if not store.rocks or not store.rocks.ids:
        return True
    if version is None or version > max(store.rocks.ids):
        return False
    stem, unique = path.rpartition("/")[2].partition(".")[0], store.rocks.id_at(version)
    if stem == str(version):
        return version <= store.rocks.plain
    return unique is None or stem == f"{version}_{unique}"


def blocks_batch(finding: Finding, version: int) -> bool:
    """Returns whether a batch cannot write a version because its file name is taken."""
    taken = finding.code is FindingCode.BLOCKED_NAME and finding.version == version
    return taken and (finding.path or "").endswith(_CHANGES)


def blocks_load(finding: Finding, checkpoint: Checkpoint) -> bool:
    """Returns whether a restart takes a directory for the newest snapshot and fails."""
    version = checkpoint.resumes
    if not names_snapshot(finding) or finding.version is None or version is None:
        return False
    store = next(candidate for candidate in checkpoint.stores if candidate.id == finding.store)
    base = store.versions.base(version)
    return (base.version if base else 0) < finding.version <= version


def names_snapshot(finding: Finding) -> bool:
    return finding.code is FindingCode.BLOCKED_NAME and (finding.path or "").endswith(_SNAPSHOTS)


def _is_long(text: str) -> bool:
    number = re.fullmatch(r"[+-]?[0-9]{1,19}", text)
    return number is not None and -_MOST - 1 <= int(text) <= _MOST


def _version(path: str) -> int | None:
    match = re.match(r"[0-9]{1,18}(?=[._])", path.rpartition("/")[2])
    return int(match[0]) if match else None
