"""Bundles that one engine hands to another: Airflow's `plan` decides, Spark's tasks maintain.

    _statemaint/units/<run>/work.json               the bundles, and what their tasks need to know
    _statemaint/units/<run>/<unit>/...              a bundle's claim and outcome (`UnitClaim`)
    _statemaint/units/<run>/outcomes-<attempt>.json all outcomes of one attempt

`<run>` is the nonce of the run's lease. All of it is beside the checkpoint, as that is the one
place that Airflow's worker, Spark's driver and its executors all reach. The end of a run deletes
it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from statemaint.errors import NotFoundError
from statemaint.execute import UnitClaim
from statemaint.execute.attempts import FOLDER
from statemaint.maintain.bundles import Bundle
from statemaint.maintain.outcomes import PartOutcome
from statemaint.model.ids import run_folder
from statemaint.model.policy import Policy
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
    content = json.dumps(work.to_json()).encode()
    storage.replace(f"{_folder(work.key)}/work.json", [content])


def read_handed(storage: Storage, key: str) -> Handed:
    """Returns the work that `hand_over` has stored.

    Raises:
        NotFoundError: when there is none because the run has ended.
    """
    return Handed.from_json(json.loads(storage.read(f"{_folder(key)}/work.json")))


def store_outcomes(
    storage: Storage, key: str, attempt: int, outcomes: Iterable[PartOutcome]
) -> None:
    content = json.dumps([one.to_json() for one in outcomes]).encode()
    storage.replace(_outcomes(key, attempt), [content])


def read_outcomes(storage: Storage, work: Handed, attempt: int) -> dict[str, PartOutcome]:
    """Returns the outcomes of the bundles that have any, by their labels.

    For an attempt that died, these are the outcomes that its tasks have stored.
    """
    try:
        rows = json.loads(storage.read(_outcomes(work.key, attempt)))
    except NotFoundError:
        stored = (claim_of(storage, one).outcome() or [] for one in work.bundles)
        rows = [row for each in stored for row in each]
    return {row["label"]: PartOutcome(**row) for row in rows}


def _folder(key: str) -> str:
    return f"{FOLDER}/{run_folder(key)}"


def _outcomes(key: str, attempt: int) -> str:
    return f"{_folder(key)}/outcomes-{attempt}.json"
