"""What a deletion looks at once more, right before the files go."""

import pytest

from statemaint.errors import Superseded
from statemaint.execute import Fence, Ledger
from statemaint.execute.run_context import RunContext
from statemaint.execute.store_executor import StoreExecutor
from statemaint.fold import ClearEngine, Source
from statemaint.listing import Entry
from statemaint.model.policy import Policy
from statemaint.plan import Delete, DeleteReason
from statemaint.planning import plan_checkpoint
from statemaint.storage import MemoryStorage
from tests.support.rocks import write_rocks_checkpoint


def test_an_sst_file_that_a_zip_of_this_very_run_names_stays() -> None:
    storage = MemoryStorage()
    write_rocks_checkpoint(storage, partitions=1)
    plan = plan_checkpoint(storage, Policy())[1]
    context = RunContext(storage, ClearEngine(), Ledger(storage, "r"), Fence())
    store = plan.stores[0]
    run = StoreExecutor.of(store, Source.of(storage, store.store, plan), context)
    written, table = Entry("state/0/0/25.zip", 1, None), Entry("state/0/0/SSTs/a.sst", 1, None)
    page = (Delete(store.store.id, 0, table, DeleteReason.UNUSED_SST),)
    run.deleter._no_other_snapshot(page)
    run.record.placed.append(written)
    run.record.tables[written.path] = (table,)
    with pytest.raises(Superseded, match=r"a\.sst.*a snapshot of this run refers to it"):
        run.deleter._no_other_snapshot(page)
