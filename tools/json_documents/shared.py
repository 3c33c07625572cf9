"""The closed sets of strings, from the code that chooses among them, and parts of several verbs."""

from itertools import chain
from typing import Annotated

from statemaint.cli.output import FORMAT
from statemaint.model import checkpoint
from statemaint.model.findings import FindingCode
from statemaint.model.ids import RecoveryVerb
from statemaint.model.verdict import Looked, Verdict
from statemaint.plan import reasons
from statemaint.plan.recovery import recovery_plan
from statemaint.report.outcome import StoreOutcome
from statemaint.state.diff import KeyChange
from statemaint.state.stats import NoticeCode
from tools.json_documents.kinds import Choice, Part, explained, listed, said

FindingName = Annotated[str, Choice("code of a finding", listed(FindingCode), "runbook.md")]
ProviderName = Annotated[str, Choice("provider", listed(checkpoint.Provider))]
OutcomeName = Annotated[str, Choice("outcome", explained(StoreOutcome))]
StepReason = Annotated[
    str,
    Choice(
        "reason of a step",
        explained(chain(reasons.SnapshotReason, reasons.AttestReason, reasons.DeleteReason)),
    ),
]
DueReason = Annotated[str, Choice("reason of a snapshot", explained(reasons.SnapshotReason))]
WithheldReason = Annotated[
    str, Choice("reason to withhold a snapshot", explained(reasons.WithheldReason))
]
WriteReason = Annotated[str, Choice("reason of a write", {reasons.SnapshotReason.REBUILT: ""})]
RemoveReason = Annotated[str, Choice("reason of a removal", explained(recovery_plan.RemoveReason))]
KeepReason = Annotated[str, Choice("reason to keep a file", explained(reasons.KeepReason))]
# A rewritten key is counted, and is no change of the state.
ChangeName = Annotated[str, Choice("change", explained(list(KeyChange)[:-1]))]
NoticeName = Annotated[str, Choice("code of a notice", explained(NoticeCode))]
VerdictName = Annotated[
    str, Choice("verdict", {one.value: one.meaning for one in reversed(Verdict)})
]
Depth = Annotated[str, Choice("depth of a look", explained(Looked))]
RecoveryName = Annotated[str, Choice("verb of a recovery", listed(RecoveryVerb))]


class MaybeStoreId(Part):
    operator: int = said("the stateful operator", optional=True)
    partition: int = said("the partition", optional=True)
    store: str = said("the store's name, `default` except for joins", optional=True)


class Finding(Part):
    code: FindingName = said("the fault")
    detail: str = said("what, where and what to do")
    _maybe_store_id: MaybeStoreId
    version: int = said("the affected state version", optional=True)
    path: str = said("of the bad or missing file", optional=True)
    offset: int = said("a byte of that file, from its start", optional=True)
    batches: list[int] = said(
        "those of the commit log that do not load because of it",
        optional=True,
    )


class PinFacts(Part):
    id: str = said("its id, for `pins --end`")
    version: int = said("the version that stays loadable with all above it")
    created: float = said("when it was made, in seconds since the epoch")
    until: float = said("when it ends")
    by: str = said("who made it and why, or why its file cannot be read")


class HeldPin(Part):
    batch: int | None = said("the pinned batch; null for every batch, if its file cannot be read")
    _pin_facts: PinFacts


Pins = Annotated[list[HeldPin], "the pins that hold, by id"]


class StoreId(Part):
    operator: int = said("the stateful operator")
    partition: int = said("the partition")
    store: str = said("the store's name, `default` except for joins")


Findings = Annotated[list[Finding], "damage and notices"]


class Store(Part):
    _store_id: StoreId
    versions: list[int] = said("the first and the last; empty without files")
    snapshots: list[int] = said("their versions, ascending")
    chain_length: int | None = said("deltas that a restart replays; null when it would fail")
    files: int = said("their number")
    bytes: int = said("their size")
    findings: Findings


Format = Annotated[int, f"the format of the document, {FORMAT}"]
Checkpoint = Annotated[str, "its address"]


class Head(Part):
    format: Format
    checkpoint: Checkpoint


QueryId = Annotated[str, "the query's id; empty if it is unknown"]
LastCommittedBatch = Annotated[int | None, "the newest batch in the commit log; null without one"]
Provider = Annotated[ProviderName, "the state store provider of its operators"]
Codec = Annotated[str, "the compression of its state files, by Spark's short name"]
Code = Annotated[str, "stable, as in the [runbook](runbook.md)"]
Message = Annotated[str, "what, where and what to do, in one line"]


class ReasonOfAFailure(Part):
    code: Code
    message: Message


class Judged(Part):
    verdict: VerdictName = said("the verdict on the checkpoint")
    looked_at: Depth = said("how deep that looked")


class CheckpointThatCouldNotBeRead(Part):
    checkpoint: Checkpoint
    query: str = said("its name, if the queries file has it", optional=True)
    verdict: VerdictName = said("`unknown`")
    error: ReasonOfAFailure = said("why it could not be read")


Unread = CheckpointThatCouldNotBeRead
Folder = Annotated[str, "the address of the folder or bucket"]
Path = Annotated[str, "of the file, relative to the checkpoint"]
Fingerprint = Annotated[
    str, "of the actions, with size and time of each file: `apply` refuses any others"
]
Start = Annotated[int, "the version that their chain starts from; 0 for the empty state"]


class ProofOfASnapshot(Part):
    path: str = said("of the snapshot, relative to the checkpoint")
    version: int = said("the state version that it holds")
    digest: str = said("of its rows, as `digest` prints it")
    rows: int = said("their number")
    bytes: int = said("of their keys and values")
    files: int = said("the number that it was compared with; 0 if none below it was left")
    start: Start


FilesDeleted = Annotated[int, "their number, those moved to the trash included"]


class FactsOfAnError(Part):
    code: Code
    message: Message
    path: str | None = said("the file, or the checkpoint; null without one")
    next: str | None = said("what to do, in a few words; null if unknown")


class ErrorDocument(Part):
    format: Format
    error: FactsOfAnError = said("why the verb has no result")


ERROR = ErrorDocument.shape
"""Printed by any verb in place of its document."""
