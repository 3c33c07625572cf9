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
    FOLDER,
    Known,
    attestation_path,
    parse_attestations,
    store_of,
)
from statemaint.scan.layout import (
    Layout,
    directories_named_as_files,
    schemas_lacking,
    sort_out,
)
from statemaint.scan.proofs import with_proofs
from statemaint.scan.required import Evidence, required_stores, unused_stores
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
    folders = ("offsets", "commits", "state")
    if _has_metadata(storage) or any(_has_files(storage, one) for one in folders):
        return
    empty = (
        "it is empty or does not exist: a query that is started here begins with its first batch"
    )
    other = "it has neither offsets/ nor commits/ nor state/ nor the file metadata"
    raise NotACheckpointError(storage.root, other if _has_files(storage, "") else empty)


def _has_files(storage: Storage, folder: str) -> bool:
    return any(True for _ in storage.list(folder))


def scan(storage: Storage, only: Callable[[StoreId], bool] | None = None) -> Checkpoint:
    """Returns everything that maintenance needs to know of a checkpoint.

    The commit log is read before the state is listed: every version that a commit promises has
    been written by then, whatever a running query adds meanwhile.

    Args:
        storage: where it lives.
        only: tells which stores to read; all of them by default.

    Raises:
        NotACheckpointError: when a query has written nothing there.
        UnsupportedError: for a provider, codec or option that cannot be maintained.
        StorageError: when anything could not be listed or read (S10).
    """
    notes = _Notes()
    offsets = dict(_numbered(storage, "offsets"))
    commits = dict(_numbered(storage, "commits"))
    if not offsets and not commits:
        must_be_checkpoint(storage)
    newest = _newest_offsets(storage, offsets, notes)
    conf = newest.conf
    _check_repartition(storage, offsets, commits, conf, notes)
    provider, codec = _provider(storage.root, conf), _codec(storage.root, conf)
    row_checksums = _row_checksums(conf, notes)
    ids = _committed(storage, commits, notes)
    listed = storage.now()
    layout = sort_out(storage.list("state"), provider)
    _check_offsets(offsets, commits, layout, notes)
    attested = _attested(storage)
    operators = tuple(_operators(storage, layout, notes))
    batch = max(offsets, default=None)
    known = Evidence(
        listed=frozenset(layout.stores),
        operators={one.id: one for one in operators},
        pinned=_pinned(conf, batch, notes),
        named=_named_by(ids[max(ids)]) if ids else {},
        keyed=_keyed(storage, layout, operators, notes),
        copied=frozenset(one.id for one in operators if one.declared_id not in (None, one.id)),
        noted=frozenset(attested),
    )
    expected = required_stores(known, batch)
    asked = tuple(one for one in expected if only is None or only(one))
    stores = tuple(_stores(storage, layout, asked, attested, listed))
    if provider is Provider.ROCKSDB:
        named = _Named(ids, expected)
        stores = tuple(with_rocks(storage, one, named.of(one.id), codec) for one in stores)
    unused = unused_stores(known, expected)
    if not expected:
        _check_state(offsets, commits, newest, notes)
    return Checkpoint(
        root=storage.root,
        query_id=_query_id(storage, notes, begun=bool(offsets or commits)),
        batches=tuple(sorted(commits)),
        provider=provider,
        codec=codec,
        row_checksums=row_checksums,
        operators=operators,
        stores=stores,
        left_out=len(expected) - len(asked),
        partitions={one.operator: one.partition + 1 for one in sorted(expected)},
        offsets=tuple(sorted(offsets)),
        lacks=schemas_lacking(layout, operators),
        schemas=layout.schemas,
        commit_times={batch: entry.modified for batch, entry in commits.items()},
        commit=commits[max(commits)] if commits else None,
        running=offsets.get(max(commits, default=-1) + 1),
        findings=(*notes.findings, *_unknown(layout), *_unused(unused)),
        unclassified=tuple(sorted(_unclassified(layout, unused))),
        directories=tuple(directories_named_as_files(layout)),
    )


def _numbered(storage: Storage, folder: str) -> Iterator[tuple[int, Entry]]:
    """Yields a metadata log's entries; temp files and side files are not entries."""
    for entry in storage.list(folder):
        name = entry.path.removeprefix(f"{folder}/")
        if _BATCH.fullmatch(name) and int(name) <= _LAST_BATCH:
            yield int(name), entry


