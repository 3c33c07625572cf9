"""The closed sets of strings in documents, from the code that chooses among them."""

from collections.abc import Iterable
from itertools import chain

from statemaint.model.checkpoint import Provider
from statemaint.model.findings import FindingCode
from statemaint.model.ids import RecoveryVerb
from statemaint.plan import (
    AttestReason,
    DeleteReason,
    KeepReason,
    RemoveReason,
    SnapshotReason,
    WithheldReason,
)
from statemaint.report import StoreOutcome
from statemaint.state.diff import KeyChange
from statemaint.state.figures import NoticeCode
from statemaint.wording import Explained
from tools.json_documents.kinds import Choice, listed


def _explained(members: Iterable[Explained]) -> dict[str, str]:
    return {member.value: member.meaning for member in members}


FINDING = Choice("code of a finding", listed(FindingCode), "runbook.md")
PROVIDER = Choice("provider", listed(Provider))
OUTCOME = Choice("outcome", _explained(StoreOutcome))
STEP_REASON = Choice(
    "reason of a step", _explained(chain(SnapshotReason, AttestReason, DeleteReason))
)
DUE_REASON = Choice("reason of a snapshot", _explained(SnapshotReason))
WITHHELD_REASON = Choice("reason to withhold a snapshot", _explained(WithheldReason))
WRITE_REASON = Choice("reason of a write", {SnapshotReason.REBUILT.value: ""})
REMOVE_REASON = Choice("reason of a removal", _explained(RemoveReason))
KEEP_REASON = Choice("reason to keep a file", _explained(KeepReason))
# A rewritten key is counted, and is no change of the state.
CHANGE = Choice("change", _explained(list(KeyChange)[:-1]))
NOTICE = Choice("code of a notice", _explained(NoticeCode))
RECOVERY = Choice("verb of a recovery", listed(RecoveryVerb))
