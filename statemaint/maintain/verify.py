"""Reading everything that a restart could ask for, and saying what does not rebuild."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from statemaint.codec import checksum
from statemaint.codec.digest import StateDigest
from statemaint.errors import (
    CheckpointError,
    CodecError,
    ConfigError,
    DamagedError,
    NotFoundError,
    StaleChecksumError,
    Superseded,
    UnsupportedError,
)
from statemaint.fold import Engine, Source, digest_of, engine_for, must_equal
from statemaint.listing import Entry
from statemaint.maintain.invariants import check_rows
from statemaint.maintain.planning import scan_checkpoint
from statemaint.model.chain import Chain, Gap, Versions, lone_side_files
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.files import Delta, SharedFile, SideFile, Snapshot, TempFile
from statemaint.model.findings import Finding, FindingCode, damaged
from statemaint.model.ids import StoreId, batch_of
from statemaint.plan import batches_through, diagnose, diagnose_logs
from statemaint.storage import ReadOnly, Storage

_Bad = CheckpointError | UnsupportedError


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


def verify(
    storage: Storage, *, deep: bool = False, sample: tuple[int, int] | None = None
) -> Verification:
    """Rebuilds every retained version of every store; writes nothing.

    A version counts as retained from the oldest batch in the commit log to the newest. Where a
    snapshot lies in that range, it is compared with the state that the files below it give.

    Args:
        storage: where the checkpoint lives.
        deep: also look at every row of the newest version: whether it lies in the partition of its
            key, and whether the stores of a join agree; compare the snapshots below the retained
            versions with the log below them, read the files that no retained version needs, and
            compare every checksum file with the file beside it.
        sample: the `n`-th of `t` shares of the partitions, `(n, t)` with `n` from 1 to `t`; all
            by default. The `t` shares together are all partitions, each with all of its stores.

    Raises:
        ConfigError: when the sample is none.
        NotACheckpointError: when there is none.
        UnsupportedError: when it is of a kind that cannot be read.
        StorageError: when anything could not be listed or read.
    """
    reading = ReadOnly(storage)
    only = _shares(*sample) if sample else None
    checkpoint = scan_checkpoint(reading, only)
    engine = _engine(checkpoint)
    checked = 0
    findings = [*checkpoint.findings, *_logs(reading, checkpoint)]
    for store in checkpoint.stores:
        source = Source.of(reading, store, checkpoint)
        findings += diagnose(store, checkpoint)
        rebuilt, found = _rebuild(source, engine, store, checkpoint, deep=deep)
        checked += rebuilt
        findings += found
        findings += _purged(store, checkpoint)
        findings += _orphans(store)
        findings += _deep(source, engine, store, checkpoint) if deep else ()
    findings += check_rows(reading, checkpoint) if deep else ()
    return Verification(checkpoint, checked, tuple(dict.fromkeys(findings)))


def _shares(number: int, total: int) -> Callable[[StoreId], bool]:
    if not 1 <= number <= total:
        raise ConfigError(f"share {number} of {total} cannot be; take one from 1/{total} on")
    return lambda store: (store.operator + store.partition) % total == number - 1


def _logs(reading: Storage, checkpoint: Checkpoint) -> Iterator[Finding]:
    """Yields what a second look at the logs finds missing as well: a query goes on meanwhile."""
    if found := diagnose_logs(checkpoint):
        names = scan_checkpoint(reading, lambda _: False)
        again = {one.path for one in diagnose_logs(names)}
        yield from (one for one in found if one.path in again)


def _engine(checkpoint: Checkpoint) -> Engine:
    files = (file for store in checkpoint.stores for file in store.files)
    return engine_for(sum(file.entry.size for file in files), checkpoint.provider)


def _rebuild(
    source: Source, engine: Engine, store: Store, checkpoint: Checkpoint, *, deep: bool
) -> tuple[int, list[Finding]]:
    first, last = checkpoint.required, checkpoint.target
    if first is None or last is None:
        return 0, []
    versions = store.versions
    begin = _beginning(versions, first, last) if deep else first
    loads = versions.loadable(begin, last)
    rebuild, checked = _Rebuild(source, engine, versions, loads), 0
    findings: list[Finding] = []
    for version in sorted(loads):
        try:
            bad = rebuild.at(version)
        except (NotFoundError, Superseded) as error:
            detail = f"{error.path} went away or was replaced while it was read; run again"
            return checked, [*findings, Finding(FindingCode.SUPERSEDED, detail, store.id)]
        findings += (_finding(store, error, checkpoint) for error in bad)
        checked += version >= first and not bad
    return checked, findings


def _beginning(versions: Versions, first: int, last: int) -> int:
    """Returns where the log begins that the first retained version can be folded from."""
    lowest = min(versions.loadable(first, last), default=first)
    chain = versions.from_log(lowest, proved=())
    return max(1, chain.start) if chain else lowest


class _Rebuild:
    """Rebuilding one store's versions, each file of them read whole, once."""

    def __init__(
        self, source: Source, engine: Engine, versions: Versions, loads: frozenset[int]
    ) -> None:
        self._source, self._engine, self._versions, self._loads = source, engine, versions, loads
        self._digests: dict[str, StateDigest] = {}
        self._read: dict[str, _Bad | None] = {}

    def at(self, version: int) -> list[_Bad]:
        """Rebuilds a version that loads, and returns what is wrong with the files that it needs.

        Its snapshot is compared with the files below; what another version needs is told again.
        """
        chain = self._chain(version)
        errors = [self._bad(chain.base.entry.path, self._digest)] if chain.base else []
        errors += (self._bad(delta.entry.path, self._look) for delta in chain.deltas)
        found = [error for error in errors if error]
        snapshot = self._versions.snapshots.get(version)
        compared = version - 1 in self._loads and version in self._versions.deltas
        if snapshot and compared and not found:
            try:
                self._compare(snapshot)
            except (CheckpointError, UnsupportedError) as error:
                found.append(error)
        return found

    def _bad(self, path: str, read: Callable[[str], None]) -> _Bad | None:
        """Reads a file once, and returns what is wrong with it each time."""
        if path not in self._read:
            self._read[path] = None
            try:
                read(path)
            except (CheckpointError, UnsupportedError) as error:
                self._read[path] = error
        return self._read[path]

    def _digest(self, path: str) -> None:
        self._digests[path] = self._engine.digest(self._source, path)

    def _look(self, path: str) -> None:
        self._engine.check(self._source, path)

    def _compare(self, snapshot: Snapshot) -> None:
        below = self._chain(snapshot.version - 1)
        deltas = (*below.deltas, self._versions.deltas[snapshot.version])
        chain = Chain(snapshot.version, below.base, deltas)
        folded = self._engine.fold(self._source, chain, (chain.version,), write=False)
        path = snapshot.entry.path
        must_equal(path, self._digests[path], digest_of(folded, chain.version))

    def _chain(self, version: int) -> Chain:
        chain = self._versions.chain(version)
        if isinstance(chain, Gap):  # pragma: no cover -- only loadable versions are asked for
            raise TypeError(chain)
        return chain


