"""The store that each file under `state/` belongs to, and stores that cannot be read. Pure.

state/<op>/<partition>/<file>                      the default store
state/<op>/<partition>/<store>/<file>              a named store
state/<op>/<partition>[/<store>]/SSTs/<file>       shared files of RocksDB, also in logs/<file>
state/<op>/_metadata/metadata                      operator metadata (Spark 4.0+)
state/<op>/_metadata/v2/<batch>                    the same, of newer operators
state/<op>/0[/<store>]/_metadata/schema            state schema
state/<op>/_stateSchema/<store>/<file>             state schema of newer operators
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial

from statemaint.errors import IncompleteListingError, RefusedLinkError, StorageError
from statemaint.listing import Entry
from statemaint.model.checkpoint import Operator, Provider, Store
from statemaint.model.files import (
    HDFS_NAMES,
    ROCKS_NAMES,
    UUID,
    ChecksumFile,
    SstFile,
    StateFile,
    TempFile,
    UnknownFile,
    with_companions,
)
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import DEFAULT_STORE, StoreId, UnitId
from statemaint.model.rocks import Rocks
from statemaint.records.attestations import ATTESTATIONS

_NUMBER = r"(0|[1-9][0-9]{0,8})"
_STORE = r"[A-Za-z][A-Za-z0-9-]*"
_HDFS_FOLDER = re.compile(rf"state/{_NUMBER}/{_NUMBER}(?:/({_STORE}))?")
_ROCKS_FOLDER = re.compile(
    rf"state/{_NUMBER}/{_NUMBER}(?:/(?!(?:SSTs|logs)(?:/|$))({_STORE}))?"
    r"(?:/(SSTs|logs))?"
)
_OPERATOR = re.compile(rf"state/{_NUMBER}/_metadata/(?:metadata|v2/{_NUMBER})")
_SCHEMA = re.compile(rf"state/{_NUMBER}/0(?:/({_STORE}))?/_metadata/schema")
_FAMILIES = re.compile(rf"state/{_NUMBER}/_stateSchema/({_STORE})/[^/.][^/]*")
_DIRECTORY = re.compile(
    rf"(state/{_NUMBER}/{_NUMBER}(?:/{_STORE})?/[^/]+\.(?:delta|snapshot|changelog|zip))/.*"
)
_OF_UNIT = re.compile(rf"(?:state|{ATTESTATIONS})/{_NUMBER}/{_NUMBER}(?:/.*)?")
_BATCH = r"(?:0|[1-9][0-9]{0,18})"
_OF_OPERATOR = (
    ("_metadata", "metadata"),
    ("_metadata/v2", _BATCH),
    (rf"0(?:/{_STORE})?/_metadata", "schema"),
    (rf"_stateSchema/{_STORE}", rf"{_BATCH}_{UUID}"),
)
_KNOWN = re.compile(
    rf"state/{_NUMBER}/(?:"
    + "|".join(rf"{folder}/(?:{with_companions(name)})" for folder, name in _OF_OPERATOR)
    + ")"
)


@dataclass(frozen=True, slots=True)
class Layout:
    """The listing of `state/`, sorted by kind and store, for the names of one provider."""

    stores: Mapping[StoreId, tuple[StateFile, ...]]
    operators: Mapping[int, Entry]
    schemas: Mapping[StoreId, Entry]  # of each operator's stores, under partition 0
    families: Mapping[StoreId, tuple[Entry, ...]]  # schemas of column families, as if there
    # All other files, and whether Spark writes such a file, or may if the provider is unknown.
    unclassified: tuple[tuple[Entry, bool], ...]
    provider: Provider

    def described(self) -> frozenset[StoreId]:
        return frozenset(self.schemas.keys() | self.families.keys())

    def without(self, operators: Collection[int]) -> "Layout":
        stores = self.stores.items()
        return replace(self, stores={it: of for it, of in stores if it.operator not in operators})


def sort_out(entries: Iterable[Entry], provider: Provider = Provider.HDFS_BACKED) -> Layout:
    """Returns the layout of a listing, whatever its order; an unknown provider has no stores."""
    recognized = cache(partial(_recognized, provider))  # once for each directory
    stores: dict[StoreId, list[StateFile]] = defaultdict(list)
    operators: dict[int, Entry] = {}
    schemas: dict[StoreId, Entry] = {}
    families: dict[StoreId, tuple[Entry, ...]] = defaultdict(tuple)
    rest: list[tuple[Entry, bool]] = []
    for entry in sorted(entries, key=lambda entry: entry.path):
        folder, _, name = entry.path.rpartition("/")
        if name and (place := recognized(folder)):  # the path of a directory ends with a slash
            stores[place[0]].append(_classified(entry, place[1], provider))
            continue
        if match := _OPERATOR.fullmatch(entry.path):
            earlier = operators.get(int(match[1]))
            operators[int(match[1])] = max((earlier or entry, entry), key=_written_by)
        elif match := _SCHEMA.fullmatch(entry.path):
            schemas[StoreId(int(match[1]), 0, match[2] or DEFAULT_STORE)] = entry
        elif match := _FAMILIES.fullmatch(entry.path):
            families[StoreId(int(match[1]), 0, match[2])] += (entry,)
        by_spark = provider is Provider.UNKNOWN or _KNOWN.fullmatch(entry.path) is not None
        rest.append((entry, by_spark))
    classified = {key: tuple(files) for key, files in stores.items()}
    return Layout(classified, operators, schemas, families, tuple(rest), provider)


def _written_by(operator: Entry) -> int:
    # The batch, or -1 for the older format without one.
    return int(operator.name) if operator.name.isdecimal() else -1


def _recognized(provider: Provider, folder: str) -> tuple[StoreId, str | None] | None:
    # The store that a directory belongs to, and the name of a folder within it.
    rocks = provider is Provider.ROCKSDB
    match = (_ROCKS_FOLDER if rocks else _HDFS_FOLDER).fullmatch(folder)
    if not match or provider is Provider.UNKNOWN:
        return None
    store = StoreId(int(match[1]), int(match[2]), match[3] or DEFAULT_STORE)
    return store, match[4] if rocks else None


def _classified(entry: Entry, folder: str | None, provider: Provider) -> StateFile:
    if provider is not Provider.ROCKSDB:
        return HDFS_NAMES.classify(entry)
    file = ROCKS_NAMES.classify(entry)
    match file:
        case SstFile() if folder:
            in_place = entry.name.endswith(".sst") == (folder == "SSTs")
        case ChecksumFile() | TempFile():
            in_place = (file.version == 0) == bool(folder)
        case _:
            in_place = not folder and not isinstance(file, SstFile)
    return file if in_place else UnknownFile(entry)


def blocking_directories(layout: Layout) -> tuple[str, ...]:
    """Returns the directories that have the names of state files."""
    matches = (_DIRECTORY.fullmatch(entry.path) for entry, _ in layout.unclassified)
    return tuple(sorted({match[1] for match in matches if match}))


def _unit_of(path: str) -> UnitId | None:
    match = _OF_UNIT.fullmatch(path)
    return UnitId(int(match[1]), int(match[2])) if match else None


def is_of_one_store(error: StorageError) -> bool:
    """Returns whether only the store that was read is refused: not the storage, nor a link."""
    refused = error.lasting or isinstance(error, IncompleteListingError)
    return refused and not isinstance(error, RefusedLinkError)


def unread(store: Store, error: StorageError) -> Store:
    detail = f"{error}; nothing is written or deleted in {store.id.directory} until it can be read"
    code, path, lasting = FindingCode.STORAGE_FAILED, error.path, error.lasting
    finding = Finding(code, detail, store.id, path=path, lasting=lasting)
    return replace(store, findings=(finding,), rocks=store.rocks and Rocks())


def unless_refused(store: Store, reading: Callable[[], Store]) -> Store:
    """Returns what reading a store results in, or the store as `unread` if only it is refused."""
    try:
        return reading()
    except StorageError as error:
        if not is_of_one_store(error):
            raise
        return unread(store, error)


@dataclass(slots=True)
class Refused:
    """The partitions of one scan that could not be listed; threads may share it.

    What is not known of them never looks like "nothing there" (S10): each of their stores is halted
    with a finding in place of every other, and the others go on.
    """

    errors: dict[UnitId, StorageError] = field(default_factory=dict)

    def listed(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Yields the entries of a listing; a partition that is refused ends only its own part."""
        try:
            yield from entries
        except StorageError as error:
            if not is_of_one_store(error):
                raise
            refusals = error.refused if isinstance(error, IncompleteListingError) else (error,)
            for refusal in refusals:
                unit = _unit_of(refusal.path)
                if unit is None:
                    raise refusal from error
                self.errors.setdefault(unit, refusal)

    def with_stores(self, layout: Layout) -> Layout:
        """Returns a layout that has the stores of the refused partitions, as far as others show."""
        if layout.provider is Provider.UNKNOWN:
            return layout
        stores = dict(layout.stores)
        for unit in self.errors:
            names = {store.store for store in layout.stores if store.operator == unit.operator}
            if not names and unit.operator not in layout.operators:
                names = {DEFAULT_STORE}
            for name in names:
                stores.setdefault(StoreId(unit.operator, unit.partition, name), ())
        return replace(layout, stores=stores)

    def missing_schemas(self, layout: Layout, operators: Iterable[Operator]) -> tuple[str, ...]:
        # Operators without metadata (before Spark 4.0) declare none. A refused partition may have
        # its files.
        described = layout.described()
        declared = (StoreId(each.id, 0, name) for each in operators for name in each.stores)
        missing = (it for it in declared if it not in described and it.unit not in self.errors)
        return tuple(f"{store.directory}/_metadata/schema" for store in missing)
