"""State that no query has computed: the caller's rows, as one more committed batch.

The query must have run to its first commit and be stopped: then its checkpoint contains the
metadata, schemas, offsets and commits, so none is invented. Committed files are never
rewritten. Instead the next batch is written, in the order in which Spark writes one:

    offsets/<b+1>      a copy of offsets/<b>: the batch reads no input. The first writer of this
                       file owns the batch, in Spark's `HDFSMetadataLog` too
    state/.../<b+2>.delta              of every partition of every store, empty if nothing is edited
    state/.../<b+2>[_<id>].changelog   the same in RocksDB, whether or not the query writes
                       changelogs: a zip would outlive a batch that the query has to run again
    commits/<b+1>      a copy of commits/<b>, so that the watermark is unchanged, with the ids of
                       these changelogs

A restarted query finds the batch committed, skips no input, and begins with batch b+2, which sees
the watermarks that batch b+1 would have seen. After a crash before the commit the query runs batch
b+1 itself, over no input, and replaces our deltas: the state is then the same as before.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from uuid import uuid4

from statemaint.errors import ConfigError
from statemaint.execute.fence import Fence
from statemaint.execute.lease import leased
from statemaint.provider.surgery import Bootstrapped, Surgery, log_entries
from statemaint.provider.tables import Given
from statemaint.records.claims import Holder
from statemaint.records.savepoints import METADATA, SavedStore, read_savepoint
from statemaint.savepoint.compactible import (
    add_to_sink_log,
    check_sink_empty,
    lacks_batch,
    write_sink_log,
)
from statemaint.savepoint.plan import committed_batches, plan_savepoint
from statemaint.savepoint.run import driven, is_whole, savepoint, saving
from statemaint.savepoint.stores import StoreWriter
from statemaint.scan.scanner import scan
from statemaint.storage import ReadOnly, Storage
from statemaint.workers import Workers


def bootstrap(  # noqa: PLR0913 -- each is a choice of its own
    storage: Storage,
    rows: Given | Mapping[str, Given],
    *,
    operator: int = 0,
    at: int | None = None,
    to: Storage | None = None,
    sink: Storage | None = None,
    dry_run: bool = False,
    run: str | None = None,
) -> Bootstrapped:
    """Commits one more batch that puts some rows into an operator's state and removes others.

    All rows are held in memory; the state of the operator is read one partition at a time. Each key
    that is already in the state is hashed to its partition, as a check of our arithmetic.

    The lease of the checkpoint is held meanwhile, which only other statemaint runs respect. This
    function cannot check the following; the caller must ensure:

    * that no query runs. A query that only waits for input looks like a stopped one. It finds its
      next batch taken and fails (CONCURRENT_STREAM_LOG_UPDATE). A query that starts meanwhile is
      detected if it has written anything before the commit.
    * that the facts in the rows are not in input that the query has yet to read: they would be
      counted twice.
    * that the values have the meaning that the query expects; only their types are compared.
    * that the rows are not older than the watermark: the next batch drops such rows, as any state.

    Args:
        storage: where the checkpoint lives.
        rows: pairs of a key and its value, each the columns of the operator's state in their order
            or by name, `None` to remove the key; or a table (`pyarrow`, pandas, Spark, a Parquet
            file's path) with the columns `key` and `value`, as `read_table` returns, or with all
            columns of both. Of equal keys the last one counts. For a join such rows for "left" and
            "right", which are added to those of their key; for `transformWithState` by variable.
        operator: an aggregation, a deduplication, session windows, grouped state, a join of
            streams, or `transformWithState`.
        at: the batch that the rows become; by default the one after the newest committed batch. If
            the query has committed others since the rows were read, they are refused.
        to: an empty folder that becomes a savepoint of the batch before, with the rows; `storage`
            is only read, but for a pin, and its query may run. No query starts from the folder
            until the rows are in it, and the same call completes it after a crash.
        sink: the folder of the query's file sink, whose log gets the batch, as `add_to_sink_log`
            adds it; with `to` the empty folder that the new query will write to.
        dry_run: check everything, and write nothing.
        run: the run's id in the lease and the ledger; a new one by default.

    Raises:
        ConfigError: naming the row that does not fit the schema; or when nothing is committed.
        UnsupportedError: for state of another provider or kind of operator.
        LiveCheckpointError: when a batch is unfinished, a file changes meanwhile, or the batch
            before `at` is not the newest.
        CheckpointError: when the state is damaged, or shuffled in an unknown way.
        LeaseHeldError: when another run maintains the checkpoint.
    """
    name = run or f"bootstrap-{uuid4().hex[:8]}"
    if to is not None:
        return _saved(storage, to, rows, (operator, at), sink, name, dry_run=dry_run)
    if dry_run:
        storage = ReadOnly(storage)
    with nullcontext(Fence()) if dry_run else leased(storage, Holder(name)) as lease:
        surgery = Surgery.on(storage, operator, at, lease)
        surgery.edits.take(rows)
        changes = surgery.changes()
        if sink:
            lacks_batch(sink, surgery.batch)
        if dry_run:
            return surgery.planned
        written = surgery.written(name, changes)
        if sink:
            add_to_sink_log(sink, written.batch)
        return written


def _saved(  # noqa: PLR0913 -- as above
    source: Storage,
    to: Storage,
    rows: Given | Mapping[str, Given],
    where: tuple[int, int | None],
    sink: Storage | None,
    run: str,
    *,
    dry_run: bool,
) -> Bootstrapped:
    """Makes a savepoint with the rows as one more batch, written before any Spark can start."""
    operator, at = where
    batch = max(committed_batches(source), default=0) if at is None else at - 1
    _must_be_new(to)
    planned = plan_savepoint(ReadOnly(source), batch, to=to.root)
    surgery = Surgery.of(planned.storage, planned.checkpoint, operator)
    surgery.edits.take(rows)
    surgery.changes()  # refuses rows that do not fit, before anything is written
    savepoint(source, to, batch=batch, dry_run=True)
    if sink:
        check_sink_empty(sink, [surgery.batch])
    if dry_run:
        return surgery.planned
    written = list[Bootstrapped]()

    def write(writer: StoreWriter) -> tuple[SavedStore, ...]:
        stores = tuple(writer.write(Workers.of(None)))
        entries, copied = log_entries(to), scan(to)
        findings = tuple(each for each in copied.findings if each.path != METADATA)
        copied = replace(copied, findings=findings)
        there = Surgery.of(to, copied, operator, entries, writer.fence)
        there = replace(there, edits=surgery.edits)
        written.append(there.written(run, there.changes()))
        if sink:
            write_sink_log(sink, there.batch)
        return stores

    driven(saving(source, to, batch), write)
    if not written:  # another run has completed it meanwhile
        _must_be_new(to)
    return written[-1]


def _must_be_new(to: Storage) -> None:
    note = read_savepoint(to)
    if note and is_whole(to, note):
        raise ConfigError(
            f"{to.root}: it has the savepoint of batch {note.batch} already; give a new folder"
        )
