"""The two coordinates of all state, the store and the version, and the names of runs."""

import re
from dataclasses import dataclass
from enum import StrEnum, unique

DEFAULT_STORE = "default"


def version_of(batch: int) -> int:
    """Returns the state version that a batch writes: batch b reads version b and writes b + 1."""
    return batch + 1


def batch_of(version: int) -> int:
    return version - 1


def batch_in(path: str, log: str) -> int:
    """Returns the batch of an entry of a log, by its name; -1 for any other file."""
    folder, _, name = path.rpartition("/")
    return int(name) if folder == log and name.isascii() and name.isdecimal() else -1


def run_folder(run: str) -> str:
    """Returns a run's folder: Airflow's run ids contain times, and Hadoop's paths no colons."""
    return re.sub(r"[^A-Za-z0-9_.@=-]", "-", run).lstrip(".") or "-"


@unique
class RecoveryVerb(StrEnum):
    """The verb of a run that moves files away at the operator's request."""

    REPAIR = "repair"
    ROLLBACK = "rollback"


@dataclass(frozen=True, slots=True, order=True)
class StoreId:
    """One named state store of one partition of one stateful operator."""

    operator: int
    partition: int
    store: str = DEFAULT_STORE

    @property
    def directory(self) -> str:
        """Returns the store's directory, relative to the checkpoint (no trailing slash).

        Mirrors `StateStoreId.storeCheckpointLocation`: the default store has no separate folder.
        """
        partition = f"state/{self.operator}/{self.partition}"
        return partition if self.store == DEFAULT_STORE else f"{partition}/{self.store}"

    @property
    def columns(self) -> dict[str, int | str]:
        """Returns its parts by the names that Spark's own tables of state have for them."""
        return {"operatorId": self.operator, "partitionId": self.partition, "storeName": self.store}

    @property
    def unit(self) -> "UnitId":
        return UnitId(self.operator, self.partition)

    def __str__(self) -> str:
        return f"op {self.operator} / part {self.partition} / {self.store}"


@dataclass(frozen=True, slots=True, order=True)
class UnitId:
    """One partition of one operator with all of its stores, the unit that one task maintains."""

    operator: int
    partition: int

    def __str__(self) -> str:
        return f"op {self.operator} / part {self.partition}"