def _has_metadata(storage: Storage) -> bool:
    try:
        return bool(logs.parse_query_id(storage.read("metadata")))
    except (NotFoundError, CodecError):
        return False


_NOTHING_PINNED = logs.Offsets({}, 0, ())


def _newest_offsets(storage: Storage, offsets: Mapping[int, Entry], notes: _Notes) -> logs.Offsets:
    if not offsets:
        return _NOTHING_PINNED
    newest = offsets[max(offsets)].path
    try:
        return logs.parse_offsets(storage.read(newest))
    except CodecError as error:
        detail = f"{error.at(newest)}; codec and provider are uncertain, so nothing is touched"
        notes.add(FindingCode.UNREADABLE_OFFSET, detail, path=newest, offset=error.offset)
    return _older_offsets(storage, [offsets[one].path for one in sorted(offsets, reverse=True)[1:]])


def _older_offsets(storage: Storage, paths: Iterable[str]) -> logs.Offsets:
    """Returns the newest entry that can be read: all that is left to name the files by."""
    for path in paths:
        with suppress(CodecError, NotFoundError):
            return logs.parse_offsets(storage.read(path))
    return _NOTHING_PINNED


def _check_offsets(
    offsets: Mapping[int, Entry], commits: Mapping[int, Entry], layout: Layout, notes: _Notes
) -> None:
    """Notes that there is no offset log although batches have run.

    A restart begins with batch 0 then. Spark 4.3 refuses to do so where the state or the commit of
    another query lies; older versions mix the two.
    """
    if offsets or not (commits or layout.stores):
        return
    what = "offsets/ is" if commits else "offsets/ and commits/ are"
    why = "batches are committed" if commits else "there is state"
    detail = (
        f"{what} missing or empty although {why}: a restart would begin with batch 0 and fail, or "
        "mix old state into the new; provider and codec are unknown. Put the logs back from a copy"
    )
    notes.add(FindingCode.UNREADABLE_OFFSET, detail, path="offsets")


def _check_state(
    offsets: Mapping[int, Entry], commits: Mapping[int, Entry], newest: logs.Offsets, notes: _Notes
) -> None:
    """Notes that there is no state at all, which only a query without stateful operators lacks.

    Nobody sets a watermark for a query that has no state.
    """
    lost = tuple(sorted(commits)) or tuple(sorted(offsets))
    if max(offsets, default=0) == 0 or not lost:
        return
    if newest.watermark:
        detail = (
            "state/ is missing or empty although the query has a watermark: it does not restart "
            "without its state; put the folder back from a copy"
        )
        notes.add(FindingCode.NO_STATE, detail, path="state", batches=lost)
    else:
        detail = "state/ is missing or empty: a query restarts only if no operator of it has state"
        notes.add(FindingCode.NO_STATE, detail, path="state")


def _check_repartition(
    storage: Storage,
    offsets: Mapping[int, Entry],
    commits: Mapping[int, Entry],
    conf: Mapping[str, str],
    notes: _Notes,
) -> None:
    """Notes a batch that was begun to change the number of partitions, and is not committed (S20).

    Mirrors `OfflineStateRepartitionRunner`: such a batch differs from the one before in its
    `spark.sql.shuffle.partitions`, which no other batch ever does.
    """
    if not offsets or not commits or max(commits) >= max(offsets) or max(commits) not in offsets:
        return
    setting, committed = "spark.sql.shuffle.partitions", offsets[max(commits)].path
    try:
        before = logs.parse_conf(storage.read(committed)).get(setting)
    except NotFoundError:
        return  # purged since it was listed: a newer batch is committed by now
    except CodecError as error:
        notes.add(FindingCode.UNREADABLE_OFFSET, str(error.at(committed)))
        return
    if conf and before != conf.get(setting):
        detail = (
            f"offsets/{max(offsets)} changes {setting} from {before} to {conf.get(setting)} and "
            "is not committed; let the repartition end (or run it again), nothing is touched before"
        )
        notes.add(FindingCode.UNFINISHED_REPARTITION, detail)


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


