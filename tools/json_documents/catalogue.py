"""All documents, in the order of docs/json.md."""

from collections.abc import Iterator

from tools.json_documents import looking, maintaining, recovering, state
from tools.json_documents.kinds import Choice, JsonObject, Kind, Part, Verb, parts_of


def _verb(name: str, *documents: type[Part], about: str = "") -> Verb:
    return Verb(name, tuple(one.shape for one in documents), about)


_OF_MANY = "Of a folder or bucket, the second document."
_APPLIED = "With `--apply`, the second document."
_RECOVERIES = recovering.PlanOfARecovery, recovering.Recovery
VERBS: tuple[Verb, ...] = (
    _verb("scan", looking.OneCheckpointScanned, looking.ManyCheckpointsScanned, about=_OF_MANY),
    _verb("plan", maintaining.PlanOfMaintenance),
    _verb(
        "maintain",
        maintaining.RunOfMaintenance,
        maintaining.ManyCheckpointsMaintained,
        about="Of several checkpoints, the second document.",
    ),
    _verb("verify", looking.OneCheckpointVerified, looking.ManyCheckpointsVerified, about=_OF_MANY),
    _verb(
        "doctor", looking.OneCheckpointDiagnosed, looking.ManyCheckpointsDiagnosed, about=_OF_MANY
    ),
    _verb("policy", maintaining.PoliciesTried),
    _verb("digest", looking.DigestsOfACheckpoint),
    _verb("show", state.RowsOfState),
    _verb("diff", state.ComparisonOfTwoVersions),
    _verb("stats", state.FiguresOfOneCheckpoint, state.ManyCheckpointsMeasured, about=_OF_MANY),
    _verb("repair", *_RECOVERIES, about=_APPLIED),
    _verb("rollback", *_RECOVERIES, about=_APPLIED),
    _verb(
        "undo",
        recovering.FinishedUndo,
        recovering.PlanOfAnUndo,
        about="With `--dry-run`, the second document.",
    ),
    _verb(
        "runs",
        recovering.RunsOfACheckpoint,
        recovering.OneRun,
        about="With a `RUN`, the second document.",
    ),
    _verb(
        "apply",
        maintaining.RunOfMaintenance,
        recovering.Recovery,
        recovering.FinishedUndo,
        about="The document that the verb whose plan it carries out would have printed.",
    ),
    _verb("savepoints", recovering.SavepointsOfAFolder),
    _verb("pin", maintaining.PinnedBatch),
    _verb("pins", maintaining.PinsOfACheckpoint),
    _verb("queries", state.QueriesFile),
    _verb("exporter", state.ServedMetrics),
    _verb("savepoint", recovering.SavedCheckpoint),
    _verb("bootstrap", state.BatchOfGivenRows),
)
"""The verbs that take `--json`."""

Named = JsonObject | Choice
"""The types with their own heading."""


def named_in(kind: Kind) -> Iterator[Named]:
    """Yields the named types in a type, itself first, each as often as it occurs."""
    if isinstance(kind, JsonObject | Choice):
        yield kind
    for part in parts_of(kind):
        yield from named_in(part)


def everything() -> Iterator[Named]:
    """Yields the named types in all documents of all verbs, each as often as it occurs."""
    yield from (named for verb in VERBS for each in verb.documents for named in named_in(each))


def home(one: Named) -> Verb | None:
    """Returns the verb that explains a type: the only one that uses it, if there is only one.

    A document is explained by the first verb that prints it.
    """
    printed = {each.name: verb for verb in reversed(VERBS) for each in verb.documents}
    if one.name in printed:
        return printed[one.name]
    documents = (each for verb in VERBS for each in verb.documents if one in named_in(each))
    users = {printed[document.name].name: printed[document.name] for document in documents}
    return next(iter(users.values())) if len(users) == 1 else None
