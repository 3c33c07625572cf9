"""The scan: from a storage to a `Checkpoint`."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.metadata import logs, schema
from statemaint.errors import CodecError
from statemaint.listing import Entry
from statemaint.model.checkpoint import MAINTAINED, Checkpoint, Operator, Provider, Store
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId
from statemaint.records.attestations import (
    ATTESTATIONS,
    LedgerFiles,
    StoreNotes,
    announced_in,
    attested_stores,
    read_attestations,
)
from statemaint.scan.handover import ScanPart
from statemaint.scan.identity import (
    holding_pins,
    link_findings,
    must_be_checkpoint,
    pin_findings,
)
from statemaint.scan.layout import (
    Layout,
    Refused,
    blocking_directories,
    unless_refused,
    unread,
)
from statemaint.scan.proofs import with_proofs, with_unreadable
from statemaint.scan.query_logs import (
    ENCODING,
    ROW_CHECKSUMS,
    Notes,
    committed_ids,
    committed_partitions,
    may_have_changed,
    newest_offsets,
    numbered,
    partition_counts,
    query_id,
    recognized,
    row_checksums_of,
    unreadable_metadata,
)
from statemaint.scan.required import (
    Evidence,
    expected_stores,
    findings_of_unused,
    undeclared_operators,
)
from statemaint.scan.rocks import FamilySchemas, RocksReading
from statemaint.storage import Storage
from statemaint.workers import in_order


def scan(
    storage: Storage,
    only: Callable[[StoreId], bool] | None = None,
    *,
    part: ScanPart | None = None,
) -> Checkpoint:
    """Returns everything that maintenance needs to know about a checkpoint.

    The commit log is read before the state is listed: every version that a commit promises has
    been written by then, whatever a running query adds in the meantime.

    `only` filters the stores to read. `part` has the partitions to list, and an earlier scan's
    result for the rest; everything is listed without it, and if the logs show more than new batches
    since.

    Raises:
        NotACheckpointError: when no query has written anything there.
        UnsupportedError: for a provider, codec or option that cannot be maintained.
    """
    notes: Notes = []
    offsets, commits = (dict(numbered(storage, folder)) for folder in ("offsets", "commits"))
    if not offsets and not commits:
        must_be_checkpoint(storage)
    newest = newest_offsets(storage, offsets, notes)
    pinned = committed_partitions(storage, offsets, commits, newest.conf, notes)
    if part and not part.still_holds(storage, commits, pinned):
        return scan(storage, only)
    row_checksums = row_checksums_of(newest.conf, notes)
    ids = committed_ids(storage, commits, notes)
    pins = holding_pins(storage, listed := storage.now())
    refused = Refused()
    layout, codec, attested = _looked_up(storage, newest.conf, part, refused)
    _check_logs(offsets, commits, layout, notes)
    operators = tuple(_operators(storage, layout, notes))
    evidence = Evidence(
        listed=frozenset(layout.stores) | (part.others(part.handover.stores) if part else set()),
        operators={operator.id: operator for operator in operators},
        pinned=pinned,
        named={it: tuple(map(len, of)) for it, of in (ids[max(ids)] if ids else {}).items()},
        keyed=_keyed(storage, layout, operators, notes),
        # A task does not know which operators have left the query; its plan looked for lost ones.
        described=frozenset() if part else layout.described(),
        copied=frozenset(it.id for it in operators if it.declared_id not in (None, it.id)),
        noted=frozenset(attested.stores) | (part.others(part.handover.noted) if part else set()),
    )
    undeclared = undeclared_operators(
        storage, layout, evidence, attested.stores, None if part else max(commits, default=None)
    )
    whole = layout.without(undeclared.removed)
    counts = _counts(storage, whole, ids, offsets, pinned=pinned, part=part)
    evidence = replace(evidence, counts=counts, removed=frozenset(undeclared.removed))
    expected = () if layout.provider is Provider.UNKNOWN else expected_stores(evidence)
    requested = tuple(store for store in expected if only is None or only(store))
    stores = tuple(_stores(storage, layout, requested, attested, refused, listed))
    if layout.provider is Provider.ROCKSDB:
        reading = RocksReading(
            storage,
            ids,
            expected,
            counts,
            COMPRESSIONS[codec],
            row_checksums,
            _family_schemas(storage, layout, operators, expected),
            settled=ENCODING not in newest.conf or ROW_CHECKSUMS in newest.conf,
        )
        stores = tuple(reading.all(stores))
    # The plan of the run reports them.
    unused = () if part else tuple(sorted(evidence.listed - set(expected)))
    left = (file.entry for store in unused for file in layout.stores[store])
    if not expected and layout.provider is not Provider.UNKNOWN:
        _check_state(offsets, commits, newest, notes)
    return Checkpoint(
        root=storage.root,
        query_id=query_id(storage, notes, begun=bool(offsets or commits)),
        batches=tuple(sorted(commits)),
        provider=layout.provider,
        codec=codec,
        row_checksums=row_checksums,
        operators=operators,
        stores=tuple(it if it.unread else with_unreadable(storage, it) for it in stores),
        left_out=len(expected) - len(requested),
        partitions=_numbers(expected, counts.get(max(commits, default=-1))),
        offsets=tuple(sorted(offsets)),
        lacks=refused.missing_schemas(layout, operators),
        schemas=layout.schemas,
        planned={batch: entry.modified for batch, entry in offsets.items()},
        commit_times={batch: entry.modified for batch, entry in commits.items()},
        commit=commits[max(commits)] if commits else None,
        running=offsets.get(max(commits, default=-1) + 1),
        counts=counts,
        pinned=pinned,
        file_sources=newest.file_sources,
        pins=pins,
        findings=(
            *link_findings(storage),
            *_needed(notes, layout, expected),
            *_undescribed(stores, layout),
            *_unknown(layout),
            *(() if part else pin_findings(pins)),
            *findings_of_unused(evidence, unused, undeclared),
        ),
        unclassified=tuple(sorted([*(entry for entry, _ in layout.unclassified), *left])),
        directories=blocking_directories(layout),
    )


def _looked_up(
    storage: Storage, conf: Mapping[str, str], part: ScanPart | None, refused: Refused
) -> tuple[Layout, str, LedgerFiles]:
    state = part.state(storage, refused) if part else refused.listed(storage.list("state"))
    layout, codec = recognized(storage, conf, state)
    ledger = part.listed(storage, ATTESTATIONS, refused) if part else storage.list(ATTESTATIONS)
    return refused.with_stores(layout), codec, attested_stores(refused.listed(ledger))


def _check_logs(
    offsets: Mapping[int, Entry], commits: Mapping[int, Entry], layout: Layout, notes: Notes
) -> None:
    # Without an offset log a restart begins with batch 0. Spark 4.3 refuses to do so if state or
    # commits of another query exist; older versions mix the two.
    code, path = FindingCode.UNREADABLE_OFFSET, "offsets"
    if layout.provider is Provider.UNKNOWN:
        detail = (
            "no readable entry of offsets/ names the provider, and state/ has files of both "
            f"{' and '.join(MAINTAINED)}: no store was looked at, and nothing is touched. Put the "
            "logs back from a copy"
        )
        notes.append(Finding(code, detail, path=path))
    if not offsets and (commits or layout.stores):
        what = "offsets/ is" if commits else "offsets/ and commits/ are"
        why = "batches are committed" if commits else "there is state"
        detail = (
            f"{what} missing or empty although {why}: a restart would begin with batch 0 and fail, "
            "or mix old state into the new; provider and codec are unknown, but for what the files "
            "of the state show. Put the logs back from a copy"
        )
        notes.append(Finding(code, detail, path=path))
    elif not commits:
        only = (
            "there is only metadata: no batch has begun, or all else was removed; a query that is "
            "started here begins with its first batch"
        )
        yet = "" if max(offsets, default=0) else " yet"
        detail = f"no batch is committed{yet}: nothing to do" if offsets else only
        notes.append(Finding(FindingCode.NO_COMMITTED_BATCH, detail))


def _check_state(
    offsets: Mapping[int, Entry], commits: Mapping[int, Entry], newest: logs.Offsets, notes: Notes
) -> None:
    # Missing state is normal only for a query without stateful operators, and so no watermark.
    lost = tuple(sorted(commits)) or tuple(sorted(offsets))
    if max(offsets, default=0) == 0 or not lost:
        return
    why = ": a query restarts only if none of its operators has state"
    if newest.watermark:
        why = (
            " although the query has a watermark: it does not restart without its state; put the "
            "folder back from a copy"
        )
    detail, batches = f"state/ is missing or empty{why}", lost if newest.watermark else ()
    notes.append(Finding(FindingCode.NO_STATE, detail, path="state", batches=batches))


def _family_schemas(
    storage: Storage, layout: Layout, operators: Iterable[Operator], stores: Iterable[StoreId]
) -> Mapping[tuple[int, str], FamilySchemas]:
    keyed = {(store.operator, store.store): files for store, files in layout.families.items()}
    tagged = {operator.id for operator in operators if operator.has_families}
    names = {(store.operator, store.store) for store in stores if store.operator in tagged}
    return {name: FamilySchemas(storage, keyed.get(name, ())) for name in names | keyed.keys()}


def _operators(storage: Storage, layout: Layout, notes: Notes) -> Iterator[Operator]:
    for number, entry in sorted(layout.operators.items()):
        try:
            metadata = logs.parse_operator(storage.read(entry.path))
        except CodecError as error:
            notes.append(unreadable_metadata(error, entry.path))
            continue
        yield Operator(number, metadata.name, metadata.stores, metadata.partitions, metadata.id)


def _counts(
    storage: Storage,
    layout: Layout,
    ids: Mapping[int, logs.UniqueIds],
    offsets: Mapping[int, Entry],
    *,
    pinned: int | None,
    part: ScanPart | None,
) -> Mapping[int, int]:
    if part:
        known = part.handover.counts
        return {**known, **dict.fromkeys(part.added(ids), pinned)} if known and pinned else known
    rocks = layout.provider is Provider.ROCKSDB
    if not rocks or not may_have_changed(layout.stores, ids, pinned):
        return {}
    return partition_counts(storage, sorted(ids.keys() & offsets.keys()))


def _numbers(expected: Iterable[StoreId], newest: int | None) -> dict[int, int]:
    counts = {store.operator: store.partition + 1 for store in sorted(expected)}
    return {operator: min(count, newest or count) for operator, count in counts.items()}


def _keyed(
    storage: Storage, layout: Layout, operators: Iterable[Operator], notes: Notes
) -> frozenset[int]:
    # An operator that declares its stores has schemas; a missing schema may have had a key.
    keyed = {store.operator for store in layout.families}
    keyed |= {operator.id for operator in operators} - {store.operator for store in layout.schemas}
    for store, entry in sorted(layout.schemas.items()):
        try:
            has_key = schema.parse_schema(storage.read(entry.path)).has_key
        except CodecError as error:
            notes.append(unreadable_metadata(error, entry.path))
            has_key = True
        keyed |= {store.operator} if has_key else set()
    return frozenset(keyed)


def _needed(
    findings: Iterable[Finding], layout: Layout, expected: Iterable[StoreId]
) -> Iterator[Finding]:
    """Yields findings; a schema of a store that the query does not have is no damage to it."""
    stores = frozenset(expected)
    others = {entry.path for store, entry in layout.schemas.items() if store not in stores}
    for finding in findings:
        if finding.code is FindingCode.UNREADABLE_METADATA and finding.path in others:
            detail = f"{finding.detail}; the query has no such store, so the file is kept"
            yield Finding(FindingCode.UNKNOWN_FILE, detail, path=finding.path)
        else:
            yield finding


def _stores(
    storage: Storage,
    layout: Layout,
    requested: tuple[StoreId, ...],
    attested: LedgerFiles,
    refused: Refused,
    listed: float,
) -> Iterator[Store]:
    announced = announced_in(storage, attested.announcements)

    def scanned(id_: StoreId) -> Store:
        store = Store(id_, layout.stores.get(id_, ()))
        if error := refused.errors.get(id_.unit):
            return unread(store, error)
        return unless_refused(store, partial(readable, store))

    def readable(store: Store) -> Store:
        path = attested.stores.get(store.id)
        notes = read_attestations(storage, path) if path else StoreNotes()
        notes = notes.announcing(announced.get(store.id, StoreNotes()))
        noted = replace(
            store, written=notes.written, since=notes.since, uploads=notes.uploads, listed=listed
        )
        return with_proofs(storage, noted, notes.proofs, listed)

    jobs = (partial(scanned, store) for store in requested)
    return in_order(jobs, threads=storage.parallel if attested.stores else 1)


def _undescribed(stores: Iterable[Store], layout: Layout) -> Iterator[Finding]:
    # Operators with column families: Spark writes the metadata of others again.
    zips = {store.id: store.rocks.families.values() for store in stores if store.rocks}
    tagged = {store.operator for store, families in zips.items() if any(families)}
    tagged |= {store.operator for store in layout.families if zips}
    for number in sorted(tagged - layout.operators.keys()):
        path = f"state/{number}/_metadata"
        detail = (
            f"{path} is missing: a restart of an operator with column families fails without its "
            "metadata (STDS_FAILED_TO_READ_OPERATOR_METADATA); put the folder back from a copy"
        )
        yield Finding(FindingCode.UNREADABLE_METADATA, detail, path=path)


def _unknown(layout: Layout) -> Iterator[Finding]:
    for entry, by_spark in layout.unclassified:
        if not by_spark:
            detail = f"{entry.path}: not a file that Spark writes; it is kept"
            yield Finding(FindingCode.UNKNOWN_FILE, detail)
