"""What a schedule is about."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.certify.deeds import holder
from tests.certify.habits import Habits
from tests.certify.world import World


@dataclass(slots=True)
class Setting:
    """What differs from schedule to schedule.

    Attributes:
        habits: the query's.
        local: whether files are written by temp file and rename.
        two: whether a second maintainer may start while the first is paused.
        lease: tells from the files which run holds the lease; a deletion by any other run is a
            finding (S8).
        without: the kinds of steps that it does not have.
        often: those that it has more of.
        events: the kinds of events that it has; all of them if it names none.
        coarse: whether files have times of whole seconds.
        skew: seconds by which the times of files are ahead of the clock.
        slow_rename: whether a disk's files keep the time of their last byte although their writer
            was stopped before the rename; S4 does not hold then.
        workers: how many stores a maintainer works on at a time.
    """

    habits: Habits = field(default_factory=Habits)
    local: bool = True
    two: bool = True
    lease: Callable[[World], str | None] | None = holder
    without: frozenset[str] = frozenset()
    often: frozenset[str] = frozenset()
    events: frozenset[str] = frozenset()
    coarse: bool = False
    skew: float = 0.0
    slow_rename: bool = False
    workers: int = 1
