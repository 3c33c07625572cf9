"""All documents, in the order of docs/json.md."""

from collections.abc import Iterator

from tools.json_documents.kinds import Choice, JsonObject, Kind, Verb, parts_of
from tools.json_documents.looking import DIGEST, DOCTOR, SCAN, VERIFY
from tools.json_documents.maintaining import APPLY, MAINTAIN, PLAN
from tools.json_documents.recovering import REPAIR, ROLLBACK, RUNS, UNDO
from tools.json_documents.serving import EXPORTER, QUERIES
from tools.json_documents.state import DIFF, SHOW, STATS

VERBS: tuple[Verb, ...] = (
    SCAN,
    PLAN,
    MAINTAIN,
    VERIFY,
    DOCTOR,
    DIGEST,
    SHOW,
    DIFF,
    STATS,
    REPAIR,
    ROLLBACK,
    UNDO,
    RUNS,
    APPLY,
    QUERIES,
    EXPORTER,
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
    for verb in VERBS:
        for document in verb.documents:
            yield from named_in(document)


def home(one: Named) -> Verb | None:
    """Returns the verb that explains a type: the only one that uses it, if there is only one.

    A document is explained by the first verb that prints it.
    """
    printed = {doc.name: verb for verb in reversed(VERBS) for doc in verb.documents}
    if one.name in printed:
        return printed[one.name]
    users = {
        printed[document.name].name: printed[document.name]
        for verb in VERBS
        for document in verb.documents
        if one in named_in(document)
    }
    return next(iter(users.values())) if len(users) == 1 else None
