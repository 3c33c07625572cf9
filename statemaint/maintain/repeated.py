"""What the lost attempts at a task did, by the ledger: they have left no report."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from statemaint.model.ids import StoreId, run_folder
from statemaint.records.segments import Line, ledger_of, read_ledger
from statemaint.report import Deleted, Report, SnapshotWritten, StoreReport
from statemaint.report.outcome import EarlierDeeds
from statemaint.storage import Storage


def with_earlier(storage: Storage, report: Report) -> Report:
    """Returns the report of a repeated task with what its lost attempts did.

    A deletion is recorded before it is done, so one whose file is still there was not done.
    """
    lines: dict[tuple[object, ...], list[Line]] = defaultdict(list)
    for unit in sorted({one.before.id.unit for one in report.stores}):
        for line in read_ledger(storage, ledger_of(unit)):
            if line.run == run_folder(report.run):
                lines[tuple(line.fields.get(one) for one in _STORE)].append(line)
    stores = (replace(one, earlier=_earlier(one, lines[_key(one)])) for one in report.stores)
    return replace(report, stores=tuple(stores))


_STORE = ("operator", "partition", "store")


def _key(store: StoreReport) -> tuple[object, ...]:
    found: StoreId = store.before.id
    return found.operator, found.partition, found.store


def _earlier(store: StoreReport, lines: Sequence[Line]) -> EarlierDeeds:
    done = (one for one in store.outcomes if isinstance(one, SnapshotWritten | Deleted))
    known = {one.action.path for one in done}
    left = {file.entry.path for file in store.after.files}
    found = {(line.fields.get("action"), line.path): line.fields for line in lines}
    others = {key: fields for key, fields in found.items() if key[1] not in known}
    written = [one for (action, _), one in others.items() if action == "write_snapshot"]
    deleted = [one for (what, path), one in others.items() if what == "delete" and path not in left]
    return EarlierDeeds(
        snapshots=len(written),
        written=sum(one["bytes"] for one in written),
        deleted=Counter(one["reason"] for one in deleted),
        freed=sum(one["bytes"] for one in deleted),
    )
