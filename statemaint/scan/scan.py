"""From a storage to a `Checkpoint`."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from statemaint.codec import logs, schema
from statemaint.codec.codecs import COMPRESSIONS, named
from statemaint.errors import CodecError, NotACheckpointError, NotFoundError, UnsupportedError
from statemaint.listing import Entry
from statemaint.model.checkpoint import Checkpoint, Operator, Provider, Store
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId, version_of
from statemaint.scan.attestations import (
    ATTESTATIONS,
    Known,
    attestation_path,
    parse_attestations,
)
from statemaint.scan.layout import Layout, expected_stores, schemas_lacking, sort_out
from statemaint.scan.partitions import SETTING, count_in, may_have_changed, partition_counts
from statemaint.scan.proofs import with_proofs
from statemaint.scan.readable import with_unreadable
from statemaint.scan.rocks import Committed, with_rocks
from statemaint.storage import Storage

_BATCH = re.compile(r"0|[1-9][0-9]{0,18}")
_LAST_BATCH = 2**63 - 2  # a Java long, and so is the version behind it
_STATE = "spark.sql.streaming.stateStore"


@dataclass(slots=True)
class _Notes:
    findings: list[Finding] = field(default_factory=list)

    def add(
        self,
        code: FindingCode,
        detail: str,
        *,
        path: str | None = None,
        offset: int | None = None,
        batches: tuple[int, ...] = (),
    ) -> None:
        found = Finding(code, detail, path=path, offset=offset, batches=batches)
        self.findings.append(found)


def must_be_checkpoint(storage: Storage) -> None:
    """Makes sure, at little cost, that a place looks like a checkpoint.

    Raises:
        NotACheckpointError: when it does not.
        StorageError: when the storage fails.
    """
    if not _has_metadata(storage) and not any(True for _ in storage.list("offsets")):
        raise NotACheckpointError(storage.root, "offsets/")


def scan(storage: Storage, only: Callable[[StoreId], bool] | None = None) -> Checkpoint:
    """Returns everything that maintenance needs to know of a checkpoint.

    The commit log is read before the state is listed: every version that a commit promises has
    been written by then, whatever a running query adds meanwhile.

    Args:
        storage: where it lives.
        only: tells which stores to read; all of them by default.

    Raises:
        NotACheckpointError: when there is no offset log or commit log.
        UnsupportedError: for a provider, codec or option that cannot be maintained.
        StorageError: when anything could not be listed or read (S10).
    """
    notes = _Notes()
    offsets = dict(_numbered(storage, "offsets"))
    commits = dict(_numbered(storage, "commits"))
    _must_be_checkpoint(storage, offsets, commits)
    conf = _newest_conf(storage, offsets, notes)
    if commits and not offsets:
        detail = "offsets/ is empty although batches are committed; codec and provider are unknown"
        notes.add(FindingCode.UNREADABLE_OFFSET, detail)
    pinned = _committed_partitions(storage, offsets, commits, conf, notes)
    provider, codec = _provider(storage.root, conf), _codec(storage.root, conf)
    row_checksums = _row_checksums(conf, notes)
    ids = _committed(storage, commits, notes)
    listed = storage.now()
    layout = sort_out(storage.list("state"), provider)
    operators = tuple(_operators(storage, layout, notes))
    _check_schemas(storage, layout, notes)
    counts = _counts(storage, layout, ids, offsets, pinned) if provider is Provider.ROCKSDB else {}
    expected = expected_stores(layout, operators, pinned)
    asked = tuple(one for one in expected if only is None or only(one))
    stores = tuple(_stores(storage, layout, asked, listed))
    if provider is Provider.ROCKSDB:
        named = _Named(ids, expected, counts)
        stores = tuple(with_rocks(storage, one, named.of(one.id), codec) for one in stores)
    stores = tuple(with_unreadable(storage, one) for one in stores)
    return Checkpoint(
        root=storage.root,
        query_id=_query_id(storage, notes),
        batches=tuple(sorted(commits)),
        provider=provider,
        codec=codec,
        row_checksums=row_checksums,
        operators=operators,
        stores=stores,
        left_out=len(expected) - len(asked),
        partitions=_numbers(expected, counts.get(max(commits, default=-1))),
        offsets=tuple(sorted(offsets)),
        lacks=schemas_lacking(layout, operators),
        schemas=layout.schemas,
        commit_times={batch: entry.modified for batch, entry in commits.items()},
        commit=commits[max(commits)] if commits else None,
        running=offsets.get(max(commits, default=-1) + 1),
        counts=counts,
        findings=tuple(notes.findings) + tuple(_unknown(layout)),
        unclassified=tuple(entry for entry, _ in layout.unclassified),
    )


def _numbered(storage: Storage, folder: str) -> Iterator[tuple[int, Entry]]:
    """Yields a metadata log's entries; temp files and side files are not entries."""
    for entry in storage.list(folder):
        name = entry.path.removeprefix(f"{folder}/")
        if _BATCH.fullmatch(name) and int(name) <= _LAST_BATCH:
            yield int(name), entry


