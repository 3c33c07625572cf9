"""The context that all stores of one run share."""

from dataclasses import dataclass, field

from statemaint.execute.announced import Announcement
from statemaint.execute.commits import SharedLook
from statemaint.execute.fence import Fence
from statemaint.execute.ledger import Ledger
from statemaint.execute.trash import Trash
from statemaint.fold import Engine
from statemaint.listing import Entry
from statemaint.storage import Storage


@dataclass(frozen=True, slots=True)
class RunContext:
    """A run, as each of its stores sees it.

    Attributes:
        trash: receives deleted files; `None` if they are deleted immediately.
        aside: receives stale snapshots under every policy; `None` if there are none.
        commit: the newest entry of the commit log when the run was planned.
        look: looks at the lease and at that entry, for all stores.
        ahead: the number of files of a store that are fetched at a time.
    """

    storage: Storage
    engine: Engine
    ledger: Ledger
    fence: Fence
    trash: Trash | None = None
    aside: Trash | None = None
    target: int | None = None
    commit: Entry | None = None
    look: SharedLook = field(default_factory=SharedLook)
    announcement: Announcement = field(default_factory=Announcement)
    ahead: int = 1
