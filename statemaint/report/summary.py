"""What a plan does, for the operator who approves it: its steps, counted and in words. Pure."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from statemaint.model.ids import RecoveryVerb, batch_in, version_of
from statemaint.plan.actions import Action, Attest, WriteSnapshot
from statemaint.plan.reasons import AttestReason, DeleteReason, SnapshotReason
from statemaint.plan.recovery.recovery_plan import (
    PutBack,
    RecoveryPlan,
    Remove,
    RemoveReason,
    Rewind,
)
from statemaint.report.to_json import VERBS
from statemaint.wording import command, counted, moment, shortened

MOST_LARGEST = 10
_MOST_SOURCES, _MOST_GROUPS = 5, 40
_MOST_OFFSET = 2**63  # a Java `long`
_MEANINGS = {
    str(reason): reason.meaning
    for reasons in (SnapshotReason, AttestReason, DeleteReason, RemoveReason)
    for reason in reasons
}
_KINDS = {"crc": "checksum"} | {kind: kind for kind in ("delta", "snapshot", "changelog", "zip")}
_OTHER_VERBS: dict[type, str] = {Remove: "remove", PutBack: "restore"}
# What is done with snapshots; other steps are of files.
_WORDS = {VERBS[WriteSnapshot]: "write", VERBS[Attest]: "verify"}

Fact = tuple[str, str]
"""A label and a text; the label is empty if the text continues the one before."""


class Step(NamedTuple):
    """One step of any plan; a file that is written, or only read, has no bytes.

    The store is empty, and the numbers are -1, for a file outside the stores.
    """

    action: str
    path: str
    reason: str
    bytes: int
    operator: int
    partition: int
    store: str

    @property
    def meaning(self) -> str:
        return _MEANINGS.get(self.reason, self.reason)  # that of another build as it is


class Group(NamedTuple):
    """The steps of one kind, for one reason, in the stores of one name of an operator."""

    action: str
    operator: int
    store: str
    reason: str
    files: int
    bytes: int

    @property
    def place(self) -> str:
        if self.store:
            return f"operator {self.operator}, {self.store}"
        return "files" if self.action == _OTHER_VERBS[PutBack] else "logs and metadata"

    @property
    def meaning(self) -> str:
        return _MEANINGS.get(self.reason, self.reason)


def steps_of(actions: Iterable[Action | Remove | PutBack]) -> Iterator[Step]:
    for action in actions:
        store = None if isinstance(action, PutBack) else action.store
        place = (store.operator, store.partition, store.store) if store else (-1, -1, "")
        size = 0 if isinstance(action, WriteSnapshot | Attest) else action.entry.size
        verb = _OTHER_VERBS.get(type(action)) or VERBS[type(action)]
        yield Step(verb, action.path, str(action.reason), size, *place)


def groups(steps: Iterable[Step]) -> tuple[Group, ...]:
    """Returns the steps counted by what they do, where and why; those of most bytes first."""
    sizes: dict[tuple[str, int, str, str], list[int]] = defaultdict(list)
    for step in steps:
        sizes[step.action, step.operator, step.store, step.reason].append(step.bytes)
    made = (Group(*key, len(of_key), sum(of_key)) for key, of_key in sizes.items())
    return tuple(sorted(made, key=lambda group: (-group.bytes, -group.files, group)))


def sentence(group: Group, size: Callable[[int], str]) -> str:
    verb = _WORDS.get(group.action)
    what = f"{counted(group.files, 'file')} ({size(group.bytes)})"
    done = f"{verb} {counted(group.files, 'snapshot')}" if verb else f"{group.action} {what}"
    return f"{done}, {group.place}: {group.meaning}"


def largest(steps: Iterable[Step]) -> tuple[Step, ...]:
    sized = (step for step in steps if step.bytes)
    return tuple(sorted(sized, key=lambda step: (-step.bytes, step.path))[:MOST_LARGEST])


def decision(plan: RecoveryPlan, size: Callable[[int], str]) -> Iterator[Fact]:
    """Yields what an approval of a recovery decides: batches, input, output, files and reasons."""
    steps = [*steps_of(plan.actions)]
    removed = [step for step in steps if step.action == "remove"]
    batches = sorted(b for step in removed if (b := batch_in(step.path, "commits")) >= 0)
    if plan.verb is RecoveryVerb.ROLLBACK:
        yield "rollback", f"the query continues after batch {plan.batch}{_again(batches)}"
        if plan.rewind and plan.batch is not None and batches:
            yield from _rewound(plan, plan.batch, plan.rewind, batches)
    elif plan.rewind:
        newest = _committed(plan.rewind.newest, plan.rewind.committed[0])
        yield "repair", f"the query continues after {newest}; no batch is undone"
    if removed:
        total = size(sum(step.bytes for step in removed))
        yield "moves", f"{counted(len(removed), 'file')} ({total}) to the trash"
        kinds = Counter(kind_of(step.path) for step in removed)
        yield "", ", ".join(counted(much, kind) for kind, much in kinds.most_common())
    if writes := len(steps) - len(removed):
        yield "written", counted(writes, "snapshot")
    counts = groups(steps)
    yield from (("because", sentence(group, size)) for group in counts[:_MOST_GROUPS])
    if (more := len(counts) - _MOST_GROUPS) > 0:
        yield "", f"and {counted(more, 'more reason')}"


def _again(batches: Sequence[int]) -> str:
    if len(batches) < 2:  # noqa: PLR2004
        return f"; batch {batches[0]} runs again" if batches else ""
    return f"; {counted(len(batches), 'batch', 'batches')} ({_range(batches)}) run again"


def _range(batches: Sequence[int]) -> str:
    return f"{batches[0]} to {batches[-1]}" if batches[1:] else str(batches[0])


def _rewound(plan: RecoveryPlan, batch: int, rewind: Rewind, batches: list[int]) -> Iterator[Fact]:
    yield "goes back", f"from {_committed(rewind.newest, rewind.committed[0])}"
    yield "", f"to {_committed(batch, rewind.committed[1])}"
    for source, before, after in rewind.sources[:_MOST_SOURCES]:
        yield "source", f"{shortened(source)}: reads again {_input(before, after)}"
    if (more := len(rewind.sources) - _MOST_SOURCES) > 0:
        yield "", f"and {counted(more, 'more source')}"
    if not rewind.sources:
        yield "source", "the offsets of these batches cannot be read"
    yield "sink", _output(rewind, batches)
    older, newer = version_of(batch), version_of(batches[-1])
    diff = command("diff", plan.root, "--from", str(older), "--to", str(newer))
    yield "rows", f"{diff} counts them, if both load"


def _committed(batch: int, at: float | None) -> str:
    return f"batch {batch}" if at is None else f"batch {batch}, committed {moment(at)} UTC"


def _input(before: str, after: str) -> str:
    if before == after:
        return "nothing"
    records = _records(before, after)
    many = "" if records is None else f" ({counted(records, 'record')})"
    return f"from {shortened(before)} to {shortened(after)}{many}"


def _records(before: str, after: str) -> int | None:
    """Returns the number of records between two offsets of Kafka; `None` if they are not such."""
    try:
        start, end = json.loads(before), json.loads(after)
        pairs = [(start[topic][part], end[topic][part]) for topic in end for part in end[topic]]
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        return None
    known = all(type(one) is type(other) is int and 0 <= one <= other < _MOST_OFFSET
                for one, other in pairs)  # fmt: skip
    return sum(other - one for one, other in pairs) if pairs and known else None


def _output(rewind: Rewind, batches: Sequence[int]) -> str:
    """Returns what a sink gets; the runbook's text on rollbacks says more."""
    later = batches[1:] if rewind.repeated else batches
    noun = "batches" if batches[1:] else "batch"
    twice = f"may get the rows of {noun} {_range(batches)} twice"
    if not later:
        return f"{twice}; one that records batches (files, Delta) skips what it has"
    return (
        f"{twice}; one that records batches (files, Delta) skips them, and loses rows of "
        f"{_range(later)}, as their boundaries change: see the runbook"
    )


def kind_of(path: str) -> str:
    """Returns the kind of a file of a checkpoint by its name, such as `delta` and `commit`."""
    top = path.partition("/")[0]
    if top in {"commits", "offsets"}:
        return top.removesuffix("s")
    return _KINDS.get(path.rpartition(".")[2], "other file")