def _must_be_checkpoint(
    storage: Storage, offsets: Mapping[int, Entry], commits: Mapping[int, Entry]
) -> None:
    if offsets or commits:
        return
    if not any(True for _ in storage.list("offsets")) and not _has_metadata(storage):
        raise NotACheckpointError(storage.root, "offsets/")


def _has_metadata(storage: Storage) -> bool:
    try:
        return bool(logs.parse_query_id(storage.read("metadata")))
    except (NotFoundError, CodecError):
        return False


def _newest_conf(
    storage: Storage, offsets: Mapping[int, Entry], notes: _Notes
) -> Mapping[str, str]:
    if not offsets:
        return {}
    newest = offsets[max(offsets)].path
    try:
        return logs.parse_conf(storage.read(newest))
    except CodecError as error:
        detail = f"{error.at(newest)}; codec and provider are uncertain, so nothing is touched"
        notes.add(FindingCode.UNREADABLE_OFFSET, detail, path=newest, offset=error.offset)
    return _older_conf(storage, [offsets[one].path for one in sorted(offsets, reverse=True)[1:]])


def _older_conf(storage: Storage, paths: Iterable[str]) -> Mapping[str, str]:
    """Returns the newest settings that can be read: all that is left to name the files by."""
    for path in paths:
        with suppress(CodecError, NotFoundError):
            return logs.parse_conf(storage.read(path))
    return {}


def _committed_partitions(
    storage: Storage,
    offsets: Mapping[int, Entry],
    commits: Mapping[int, Entry],
    conf: Mapping[str, str],
    notes: _Notes,
) -> int | None:
    """Returns how many partitions the newest committed batch has.

    Notes a batch that was begun to change that, and is not committed (S20). Mirrors
    `OfflineStateRepartitionRunner`: such a batch differs from the one before in its
    `spark.sql.shuffle.partitions`, which no other batch ever does.
    """
    pinned = _partitions(conf, notes)
    if not offsets or not commits or max(commits) >= max(offsets) or max(commits) not in offsets:
        return pinned
    committed = offsets[max(commits)].path
    try:
        before = logs.parse_conf(storage.read(committed)).get(SETTING)
    except NotFoundError:
        return pinned  # purged since it was listed: a newer batch is committed by now
    except CodecError as error:
        notes.add(FindingCode.UNREADABLE_OFFSET, str(error.at(committed)))
        return pinned
    if not conf or before == conf.get(SETTING):
        return pinned
    detail = (
        f"offsets/{max(offsets)} changes {SETTING} from {before} to {conf.get(SETTING)} and "
        "is not committed; let the repartition end (or run it again), nothing is touched before"
    )
    notes.add(FindingCode.UNFINISHED_REPARTITION, detail)
    return None if before is None else _partitions({SETTING: before}, notes)


def _provider(root: str, conf: Mapping[str, str]) -> Provider:
    """Returns the provider, once it is one that we can maintain."""
    name = conf.get(f"{_STATE}.providerClass", Provider.HDFS_BACKED).rpartition(".")[2]
    try:
        return Provider(name)
    except ValueError as error:
        raise UnsupportedError(
            root, f"state store provider {name}", " and ".join(Provider)
        ) from error


def _codec(root: str, conf: Mapping[str, str]) -> str:
    setting = f"{_STATE}.compression.codec"
    codec = named(conf.get(setting, "lz4"))
    if codec is None:
        raise UnsupportedError(root, f"{setting}={conf[setting]}", ", ".join(COMPRESSIONS))
    return codec.name


def _row_checksums(conf: Mapping[str, str], notes: _Notes) -> bool:
    setting = f"{_STATE}.rowChecksum.enabled"
    pinned = conf.get(setting, "false")
    value = pinned.strip().lower()
    if value not in ("true", "false"):
        notes.add(FindingCode.UNREADABLE_OFFSET, f"offsets/: {setting} cannot be {pinned!r}")
    return value == "true"


def _partitions(conf: Mapping[str, str], notes: _Notes) -> int | None:
    try:
        return count_in(conf)
    except CodecError:
        detail = f"offsets/: {conf[SETTING]!r} shuffle partitions cannot be"
        notes.add(FindingCode.UNREADABLE_OFFSET, detail)
        return None