def _pinned(conf: Mapping[str, str], batch: int | None, notes: _Notes) -> dict[int, int]:
    """Returns how many shuffle partitions a batch has, where its offsets pin a number."""
    pinned = conf.get("spark.sql.shuffle.partitions")
    if pinned is None or batch is None:
        return {}
    try:
        return {batch: logs.check_partitions(int(pinned))}
    except (ValueError, CodecError):
        notes.add(
            FindingCode.UNREADABLE_OFFSET, f"offsets/: {pinned!r} shuffle partitions cannot be"
        )
        return {}


def _named_by(ids: logs.UniqueIds) -> dict[int, tuple[int, ...]]:
    return {operator: tuple(len(stores) for stores in found) for operator, found in ids.items()}


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

    def __init__(self, ids: Mapping[int, logs.UniqueIds], stores: Iterable[StoreId]) -> None:
        self._ids = ids
        self._names: dict[int, set[str]] = defaultdict(set)
        for store in stores:
            self._names[store.operator].add(store.store)

    def of(self, store: StoreId) -> Committed:
        """Returns the id of each version of a store that a commit is there for.

        A commit lists an operator's stores in the order of their names.
        """
        place = sorted(self._names[store.operator]).index(store.store)
        return {version_of(batch): _id(ids, store, place) for batch, ids in self._ids.items()}


def _id(ids: logs.UniqueIds, store: StoreId, place: int) -> str | None:
    """Returns `None` for a commit without ids; one that is not whole names what nobody has."""
    if not ids:
        return None
    partitions = ids.get(store.operator, ())
    stores = partitions[store.partition] if store.partition < len(partitions) else ()
    return stores[place] if place < len(stores) else "unknown"


def _query_id(storage: Storage, notes: _Notes, *, begun: bool) -> str:
    try:
        return logs.parse_query_id(storage.read("metadata"))
    except NotFoundError:
        if begun:
            detail = (
                "metadata, which has the query's id, is missing: Spark 4.2 and later refuse to "
                "start a query that has batches without it, older ones give it a new id; put the "
                "file back from a copy"
            )
            notes.add(FindingCode.MISSING_METADATA, detail, path="metadata")
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
        yield Operator(number, found.name, found.stores, found.partitions, found.id)


def _keyed(
    storage: Storage, layout: Layout, operators: Iterable[Operator], notes: _Notes
) -> frozenset[int]:
    """Returns the operators whose state has a key; notes each schema that cannot be read.

    An operator that declares its stores has schemas; where one is missing it may have had a key.
    """
    found = {store.operator for store in layout.families}
    found |= {one.id for one in operators} - {store.operator for store in layout.schemas}
    for store, entry in sorted(layout.schemas.items()):
        try:
            if schema.parse_schema(storage.read(entry.path)).has_key:
                found.add(store.operator)
        except CodecError as error:
            detail, at = str(error.at(entry.path)), error.offset
            notes.add(FindingCode.UNREADABLE_METADATA, detail, path=entry.path, offset=at)
            found.add(store.operator)
    return frozenset(found)


def _attested(storage: Storage) -> dict[StoreId, str]:
    """Returns the ledger's file of each store that it knows."""
    paths = (entry.path for entry in storage.list(FOLDER))
    return {store: path for path in paths if (store := store_of(path))}


def _stores(
    storage: Storage,
    layout: Layout,
    asked: tuple[StoreId, ...],
    attested: Mapping[StoreId, str],
    listed: float,
) -> Iterator[Store]:
    for store in asked:
        known = _known(storage, attested[store]) if store in attested else Known()
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


def _unclassified(layout: Layout, unused: Iterable[StoreId]) -> Iterator[Entry]:
    yield from (entry for entry, _ in layout.unclassified)
    yield from (file.entry for store in unused for file in layout.stores[store])


def _unused(stores: Iterable[StoreId]) -> Iterator[Finding]:
    for store in stores:
        detail = (
            f"{store.directory} belongs to no partition of an operator that the query has: no "
            "restart reads it, and it is kept"
        )
        yield Finding(FindingCode.UNUSED_STORE, detail, path=store.directory)


def _unknown(layout: Layout) -> Iterator[Finding]:
    for entry, known in layout.unclassified:
        if not known:
            detail = f"{entry.path}: no file that Spark writes; it is kept"
            yield Finding(FindingCode.UNKNOWN_FILE, detail)
