"""The verdict of a run: the plan's, or a worse one by what the run has read."""

from dataclasses import replace

import pytest

from statemaint.model.findings import Finding, FindingCode
from statemaint.model.policy import PRESETS
from statemaint.model.verdict import Verdict
from statemaint.plan.planner import plan
from statemaint.report.facts import facts_of
from statemaint.report.outcome import Halted, summarize
from statemaint.report.run import Report
from tests.support.checkpoints import STORE, checkpoint, store


def report(listing: str, code: FindingCode, path: str | None = None) -> Report:
    """Returns the report of a run that has halted its only store."""
    decided = plan(
        checkpoint(store(listing), batches=range(1, 3 if listing.endswith("3d") else 2)),
        PRESETS["safe"],
        1e9,
    )
    halted = Halted(STORE, Finding(code, "as read", STORE, path=path))
    stores = tuple(summarize(one, (halted,), decided.target) for one in decided.stores)
    return Report("run", decided, stores, started=0.0, seconds=1.0)


@pytest.mark.parametrize(
    ("listing", "code", "path", "expected"),
    [
        ("1d 2d 3d", FindingCode.SUPERSEDED, None, Verdict.HEALTHY),
        ("1d 2d 3d", FindingCode.CORRUPT_FILE, "2.delta", Verdict.BROKEN),
        ("1d 2d 2s 3d", FindingCode.CORRUPT_FILE, "1.delta", Verdict.DEGRADED),
        ("1d 2d 2s 3d", FindingCode.CORRUPT_FILE, "2.snapshot", Verdict.DEGRADED),
        ("2d 2s 3d", FindingCode.CORRUPT_FILE, "2.snapshot", Verdict.BROKEN),
        ("1d 2d 3d", FindingCode.STORAGE_FAILED, None, Verdict.UNKNOWN),
        ("1d 2d 3d", FindingCode.FAULT, None, Verdict.DEGRADED),
    ],
)
def test_what_a_run_has_read_can_only_make_its_verdict_worse(
    listing: str, code: FindingCode, path: str | None, expected: Verdict
) -> None:
    found = report(listing, code, path and f"{STORE.directory}/{path}")
    assert found.plan.verdict is Verdict.HEALTHY
    assert found.verdict is expected
    assert facts_of(found).verdict is expected


def test_the_verdict_of_parts_is_the_worst_of_them() -> None:
    parts = [
        facts_of(report("1d 2d", code, f"{STORE.directory}/1.delta"))
        for code in (FindingCode.SUPERSEDED, FindingCode.CORRUPT_FILE)
    ]
    assert (parts[0] + parts[1]).verdict is Verdict.BROKEN
    assert replace(parts[0], highest={}).verdict is None
