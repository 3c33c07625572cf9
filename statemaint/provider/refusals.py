"""What `bootstrap` refuses before it writes anything."""

from collections.abc import Mapping

from statemaint.errors import ConfigError, DamagedError, StatemaintError, UnsupportedError
from statemaint.listing import Entry
from statemaint.model.checkpoint import MAINTAINED, Checkpoint, Operator, Provider
from statemaint.model.files import Delta, Snapshot
from statemaint.plan.findings.health import diagnose
from statemaint.scan.query_logs import SINCE_3_5
from statemaint.state.shuffle_key import shuffles_by_all_keys
from statemaint.storage import Storage


class LiveCheckpointError(StatemaintError):
    """The checkpoint is in use, or a batch of it is unfinished."""

    code = "LIVE_CHECKPOINT"
    exit_code = 6

    def __init__(
        self, path: str, detail: str, advice: str = "stop the query once its batch is committed"
    ) -> None:
        super().__init__(path, detail, advice)
        self.path, self.detail, self.advice = path, detail, advice

    def __str__(self) -> str:
        return f"{self.path}: {self.detail}; {self.advice}"


def log_entries(storage: Storage) -> frozenset[Entry]:
    entries = (entry for folder in ("offsets", "commits") for entry in storage.list(folder))
    return frozenset(entry for entry in entries if entry.name.isdecimal())


def must_be_at(checkpoint: Checkpoint, at: int | None) -> None:
    newest = checkpoint.committed
    if at is not None and newest is not None and at != newest + 1:
        text = f"batch {newest} is the newest now, and rows at batch {at} are to follow {at - 1}"
        raise LiveCheckpointError(checkpoint.root, text, "show and edit the rows again")


def must_stand_still(checkpoint: Checkpoint, entries: frozenset[Entry]) -> None:
    offsets = [int(entry.name) for entry in entries if entry.path.startswith("offsets/")]
    newest = max(offsets, default=None)
    if newest is not None and newest != checkpoint.committed:
        text = f"batch {newest} has begun, and the newest committed one is {checkpoint.committed}"
        raise LiveCheckpointError(f"offsets/{newest}", text)
    if checkpoint.committed is None:
        text = "no batch is committed; let the query run once, so that it has a state to add to"
        raise ConfigError(f"{checkpoint.root}: {text}")


def must_be_sound(checkpoint: Checkpoint) -> None:
    of_stores = (finding for store in checkpoint.stores for finding in diagnose(store, checkpoint))
    for finding in (*checkpoint.findings, *of_stores):
        if finding.damage:
            place = finding.store.directory if finding.store else checkpoint.root
            raise DamagedError(place, finding.detail, code=finding.code)


def must_not_be_hidden(checkpoint: Checkpoint, version: int) -> None:
    """Checks that no attempt at the batch has left a snapshot, which Spark would load instead."""
    for store in checkpoint.stores:
        for file in store.files:
            if isinstance(file, Snapshot) and file.version == version:
                text = "a snapshot of a batch that is not committed would hide what is written here"
                raise LiveCheckpointError(file.entry.path, text)


def recorded_operator(checkpoint: Checkpoint, number: int) -> Operator | None:
    """Returns the operator of a number; `None` if it has no metadata (before Spark 4.0)."""
    if checkpoint.provider not in MAINTAINED:
        raise UnsupportedError(checkpoint.root, checkpoint.provider, " and ".join(MAINTAINED))
    if all(store.id.operator != number for store in checkpoint.stores):
        raise ConfigError(f"{checkpoint.root}: operator {number} is not there")
    return {operator.id: operator for operator in checkpoint.operators}.get(number)


def must_be_known(checkpoint: Checkpoint, conf: Mapping[str, str]) -> None:
    """Checks that the query shuffles by all keys, and that its Spark reads what is written here."""
    if not shuffles_by_all_keys(conf):
        what = "state of a query that began before Spark 3.3"
        raise UnsupportedError(checkpoint.root, what, "that of one that began since")
    files = (file for store in checkpoint.stores for file in store.files)
    recent = checkpoint.operators or SINCE_3_5 in conf or any(isinstance(it, Delta) for it in files)
    if checkpoint.provider is Provider.ROCKSDB and not recent:
        what = "RocksDB without changelogs, after a batch of a Spark that may not read any,"
        raise UnsupportedError(checkpoint.root, what, f"an offset log with {SINCE_3_5}")
