"""The documents of the verbs that maintain: `plan`, `maintain`, `apply`."""

from types import NoneType
from typing import Annotated

from statemaint.model.policy import SETTINGS, Setting
from tools.json_documents import shared
from tools.json_documents.kinds import (
    PLAIN,
    Choice,
    Either,
    JsonField,
    JsonObject,
    Kind,
    Part,
    said,
)

ActionOfAPlan = Annotated[
    str,
    Choice(
        "action of a plan",
        {
            "write_snapshot": "write the snapshot of a version",
            "attest": "read a snapshot back and compare it with the files below it",
            "delete": "delete a file, or move it to the trash",
        },
    ),
]


def _kind(setting: Setting) -> Kind:
    kind = PLAIN[setting.kind]
    return kind if setting.default is not None else Either((kind, PLAIN[NoneType]))


_POLICY = JsonObject(
    "policy settings",
    tuple(
        JsonField(one.name, _kind(one), one.meaning + " In seconds." * (one.kind is float))
        for one in SETTINGS
    ),
    "Which settings for which query: [policy.md](policy.md).",
)
Policy = Annotated[dict[str, object], _POLICY]


class StepOfAPlan(Part):
    action: ActionOfAPlan = said("the step")
    _store_id: shared.StoreId
    version: int = said("of the file; 0 if files of any version may need it")
    path: shared.Path
    reason: shared.StepReason = said("why")


class SnapshotThatIsWithheld(Part):
    """What the operator can change: [SNAPSHOT_WITHHELD](runbook.md#snapshot_withheld)."""

    _store_id: shared.StoreId
    version: int = said("the version that it would hold")
    due: shared.DueReason = said("why it is due")
    chain_length: int = said("deltas that a load of the version replays")
    reason: shared.WithheldReason = said("why it is not written")
    until_version: int | None = said(
        "the committed version that ends this at the latest; null if none does"
    )
    until: float | None = said(
        "the time that ends it, in seconds since the epoch; null if none does"
    )


class Request(Part):
    target: int | None = said("the version to snapshot, fixed by the plan")
    force_snapshot: bool = said("whether to write it even if its chain is short")
    operators: list[int] = said("only these; all when empty")
    partitions: list[int] = said("only these; all when empty")
    stores: list[str] = said("only stores of these names; all when empty")


TargetVersion = Annotated[
    int | None, "the version that long chains are snapshotted at; null without one"
]
Floor = Annotated[
    int | None,
    "the oldest version that the policy and the commit log keep: those from it on that "
    "load stay loadable; null without one",
]
Withheld = Annotated[
    list[SnapshotThatIsWithheld],
    "due snapshots that are not written: their chains are over the limit, or the run requests them",
]


class PlanOfMaintenance(Part, lines="actions"):
    """The fields of `scan` with the policy's floor, the actions, and the input that `apply` needs
    to plan again.
    """

    _head: shared.Head
    _judged: shared.Judged
    query_id: shared.QueryId
    last_committed_batch: shared.LastCommittedBatch
    target_version: TargetVersion
    floor: Floor
    provider: shared.Provider
    codec: shared.Codec
    pins: shared.Pins
    stores: list[shared.Store] = said("only the requested ones")
    findings: shared.Findings
    actions: list[StepOfAPlan] = said("in the order in which they happen")
    withheld: Withheld
    keep: dict[shared.KeepReason, int] = said("the number of files that stay")
    now: float = said("when it was made, in seconds since the epoch")
    policy: Policy = said("the policy that it follows")
    request: Request = said("the scope that it was restricted to")
    fingerprint: shared.Fingerprint


class StoreAfterARun(Part):
    _store: shared.Store
    outcome: shared.OutcomeName = said("the outcome of its part of the run")
    attestation: shared.ProofOfASnapshot | None = said(
        "of its newest proved snapshot; null without one"
    )


class RunOfMaintenance(Part):
    """The findings of the document are those of the checkpoint and of every store. The counts are
    of what was done: all 0 in a dry run.
    """

    format: shared.Format
    run: str = said("its id, for `runs` and `undo`")
    checkpoint: shared.Checkpoint
    dry_run: bool = said("whether nothing was done")
    _judged: shared.Judged
    last_committed_batch: shared.LastCommittedBatch
    target_version: TargetVersion
    floor: Floor
    snapshots_written: int = said("their number")
    files_deleted: shared.FilesDeleted
    bytes_deleted: int = said("the size of these files")
    bytes_written: int = said("the size of the snapshots")
    trash_files_deleted: int = said(
        "the number of files that had expired in the trash and were deleted from it"
    )
    trash_bytes_deleted: int = said("the size of these files")
    seconds: float = said("that the run took")
    requests: dict[Annotated[str, "the storage's own name of a request"], int] = said(
        "the number of requests to the storage"
    )
    stores: list[StoreAfterARun] = said("every requested store, after the run")
    withheld: Withheld
    findings: shared.Findings
    actions: list[StepOfAPlan] = said(
        "what a run would do, in the order in which it would happen; only of a dry run",
        optional=True,
    )


class ARunAmongMany(Part):
    checkpoint: shared.Checkpoint
    query: str = said("its name, if the queries file has it", optional=True)
    _judged: shared.Judged
    run: str = said("its id, for `runs` and `undo`")
    dry_run: bool = said("whether nothing was done")
    stores: int = said("the number of its stores")
    actions: int = said("the number of actions that were planned")
    snapshots_written: int = said("their number")
    bytes_written: int = said("the size of the snapshots")
    files_deleted: shared.FilesDeleted
    bytes_deleted: int = said("the size of these files")
    longest_chain_before: int = said("deltas, of the stores that load")
    longest_chain: int = said("likewise, after the run")
    seconds: float = said("that the run took")
    findings: shared.Findings


class ManyCheckpointsMaintained(Part):
    format: shared.Format
    folder: str = said("the address of the folder or bucket, the queries file, or the addresses")
    checkpoints: list[ARunAmongMany | shared.Unread] = said("each checkpoint")


class TriedPolicy(Part):
    policy: Policy = said("its settings")
    snapshots_written: int = said("of stores, in all the days")
    bytes_written: int = said("as these snapshots take now")
    requests: int = said("to the storage, roughly")
    cost: float | None = said("of the requests by `--request-price`; null without it")
    restart_seconds: float = said("the longest restart that it allows, forecast at the high end")


class RunsSoFar(Part):
    runs: int = said("the recorded runs of maintenance that changed something")
    seconds: float = said("from the first to the last")
    snapshots: int = said("that they have written")
    written: int = said("the bytes of these")
    every: float | None = said("seconds from one run to the next; null before the second")


class PoliciesTried(Part):
    """What settings would have done with batches like those that the checkpoint still has."""

    _head: shared.Head
    days: int = said("`--days`")
    every: float = said("`--every` in seconds, by default as the last runs were, or an hour")
    batch_interval: float | None = said(
        "seconds between two batches, by the commit log; null without changes"
    )
    batches_listed: int = said("the batches that are repeated")
    ledger: RunsSoFar = said("what runs have written so far")
    trials: list[TriedPolicy] = said("the given policy first")
    recommended: TriedPolicy | None = said("null if none keeps the limit")


class PinnedBatch(Part):
    _head: shared.Head
    batch: int = said("the pinned batch")
    _pin_facts: shared.PinFacts


class PinsOfACheckpoint(Part, lines="pins"):
    """With `--end`, those that are left."""

    _head: shared.Head
    pins: shared.Pins