def _purged(store: Store, checkpoint: Checkpoint) -> Iterator[Finding]:
    """Yields which batches of the commit log Spark's own clean-up has left without state."""
    required, target = checkpoint.required, checkpoint.target
    if required is None or target is None:
        return
    oldest = store.oldest(required, target)
    if oldest == required:
        return
    detail = (
        f"{store.id.directory}: the commit log begins with batch {batch_of(required)}, and what "
        f"Spark's own clean-up has left with batch {batch_of(oldest)}: a restart is as ever, but "
        "nobody can go back to a batch before that"
    )
    yield Finding(FindingCode.PURGED_BY_SPARK, detail, store.id, required)


def _orphans(store: Store) -> Iterator[Finding]:
    lone = [side.entry for side in lone_side_files(store.files)]
    temps = [file.entry for file in store.files if isinstance(file, TempFile)]
    for entry in lone + temps:
        detail = f"{entry.path}: left behind by a write or a deletion that was cut short"
        yield Finding(FindingCode.ORPHAN_FILE, detail, store.id, path=entry.path)
    for entry in _unreferenced(store):
        detail = f"{entry.path}: no snapshot refers to it; an upload was cut short, or is going on"
        yield Finding(FindingCode.ORPHAN_FILE, detail, store.id, path=entry.path)


