"""What the listing alone says is wrong with a store."""

from collections.abc import Iterator

from statemaint.model.chain import Gap, Versions
from statemaint.model.checkpoint import Checkpoint, Store
from statemaint.model.files import UnknownFile, disables_spark
from statemaint.model.findings import Finding, FindingCode
from statemaint.model.ids import StoreId, batch_of


def diagnose(store: Store, checkpoint: Checkpoint) -> tuple[Finding, ...]:
    """Returns the findings of a store: what the scan found, then what its file names say.

    Only versions from the required floor to the target can be damaged: what Spark has cleaned
    away below, or not committed yet above, is in order.
    """
    found = [*store.findings, *_unknown(store)]
    required, target = checkpoint.required, checkpoint.target
    if required is not None and target is not None:
        versions = Versions.of(store.files)
        found += _broken(store.id, versions, required, target)
        found += _above(store.id, versions, target)
    return tuple(found)


def _broken(store: StoreId, versions: Versions, required: int, target: int) -> Iterator[Finding]:
    loads = versions.loadable(required, target)
    broken = target - required + 1 - len(loads)
    if not broken:
        return
    version = next(number for number in range(required, target + 1) if number not in loads)
    gap = versions.chain(version)
    if not isinstance(gap, Gap):  # pragma: no cover -- loadable and chain are the same rule
        raise TypeError(gap)
    more = f" and {broken - 1} later ones do" if broken > 1 else " does"
    detail = (
        f"{store.directory}/{gap.first}.delta is missing ({gap.count} in all), so version {version}"
        f" (batch {batch_of(version)}){more} not load; restore it, nothing is deleted until then"
    )
    yield Finding(FindingCode.BROKEN_CHAIN, detail, store, version)


def _above(store: StoreId, versions: Versions, target: int) -> Iterator[Finding]:
    for version in sorted(number for number in versions.snapshots if number > target):
        detail = (
            f"{store.directory}/{version}.snapshot lies above version {target}, the last committed"
            " one; Spark would load it although its batch runs again. Move it away if the query"
            " was rewound; it is kept, and this store stands still"
        )
        yield Finding(FindingCode.SNAPSHOT_ABOVE_TARGET, detail, store, version)


def _unknown(store: Store) -> Iterator[Finding]:
    for file in store.files:
        if isinstance(file, UnknownFile):
            harm = "; it stops Spark's own maintenance" if disables_spark(file.entry) else ""
            detail = f"{file.entry.path}: no file that Spark writes{harm}; it is kept"
            yield Finding(FindingCode.UNKNOWN_FILE, detail, store.id)
