"""What all tests share: profiles for Hypothesis, markers by folder, and how they run side by side.

Two rules besides: CI has all parts, so that nothing is skipped there; and no test survives a loss
of power, so that none waits for a disk.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

_HERE = Path(__file__).parent

settings.register_profile("dev", max_examples=100, deadline=None)
settings.register_profile(
    "ci",
    max_examples=200,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("nightly", max_examples=5000, deadline=None)
# Secrets that no test may show; see there.
pytest_plugins = ["tests.support.planted"]

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))

# The tests of one line share servers, so one process runs them all. The longest come first: what is
# short fills the gaps in the end.
_TOGETHER = (
    "systems/spark",
    "systems/airflow",
    "systems/hadoop",
    "systems",
    "benchmarks",
    "crash/test_certificate.py",
)
_patch = pytest.MonkeyPatch()


def pytest_configure() -> None:
    """Has nothing wait for a disk; the tests of the local disk say what it must be asked for."""
    _patch.setattr(os, "fsync", os.fstat)


def pytest_unconfigure() -> None:
    """Makes the disk a disk again."""
    _patch.undo()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks each test by its folders, and puts those together that share a server."""
    for item in items:
        place = item.path.relative_to(_HERE)
        for folder in place.parts[:-1][: 2 if place.parts[0] == "systems" else 1]:
            item.add_marker(folder)
        if (group := _group(place)) is not None:
            item.add_marker(pytest.mark.xdist_group(_TOGETHER[group]))
    items.sort(key=_order)


def _group(place: Path) -> int | None:
    for number, one in enumerate(_TOGETHER):
        if place.as_posix() == one or place.is_relative_to(one):
            return number
    return None


def _order(item: pytest.Item) -> int:
    group = _group(item.path.relative_to(_HERE))
    return len(_TOGETHER) if group is None else group


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI a test that was skipped for want of a part has not been seen to pass."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
