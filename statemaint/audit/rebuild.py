"""Checks the retained versions of one store, to a given depth."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from io import SEEK_END
from itertools import islice
from typing import TypeVar

from statemaint.codec.compression import lz4 as lz4_block
from statemaint.codec.compression.base import decode
from statemaint.codec.compression.lz4 import HEADER_SIZE, Lz4Block
from statemaint.codec.hdfs import records
from statemaint.codec.integrity.digest import StateDigest
from statemaint.codec.rocksdb import changelog
from statemaint.codec.rocksdb.changelog import Header, Lineage
from statemaint.errors import (
    CheckpointError,
    CodecError,
    DamagedError,
    NotFoundError,
    StaleChecksumError,
    Superseded,
    UnsupportedError,
    in_file,
)
from statemaint.fold import ClearEngine, Engine, Source, must_equal
from statemaint.model.chain import Chain, Versions
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.files import Delta, Snapshot
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.lineage import leads_nowhere
from statemaint.plan.findings.health import batches_through
from statemaint.plan.staleness import Suspect, judge


def seems_whole(
    source: Source, file: Delta | Snapshot, on_header: Callable[[Header], object] = lambda _: None
) -> bool:
    """Returns whether a file begins and ends as its format requires; reads nothing in between.

    begins   the first block of the compression, with the checksum that lz4 has; in it the first
             record of a delta or a snapshot, or the header of a changelog
    ends     lz4: the empty block after the last one; the others have no recognizable end

    A file that does not is not necessarily damaged: Spark reads an lz4 stream without its end. Only
    reading the whole file decides. `on_header` is called with the header of a changelog.
    """
    with source.storage.open(file.entry.path) as stream:
        payload = decode(source.compression, stream)
        try:
            if file.entry.path.endswith(".changelog"):
                on_header(changelog.read_header(payload))
            else:
                checked, removals = source.row_checksums, isinstance(file, Delta)
                next(records.decode(payload, row_checksums=checked, removals=removals), None)
        except CodecError:
            return False
        if not isinstance(source.compression, Lz4Block):
            return True
        size = stream.seek(0, SEEK_END)
        stream.seek(max(0, size - HEADER_SIZE))
        return lz4_block.is_end(stream.read(HEADER_SIZE))


_Bad = CheckpointError | UnsupportedError
_File = TypeVar("_File", Delta, Snapshot)

# Plain loops decode a delta of fewer stored bytes before compiled ones would have begun, as long as
# a checkpoint has no more than this of them: then compiled ones are worth their loading.
_SMALL, _FEW = 1024, 6 * 1024 * 1024


class Depth(IntEnum):
    """The depth of a check; each includes the one before.

    HEADERS how each file of a retained chain begins and ends. A snapshot is trusted while its
            attestation is of the listed file; one that has changed since is read and compared.
    CHAINS  every such file decoded, every snapshot compared with the files below it, and every
            checksum file of Hadoop's with the file beside it.
    ROWS    the same of files that no retained version needs, and the rows of the newest version.
    """

    HEADERS = 1
    CHAINS = 2
    ROWS = 3


def rebuild(
    source: Source,
    engine: Callable[[], Engine],
    store: Store,
    checkpoint: Checkpoint,
    depth: Depth,
    *,
    lineages: bool,
) -> tuple[int, list[Finding], Collection[str]]:
    """Rebuilds the retained versions of a store.

    Returns the number of healthy ones, the findings, and the paths that were read. The engine is
    requested when the first file is read whole: loading one takes time.
    """
    findings: list[Finding] = []
    if checkpoint.span is None:
        return 0, findings, ()
    first, last = checkpoint.span
    suspects = {suspect.path: suspect for suspect in judge(store, checkpoint).suspects}
    retained = range(first, last + 1)
    few = store.size * len(checkpoint.stores) < _FEW
    rebuilding = _Rebuild(source, engine, store, depth, suspects, retained, lineages, few)
    checked = 0
    for version in sorted(rebuilding.loads):
        if not checkpoint.asks(store.id, version):
            continue
        try:
            bad = rebuilding.at(version)
        except (NotFoundError, Superseded) as error:
            detail = f"{error.path} was deleted or replaced while it was read; run again"
            findings.append(Finding(FindingCode.SUPERSEDED, detail, store.id))
            break
        findings += (finding_of(store, error, checkpoint) for error in bad)
        checked += version >= first and not bad
    return checked, findings, rebuilding.read.keys()


def needed_deltas(store: Store, checkpoint: Checkpoint) -> Iterator[Delta]:
    first, last = checkpoint.span or (1, 0)
    lowest = store.versions.chain(min(store.versions.loadable(first, last), default=first))
    begin = lowest.start if isinstance(lowest, Chain) else first - 1
    for version in sorted(store.versions.deltas):
        if begin < version <= last:
            yield store.versions.deltas[version]


@dataclass(slots=True)
class _Rebuild:
    """Rebuilds one store's versions; each of their files is read once."""

    source: Source
    engine: Callable[[], Engine]
    store: Store
    depth: Depth
    suspects: Mapping[str, Suspect]  # these are compared separately
    retained: range  # the versions that Spark may load by lineage
    by_zips: bool  # whether the zips that lineages name must exist
    few: bool  # whether the checkpoint is so small that its small deltas need no compiled loops
    digests: dict[str, StateDigest] = field(default_factory=dict)
    read: dict[str, tuple[_Bad, ...]] = field(default_factory=dict)
    used: dict[str, frozenset[int]] = field(default_factory=dict)
    below: tuple[int, list[_Bad]] = (0, [])  # the version looked at last, and its files' errors
    versions: Versions = field(init=False)
    loads: frozenset[int] = field(init=False)
    trusted: set[int] = field(init=False)  # equal to the log, here or when proved
    zips: set[int] = field(init=False)  # by name, as Spark does: broken ones are included

    def __post_init__(self) -> None:
        self.versions = self.store.versions
        begin = 1 if self.depth is Depth.ROWS else self.retained.start
        self.loads = self.versions.loadable(begin, self.retained.stop - 1)
        loaded = self.store.rocks.loaded(self.store.files) if self.store.rocks else ()
        self.zips = {file.version for file in loaded if isinstance(file, Snapshot)}
        proofs = {proof.path: proof for proof in self.store.attestations}
        self.trusted = set()
        for snapshot in self.versions.snapshots.values():
            proof = proofs.get(snapshot.entry.path)
            if proof and proof.covers(snapshot.entry) and not self._is_suspect(snapshot):
                self.trusted.add(snapshot.version)

    def at(self, version: int) -> list[_Bad]:
        """Rebuilds a version that loads, and returns the errors of the files that it needs.

        Its snapshot is compared with the files below. The error of a file that several versions
        need is returned for each of them.
        """
        bad = self._of_chain(version)
        if not bad and self.used and version in self.retained:
            bad += self._unnamed(self._chain(version))
        snapshot = self.versions.snapshots.get(version)
        if bad or not snapshot or self._is_suspect(snapshot):
            return bad
        follows = version == 1 or version - 1 in self.loads  # the empty state always loads
        if follows and version in self.versions.deltas and snapshot.entry.path in self.digests:
            try:
                self._compare(snapshot)
            except (CheckpointError, UnsupportedError) as error:
                bad.append(error)
        return bad

    def _of_chain(self, version: int) -> list[_Bad]:
        """Returns the errors of a chain's files, which are those of the version below and one."""
        below, errors = self.below
        delta = self.versions.deltas.get(version)
        if delta and below == version - 1 and version not in self.versions.snapshots:
            errors = [*errors, *self._once(delta, self._delta)]
        else:
            chain = self._chain(version)
            errors = [*self._once(chain.base, self._snapshot)] if chain.base else []
            errors += (error for file in chain.deltas for error in self._once(file, self._delta))
        self.below = version, errors
        return [*errors]

    def _unnamed(self, chain: Chain) -> Iterator[_Bad]:
        """Yields the error of a chain whose base does not name every family that changes use."""
        for unnamed in islice(replace(self.versions, used=self.used).unnamed(chain), 1):
            path, detail = unnamed.delta.entry.path, f"Spark cannot load it: {unnamed.why}"
            code, version = FindingCode.BROKEN_CHAIN.value, unnamed.delta.version
            yield DamagedError(path, detail, code=code, version=version)

    def _once(self, file: _File, read: Callable[[_File], None]) -> tuple[_Bad, ...]:
        path = file.entry.path
        if path not in self.read:
            self.read[path] = ()
            try:
                read(file)
            except (CheckpointError, UnsupportedError) as error:
                self.read[path] = (_without_frames(error),)
        return self.read[path]

    def _delta(self, delta: Delta) -> None:
        by_id = delta.id and delta.version in self.retained
        header: list[Header] = []
        families = self.store.rocks.families if self.store.rocks else {}
        if self.depth is Depth.HEADERS or by_id or any(families.values()):
            whole = seems_whole(self.source, delta, header.append)
        # A store has column families or has not: any zip that names them tells.
        if header and (path := next((path for path, named in families.items() if named), None)):
            with in_file(delta.entry.path):
                header[0].must_be_like(path, column_families=True)
        if self.depth is not Depth.HEADERS or not whole:
            small = self.few and self.store.rocks is None and delta.entry.size < _SMALL
            engine = ClearEngine() if small else self.engine()
            if used := engine.check(self.source, delta):
                self.used[delta.entry.path] = used
        if by_id and header and delta.version not in self.zips:
            self._check_lineage(delta, header[0].lineage)

    def _check_lineage(self, delta: Delta, lineage: Lineage) -> None:
        ids = self.store.rocks.ids if self.store.rocks else {}
        item = delta.version, delta.id or ""
        if why := leads_nowhere(item, lineage, ids, self.zips if self.by_zips else None):
            detail, code = f"Spark cannot load it: {why}", FindingCode.LINEAGE_BROKEN.value
            alone = delta.version if leads_nowhere(item, lineage, ids, None) is None else None
            raise DamagedError(delta.entry.path, detail, code=code, version=alone)

    def _snapshot(self, snapshot: Snapshot) -> None:
        path = snapshot.entry.path
        if self.depth is Depth.HEADERS and path not in self.store.lapsed:
            # A zip is read by the scan.
            trusted = any(proof.path == path for proof in self.store.attestations)
            if trusted or self.store.rocks or seems_whole(self.source, snapshot):
                return
        self.digests[path] = self.engine().digest(self.source, path)

    def _compare(self, snapshot: Snapshot) -> None:
        """Compares a snapshot with the one below and the changes that follow it."""
        self.trusted.discard(snapshot.version)
        below, delta = self._chain(snapshot.version - 1), self.versions.deltas[snapshot.version]
        chain, base = Chain(snapshot.version, below.base, (*below.deltas, delta)), below.base
        try:
            self._must_equal(snapshot, chain)
        except (CheckpointError, UnsupportedError):
            if base is None or base.version in self.trusted:
                raise
            log = self.versions.from_log(snapshot.version, proved=self.trusted) or chain
            if log.start == base.version or (self._in_doubt(log) and not self._is_suspect(base)):
                raise
            self._compare_both(snapshot, base, log)
        else:
            if base is None or base.version in self.trusted:
                self.trusted.add(snapshot.version)

    def _compare_both(self, snapshot: Snapshot, base: Snapshot, log: Chain) -> None:
        """Lets the log decide which of two snapshots is wrong; the lower one was not compared."""
        if self._in_doubt(log):
            return
        self._must_equal(snapshot, log)
        self.trusted.add(snapshot.version)
        if not self._is_suspect(base):
            below = self.versions.from_log(base.version, proved=self.trusted)
            self._must_equal(base, below or log)

    def _must_equal(self, snapshot: Snapshot, chain: Chain) -> None:
        digest = self.digests.get(snapshot.entry.path)
        must_equal_fold(self.source, self.engine(), snapshot, chain, digest)

    def _is_suspect(self, snapshot: Snapshot) -> bool:
        return snapshot.entry.path in self.suspects

    def _in_doubt(self, chain: Chain) -> bool:
        if chain.base and self._is_suspect(chain.base):
            return True
        doubtful = (suspect for suspect in self.suspects.values() if not suspect.by_query)
        replaced = {version for suspect in doubtful for version in suspect.replaced}
        return any(chain.start < version <= chain.version for version in replaced)

    def _chain(self, version: int) -> Chain:
        chain = self.versions.chain(version)
        if not isinstance(chain, Chain):  # pragma: no cover -- only loadable versions are requested
            raise TypeError(chain)
        return chain