def _counts(
    storage: Storage,
    layout: Layout,
    ids: Mapping[int, logs.UniqueIds],
    offsets: Mapping[int, Entry],
    pinned: int | None,
) -> Mapping[int, int]:
    batches = sorted(ids)
    if not may_have_changed(layout.stores, ids, batches, pinned):
        return {}
    return partition_counts(storage, (one for one in batches if one in offsets))


def _numbers(expected: Iterable[StoreId], newest: int | None) -> dict[int, int]:
    """Returns how many partitions each operator has now."""
    found = {one.operator: one.partition + 1 for one in sorted(expected)}
    return {operator: min(count, newest or count) for operator, count in found.items()}


def _committed(
    storage: Storage, commits: Mapping[int, Entry], notes: _Notes
) -> dict[int, logs.UniqueIds]:
    """Returns the unique ids in each commit; one that cannot be read leaves nothing to rely on."""
    found = {}
    for batch in sorted(commits):
        path = commits[batch].path
        try:
            found[batch] = logs.parse_commit(storage.read(path))
        except NotFoundError:
            continue  # purged by the query since it was listed: it only lowers what we keep
        except CodecError as error:
            detail = f"{error.at(path)}; whether batch {batch} was committed is unknown"
            code, lost = FindingCode.UNREADABLE_COMMIT, (batch,)
            notes.add(code, detail, path=path, offset=error.offset, batches=lost)
    if not commits:
        notes.add(FindingCode.NO_COMMITTED_BATCH, "no batch is committed yet: nothing to do")
    return found


class _Named:
    """The unique ids in the commit log, store by store."""

    def __init__(
        self,
        ids: Mapping[int, logs.UniqueIds],
        stores: Iterable[StoreId],
        counts: Mapping[int, int],
    ) -> None:
        self._ids, self._counts = ids, counts
        self._names: dict[int, set[str]] = defaultdict(set)
        for store in stores:
            self._names[store.operator].add(store.store)

    def of(self, store: StoreId) -> Committed:
        """Returns the id of each version of a store that a commit is there for.

        A commit lists an operator's stores in the order of their names.
        """
        place = sorted(self._names[store.operator]).index(store.store)
        return {
            version_of(batch): _id(ids, store, place)
            for batch, ids in self._ids.items()
            if store.partition < self._counts.get(batch, store.partition + 1)
        }


def _id(ids: logs.UniqueIds, store: StoreId, place: int) -> str | None:
    """Returns `None` for a commit without ids; one that is not whole names what nobody has."""
    if not ids:
        return None
    partitions = ids.get(store.operator, ())
    stores = partitions[store.partition] if store.partition < len(partitions) else ()
    return stores[place] if place < len(stores) else "unknown"


def _query_id(storage: Storage, notes: _Notes) -> str:
    try:
        return logs.parse_query_id(storage.read("metadata"))
    except NotFoundError:
        return ""
    except CodecError as error:
        notes.add(FindingCode.UNREADABLE_METADATA, str(error.at("metadata")))
        return ""


def _operators(storage: Storage, layout: Layout, notes: _Notes) -> Iterator[Operator]:
    for number, entry in sorted(layout.operators.items()):
        try:
            found = logs.parse_operator(storage.read(entry.path))
        except CodecError as error:
            detail, at = str(error.at(entry.path)), error.offset
            notes.add(FindingCode.UNREADABLE_METADATA, detail, path=entry.path, offset=at)
            continue
        yield Operator(number, found.name, found.stores, found.partitions)


def _check_schemas(storage: Storage, layout: Layout, notes: _Notes) -> None:
    for _, entry in sorted(layout.schemas.items()):
        try:
            schema.parse_schema(storage.read(entry.path))
        except CodecError as error:
            detail, at = str(error.at(entry.path)), error.offset
            notes.add(FindingCode.UNREADABLE_METADATA, detail, path=entry.path, offset=at)


def _stores(
    storage: Storage, layout: Layout, asked: tuple[StoreId, ...], listed: float
) -> Iterator[Store]:
    attested = {entry.path for entry in storage.list(ATTESTATIONS)}
    for store in asked:
        path = attestation_path(store)
        known = _known(storage, path) if path in attested else Known()
        files = layout.stores.get(store, ())
        found = Store(
            store, files, written=known.written, since=known.since,
            uploads=known.uploads, listed=listed,
        )  # fmt: skip
        yield with_proofs(storage, found, known.proofs, listed)


def _known(storage: Storage, path: str) -> Known:
    try:
        return parse_attestations(storage.read(path))
    except (NotFoundError, CodecError):
        return Known()


def _unknown(layout: Layout) -> Iterator[Finding]:
    for entry, known in layout.unclassified:
        if not known:
            detail = f"{entry.path}: no file that Spark writes; it is kept"
            yield Finding(FindingCode.UNKNOWN_FILE, detail)
