"""Reading everything that a restart could ask for, and saying what does not rebuild."""

from collections.abc import Iterator
from dataclasses import dataclass

from statemaint.codec import checksum
from statemaint.codec.digest import StateDigest
from statemaint.codec.records import apply
from statemaint.errors import (
    CheckpointError,
    CodecError,
    ConfigError,
    DamagedError,
    NotFoundError,
)
from statemaint.fold import State, fold, must_equal, read_delta, snapshot_digest, state_digest
from statemaint.maintain.maintain import scan_checkpoint
from statemaint.model.chain import Gap, Versions, lone_side_files
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.files import Delta, SideFile, Snapshot, TempFile
from statemaint.model.findings import Finding, FindingCode, damaged
from statemaint.model.ids import StoreId
from statemaint.plan import diagnose
from statemaint.storage import ReadOnly, Storage


@dataclass(frozen=True, slots=True)
class Verification:
    """What a verification found.

    Attributes:
        checkpoint: what was read.
        versions_checked: versions rebuilt, counted once for each store.
        findings: what is wrong, and what is only worth knowing.
    """

    checkpoint: Checkpoint
    versions_checked: int
    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        """Tells whether nothing is damaged."""
        return not damaged(self.findings)


def verify(storage: Storage, *, deep: bool = False) -> Verification:
    """Rebuilds every retained version of every store; writes nothing.

    A version counts as retained from the oldest batch in the commit log to the newest. Where a
    snapshot lies in that range, it is compared with the state that the files below it give.

    Args:
        storage: where the checkpoint lives.
        deep: also compare the snapshots below the retained versions with the log below them, read
            the files that no retained version needs, and compare every checksum file with the file
            beside it.

    Raises:
        NotACheckpointError: when there is none.
        UnsupportedError: when it is of a kind that cannot be read.
        StorageError: when anything could not be listed or read.
    """
    reading = ReadOnly(storage)
    checkpoint = scan_checkpoint(reading)
    checked = 0
    findings = list(checkpoint.findings)
    for store in checkpoint.stores:
        findings += diagnose(store, checkpoint)
        rebuilt, found = _rebuild(reading, store, checkpoint, deep=deep)
        checked += rebuilt
        findings += found
        findings += _orphans(store)
        findings += _deep(reading, store) if deep else ()
    return Verification(checkpoint, checked, tuple(dict.fromkeys(findings)))


def _rebuild(
    storage: Storage, store: Store, checkpoint: Checkpoint, *, deep: bool
) -> tuple[int, list[Finding]]:
    first, last = checkpoint.required, checkpoint.target
    if first is None or last is None:
        return 0, []
    versions = Versions.of(store.files)
    begin = _beginning(versions, first, last) if deep else first
    checked = 0
    try:
        for version in _rebuilt(storage, versions, begin, last):
            checked += version >= first
    except CheckpointError as error:
        return checked, [_finding(store, error)]
    except NotFoundError as error:
        detail = f"{error.path} went away while it was read; run again"
        return checked, [Finding(FindingCode.SUPERSEDED, detail, store.id)]
    return checked, []


def _beginning(versions: Versions, first: int, last: int) -> int:
    """Returns where the log begins that the first retained version can be folded from."""
    lowest = min(versions.loadable(first, last), default=first)
    chain = versions.from_log(lowest, proved=())
    return max(1, chain.start) if chain else lowest


def _rebuilt(storage: Storage, versions: Versions, first: int, last: int) -> Iterator[int]:
    """Yields each version that loads and rebuilds, comparing each snapshot on the way."""
    state: State | None = None
    before = 0
    for version in sorted(versions.loadable(first, last)):
        delta = versions.deltas.get(version)
        if state is not None and delta and version == before + 1:
            apply(state, read_delta(storage, delta.entry.path))
        else:
            state = _load(storage, versions, version)
        before = version
        if snapshot := versions.snapshots.get(version):
            found = snapshot_digest(storage, snapshot.entry.path)
            must_equal(snapshot.entry.path, found, state_digest(state))
        yield version


def _load(storage: Storage, versions: Versions, version: int) -> State:
    chain = versions.chain(version)
    if isinstance(chain, Gap):  # pragma: no cover -- only loadable versions are asked for
        raise TypeError(chain)
    return fold(storage, chain)


def _orphans(store: Store) -> Iterator[Finding]:
    lone = [side.entry for side in lone_side_files(store.files)]
    temps = [file.entry for file in store.files if isinstance(file, TempFile)]
    for entry in lone + temps:
        detail = f"{entry.path}: left behind by a write or a deletion that was cut short"
        yield Finding(FindingCode.ORPHAN_FILE, detail, store.id)


def _deep(storage: Storage, store: Store) -> Iterator[Finding]:
    lone = {side.entry.path for side in lone_side_files(store.files)}
    for file in store.files:
        try:
            match file:
                case Delta():
                    for _ in read_delta(storage, file.entry.path):
                        pass
                case Snapshot():
                    snapshot_digest(storage, file.entry.path)
                case SideFile() if file.entry.path not in lone:
                    yield from _stale(storage, store, file)
                case _:
                    continue
        except CheckpointError as error:
            yield _finding(store, error)
        except NotFoundError:
            continue  # cleaned up by the query since it was listed


def _stale(storage: Storage, store: Store, side: SideFile) -> Iterator[Finding]:
    hadoop = side.entry.name.startswith(".")
    owner = side.entry.path.removesuffix(side.entry.name) + (
        side.entry.name[1:-4] if hadoop else side.entry.name[:-4]
    )
    content, stored = storage.read(owner), storage.read(side.entry.path)
    try:
        fits = (
            checksum.hadoop_matches(stored, content)
            if hadoop
            else checksum.parse_spark(stored).matches(content)
        )
    except CodecError as error:
        raise error.at(side.entry.path) from error
    if not fits:
        harm = "a Hadoop FileSystem refuses to read it" if hadoop else "Spark refuses to load it"
        detail = f"{side.entry.path}: does not match {owner}; {harm}"
        yield Finding(FindingCode.STALE_CHECKSUM, detail, store.id, side.version)


def _finding(store: Store, error: CheckpointError) -> Finding:
    return Finding(FindingCode(error.code), str(error), store.id)


def digest_stores(
    storage: Storage, *, version: int | None = None
) -> tuple[int, tuple[tuple[StoreId, StateDigest], ...]]:
    """Returns a version and the digest of every store's state at it; writes nothing.

    Args:
        storage: where the checkpoint lives.
        version: the newest committed one by default.

    Raises:
        ConfigError: when nothing is committed, or a store does not have that version.
        DamagedError: when the checkpoint's own logs cannot be read.
        CheckpointError: when a file of the version is damaged.
        StorageError: when anything could not be listed or read.
    """
    reading = ReadOnly(storage)
    checkpoint = scan_checkpoint(reading)
    for finding in checkpoint.findings:
        if finding.damage:
            raise DamagedError(storage.root, finding.detail, code=finding.code.value)
    asked = checkpoint.target if version is None else version
    if asked is None:
        raise ConfigError(f"{storage.root}: no batch is committed yet, there is no state to digest")
    return asked, tuple((store.id, _digest(reading, store, asked)) for store in checkpoint.stores)


def _digest(storage: Storage, store: Store, version: int) -> StateDigest:
    chain = Versions.of(store.files).chain(version)
    if isinstance(chain, Gap):
        raise ConfigError(
            f"{store.id}: version {version} does not load, "
            f"{store.id.directory}/{chain.first}.delta is not there"
        )
    return state_digest(fold(storage, chain))