def must_equal_fold(
    source: Source,
    engine: Engine,
    snapshot: Snapshot,
    chain: Chain,
    digest: StateDigest | None = None,
) -> None:
    """Raises `SnapshotMismatchError` unless a snapshot, of a digest or read, is a chain's fold."""
    path, version = snapshot.entry.path, chain.version
    digest = digest or engine.digest(source, path)
    folded = engine.fold(source.like(snapshot), chain, (version,), write=False)
    must_equal(path, digest, folded.digests[version])


def _without_frames(error: _Bad) -> _Bad:
    """Returns an error without its frames and its cause, which hold parts of the file."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def finding_of(
    store: Store, error: CheckpointError | UnsupportedError, checkpoint: Checkpoint
) -> Finding:
    """Returns the finding for an error in a store's file, with the batches that are lost by it."""
    code, path = FindingCode(error.code), getattr(error, "path", None)
    offset = error.offset if isinstance(error, CodecError) else None
    read = error.owner if isinstance(error, StaleChecksumError) else path
    batches = spoiled(store, read, checkpoint) if read else ()
    version = error.version if isinstance(error, DamagedError) else None
    return Finding(code, str(error), store.id, version, path, offset, batches)


def spoiled(store: Store, path: str, checkpoint: Checkpoint) -> tuple[int, ...]:
    """Returns the batches of the commit log that are loaded from a file, ascending."""
    if checkpoint.span is None:
        return ()
    parts = store.rocks.parts if store.rocks else {}
    through = {path, *(snapshot for snapshot, named in parts.items() if path in named)}
    batches = (
        batches_through(store.versions, file_path, *checkpoint.span) for file_path in through
    )
    return tuple(sorted({batch for through_one in batches for batch in through_one}))