def _unreferenced(store: Store) -> Iterator[Entry]:
    """Yields the shared files that no zip refers to, as far as that is known."""
    if store.rocks is None or store.rocks.unreadable:
        return
    used = {path for parts in store.rocks.parts.values() for path in parts}
    shared = (file.entry for file in store.files if isinstance(file, SharedFile))
    yield from (entry for entry in shared if entry.path not in used)


def _deep(
    source: Source, engine: Engine, store: Store, checkpoint: Checkpoint
) -> Iterator[Finding]:
    lone = {side.entry.path for side in lone_side_files(store.files)}
    for file in store.files:
        try:
            match file:
                case Delta():
                    engine.check(source, file.entry.path)
                case Snapshot():
                    engine.digest(source, file.entry.path)
                case SideFile() if file.entry.path not in lone and not file.by_spark:
                    yield from _stale(source.storage, store, file)
                case _:
                    continue
        except (CheckpointError, UnsupportedError) as error:
            yield _finding(store, error, checkpoint)
        except NotFoundError:
            continue  # cleaned up by the query since it was listed


def _stale(storage: Storage, store: Store, side: SideFile) -> Iterator[Finding]:
    """Compares Hadoop's side file with the file that it stands beside."""
    owner = side.entry.path.removesuffix(side.entry.name) + side.entry.name[1:-4]
    stored = storage.read(side.entry.path)
    try:
        with storage.open(owner) as stream:
            fits = checksum.hadoop_matches(stored, stream)
    except CodecError as error:
        raise error.at(side.entry.path) from error
    if not fits:
        detail = (
            f"{side.entry.path}: does not match {owner}; a Hadoop FileSystem refuses to read it"
        )
        path = side.entry.path
        yield Finding(FindingCode.STALE_CHECKSUM, detail, store.id, side.version, path=path)


def _finding(
    store: Store, error: CheckpointError | UnsupportedError, checkpoint: Checkpoint
) -> Finding:
    code, path = FindingCode(error.code), getattr(error, "path", None)
    offset = error.offset if isinstance(error, CodecError) else None
    read = error.owner if isinstance(error, StaleChecksumError) else path
    batches = tuple(_spoiled(store, read, checkpoint)) if read else ()
    return Finding(code, str(error), store.id, path=path, offset=offset, batches=batches)


def _spoiled(store: Store, path: str, checkpoint: Checkpoint) -> Iterator[int]:
    """Yields the batches of the commit log that are loaded from a file."""
    required, target = checkpoint.required, checkpoint.target
    if required is None or target is None:
        return
    parts = store.rocks.parts if store.rocks else {}
    through = {path, *(snapshot for snapshot, named in parts.items() if path in named)}
    batches = (batches_through(store.versions, one, required, target) for one in through)
    yield from sorted({batch for found in batches for batch in found})


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
    engine = _engine(checkpoint)
    return asked, tuple(
        (store.id, _digest(Source.of(reading, store, checkpoint), engine, store, asked))
        for store in checkpoint.stores
    )


def _digest(source: Source, engine: Engine, store: Store, version: int) -> StateDigest:
    chain = store.versions.chain(version)
    if isinstance(chain, Gap):
        raise ConfigError(
            f"{store.id}: version {version} does not load, "
            f"{store.id.directory}/{chain.first}.delta is not there"
        )
    return digest_of(engine.fold(source, chain, (version,), write=False), version)
