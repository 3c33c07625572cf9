"""A diagnosis as the program prints it: ten lines, or JSON."""

from collections.abc import Iterable, Iterator
from typing import Any

from rich.filesize import decimal

from statemaint.maintain import Diagnosis
from statemaint.model.findings import Finding
from statemaint.model.ids import version_of
from statemaint.report.to_json import findings_json, id_json

_SHOWN = 3


def doctor_json(found: Diagnosis) -> dict[str, Any]:
    """Returns what `doctor --json` prints."""
    store = id_json(found.longest.id) if found.longest else {}
    chain = {**store, "deltas": len(found.chain.deltas), "bytes": found.chain.size,
             "seconds": found.seconds} if found.chain else None  # fmt: skip
    return {
        "restarts": found.restarts,
        "last_committed_batch": found.checkpoint.committed,
        "loadable_batches": list(found.loadable),
        "goes_back_to": found.goes_back_to,
        "longest_chain": chain,
        "damage": {code.value: number for code, number in sorted(found.counts.items())},
        "next": list(found.next),
        "findings": findings_json(found.findings),
    }


def lines(found: Diagnosis) -> Iterator[str]:
    """Yields the diagnosis for people."""
    yield f"restart:  {_restart(found)}"
    yield f"batches:  {_batches(found)}"
    yield f"chain:    {_chain(found)}"
    counts = ", ".join(f"{code} ({number})" for code, number in sorted(found.counts.items()))
    yield f"damage:   {counts or 'none'}"
    for one in _first(found.findings):
        yield f"          {one.detail}"
    for label, text in zip(("next:", *[""] * len(found.next)), found.next, strict=False):
        yield f"{label:<10}{text}"


def _restart(found: Diagnosis) -> str:
    newest = found.checkpoint.committed
    if found.restarts:
        if newest is None:
            return "yes, from the beginning: nothing is committed yet"
        return f"yes, behind batch {newest} (state version {version_of(newest)})"
    blocker = next(found.blockers, None)
    if blocker:
        return f"NO: {blocker.code}"
    return f"NO: the state of batch {newest}, the last committed one, does not load"


def _batches(found: Diagnosis) -> str:
    if not found.loadable:
        return "none loads in every store"
    lost = len(found.checkpoint.batches) - len(found.loadable)
    some = f"; {lost} more in the commit log do not" if lost else ""
    return f"{_ranges(found.loadable)} load in every store{some}"


def _ranges(batches: Iterable[int]) -> str:
    found: list[list[int]] = []
    for batch in batches:
        if found and found[-1][1] == batch - 1:
            found[-1][1] = batch
        else:
            found.append([batch, batch])
    return ", ".join(f"{first} to {last}" if first < last else str(first) for first, last in found)


def _chain(found: Diagnosis) -> str:
    if found.chain is None or found.longest is None:
        return "none to read"
    files, where = len(found.chain.deltas), found.longest.id
    took = "" if found.seconds is None else f", read in {found.seconds:.2f} s here"
    size = decimal(found.chain.size)
    return f"at most {files} files of changes behind a snapshot ({where}: {size}{took})"


def _first(findings: tuple[Finding, ...]) -> Iterator[Finding]:
    """Yields the first finding of each kind of damage, a few of them."""
    kinds = {one.code: one for one in reversed(findings) if one.damage}
    yield from sorted(kinds.values())[:_SHOWN]
