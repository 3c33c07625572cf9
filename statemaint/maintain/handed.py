"""Bundles that one engine hands to another: Airflow's `plan` decides, Spark's tasks maintain.

They are handed over in `records.units`, under the nonce of the run's lease: beside the checkpoint,
as that is the one place that Airflow's worker, Spark's driver and its executors all reach.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from statemaint.errors import NotFoundError
from statemaint.execute import UnitClaim
from statemaint.maintain.bundles import Bundle
from statemaint.maintain.outcomes import PartOutcome
from statemaint.model.policy import Policy
from statemaint.records.units import outcomes_path, read_document, work_path, write_document
from statemaint.storage import Storage


@dataclass(frozen=True, slots=True)
class Handed:
    """Work that one engine hands to another.

    Attributes:
        bundles: the units of work, all with the holder of the run's lease.
        handover: the data that the plan has read, as text.
        every_unit: whether there are metrics of each partition as well.
    """

    query: str
    policy: Policy
    run: str
    bundles: tuple[Bundle, ...]
    force_snapshot: bool = False
    handover: str | None = None
    every_unit: bool = False

    @property
    def key(self) -> str:
        """Returns the key that `read_handed` finds it by."""
        return key_of(self.bundles[0])

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "bundles": [one.to_json() for one in self.bundles]}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Handed":
        bundles = tuple(Bundle.from_json(one) for one in fields["bundles"])
        policy = Policy(**fields["policy"])
        return cls(**{**fields, "bundles": bundles, "policy": policy})


def key_of(bundle: Bundle) -> str:
    """Returns the key of the run that a bundle belongs to.

    Raises:
        ValueError: when the run holds no lease.
    """
    if bundle.holder is None:
        raise ValueError(f"{bundle.label} has no lease, so no other process can join it")
    return bundle.holder.nonce


def claim_of(storage: Storage, bundle: Bundle) -> UnitClaim:
    """Returns the claim of a bundle: one attempt at a time works on it."""
    return UnitClaim(storage, key_of(bundle), bundle.key)


def hand_over(storage: Storage, work: Handed) -> None:
    write_document(storage, work_path(work.key), work.to_json())


def read_handed(storage: Storage, key: str) -> Handed:
    """Returns the work that `hand_over` has stored.

    Raises:
        NotFoundError: when there is none because the run has ended.
    """
    return Handed.from_json(read_document(storage, work_path(key)))


def store_outcomes(
    storage: Storage, key: str, attempt: int, outcomes: Iterable[PartOutcome]
) -> None:
    rows = [outcome.to_json() for outcome in outcomes]
    write_document(storage, outcomes_path(key, attempt), rows)


def read_outcomes(storage: Storage, work: Handed, attempt: int) -> dict[str, PartOutcome]:
    """Returns the outcomes of the bundles that have any, by their labels.

    For an attempt that died, these are the outcomes that its tasks have stored.
    """
    try:
        rows = read_document(storage, outcomes_path(work.key, attempt))
    except NotFoundError:
        stored = (claim_of(storage, one).outcome() or [] for one in work.bundles)
        rows = [row for each in stored for row in each]
    return {row["label"]: PartOutcome(**row) for row in rows}
