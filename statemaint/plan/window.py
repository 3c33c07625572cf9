"""The versions that a run keeps loadable, and when a file is old enough to be deleted."""

from dataclasses import dataclass

from statemaint.listing import Entry
from statemaint.model.policy import Policy
from statemaint.plan.reasons import KeepReason


@dataclass(frozen=True, slots=True)
class Window:
    """The versions that a store's plan keeps loadable, `floor` to `target`, at time `now`.

    Attributes:
        floor: the oldest version that stays loadable.
        required: the oldest version that the commit log still requires.
        target: the newest version that the plan considers.
        newest: the newest committed version; above the target if the query has continued since
            the target was fixed.
        now: seconds since the epoch by the storage's clock.
        policy: when to snapshot and what to keep.
        force_snapshot: snapshot the target however short its chain is.
        skewed: clocks disagree, so ages mean nothing and nothing is deleted.
        forced: the operators whose first batch has to write a zip.
    """

    floor: int
    required: int
    target: int
    newest: int
    now: float
    policy: Policy
    force_snapshot: bool = False
    skewed: bool = False
    forced: frozenset[int] = frozenset()

    @property
    def hold(self) -> KeepReason | None:
        """Returns why nothing at all may be deleted; `None` if deletion is allowed."""
        if self.skewed:
            return KeepReason.CLOCK_SKEW
        return None if self.policy.verify else KeepReason.VERIFY_OFF

    def guard(self, entry: Entry) -> KeepReason | None:
        """Returns why an orphan is kept: the hold or its age; `None` if it may be deleted."""
        old = self.is_older(entry, self.policy.orphan_age)
        return self.hold or (None if old else KeepReason.YOUNG)

    def is_older(self, entry: Entry, age: float) -> bool:
        """Returns whether a file is at least `age` seconds old; an unknown age never is (S5)."""
        return entry.modified is not None and self.now - entry.modified >= age
