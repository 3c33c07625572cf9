"""What all tests share: profiles for Hypothesis, markers by folder, and how they run side by side.

Two rules besides: CI has all parts, so that nothing is skipped there; and no test survives a loss
of power, so that none waits for a disk: temporary files are in memory where there is room for
them, and gone in the end (`--basetemp` keeps them).
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

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

# The tests of one group share servers, so one process runs them all; a test is in the first group
# that names its file or a folder of it. The longest come first: what is short fills the gaps in the
# end. One Spark for all of its tests would take longer than everything else does beside it.
_TOGETHER = (
    (
        "systems/spark/test_demo_pipeline.py",
        "systems/spark/test_engine.py",
        "systems/spark/test_examples.py",
        "systems/spark/test_habits.py",
        "systems/spark/test_oracle.py",
        "systems/spark/test_partitions.py",
        "systems/spark/test_provider.py",
        "systems/spark/test_readme.py",
        "systems/spark/test_savepoint.py",
    ),
    ("systems/spark",),
    ("systems/airflow",),
    ("systems/browser",),
    ("systems/hadoop",),
    ("systems",),
    ("benchmarks",),
)
# Others cover the same lines in a fraction of the time that these take while they are traced. A
# single test of this kind is marked `no_cover`, which is pytest-cov's.
_NOT_COVERED = (
    "benchmarks",
    "crash",
    "matrix",
    "property",
    "systems/s3/test_iam.py",
    "systems/browser",
    "systems/prometheus",
    "systems/helm",
)
# For each JVM that Spark's programs start: most do little, and what they do is mostly once. For a
# file that it writes to a local disk, Hadoop starts up to twenty little processes.
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djdk.lang.Process.launchMechanism=VFORK"
_MEMORY = Path("/dev/shm")  # noqa: S108
_ROOM = 4 << 30
_patch = pytest.MonkeyPatch()
# By how much a process among several is nice once its groups are done; a process has that once.
_patience = [10] if os.environ.get("PYTEST_XDIST_WORKER") else []
_own: list[Path] = []


def pytest_configure(config: pytest.Config) -> None:
    """Has nothing wait for a disk; the tests of the local disk say what it must be asked for."""
    _patch.setattr(os, "fsync", os.fstat)
    # Each of hundreds of little programs would else compile this package again, for half a second.
    _patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    _patch.setattr(sys, "dont_write_bytecode", False)
    _patch.setenv("SPARK_SUBMIT_OPTS", f"{_JAVA} {os.environ.get('SPARK_SUBMIT_OPTS', '')}".strip())
    _patch.setenv("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    if config.option.basetemp is None and _MEMORY.is_dir() and _free(_MEMORY) > _ROOM:
        place = Path(tempfile.mkdtemp(prefix="statemaint-tests-", dir=_MEMORY))
        place.chmod(0o711)  # tests act as other users
        _own.append(place)
        config.option.basetemp = str(place / "pytest")
        _patch.setenv("TMPDIR", str(place))
        _patch.setattr(tempfile, "tempdir", str(place))


def _free(place: Path) -> int:
    return shutil.disk_usage(place).free


def pytest_unconfigure() -> None:
    """Makes the disk a disk again."""
    _patch.undo()
    for place in _own:
        shutil.rmtree(place, ignore_errors=True)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Names functions by their names, and bytes and long texts by how they begin."""
    if isinstance(val, bytes):
        return f"{len(val)} bytes {val[:8].hex()}".strip()
    if isinstance(val, set | frozenset):  # in an order that every process has
        return ", ".join(sorted(map(str, val))) or "nothing"
    if isinstance(val, str):
        return f"{val[:40].strip()}..." if len(val) > 60 or "\n" in val else None
    name: str | None = getattr(val, "__qualname__", None)
    return name.replace(".<locals>", "").replace("<lambda>", "function") if name else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks each test by its folders; the longest groups come first."""
    for item in items:
        place = item.path.relative_to(_HERE)
        for folder in place.parts[:-1][: 2 if place.parts[0] == "systems" else 1]:
            item.add_marker(folder)
        if any(place.is_relative_to(one) for one in _NOT_COVERED):
            item.add_marker("no_cover")
    items.sort(key=_order)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Ends the first of two measurements of a process among several.

    pytest-cov starts one as soon as it reads the command line, and below it that of the worker,
    whose data alone are kept. What pauses the second wakes the first: `no_cover` would not save
    any time.
    """
    plugin = session.config.pluginmanager.get_plugin("_cov")
    if hasattr(session.config, "workerinput") and plugin and plugin.cov_controller:
        plugin.cov_controller.cov.stop()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Has what needs no server go behind what does: the longest group decides when all is done."""
    if _patience and _group(item.path.relative_to(_HERE)) is None:
        os.nice(_patience.pop())


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Has one process run all tests that share a server."""
    return _Groups(config, log)


class _Groups(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """A test goes to the next free process, a group of tests to one process as a whole.

    `--dist loadgroup` of pytest-xdist 3.8 does not find its groups under pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        group = _group(Path(nodeid.partition("::")[0]).relative_to(_HERE.name))
        return nodeid if group is None else _TOGETHER[group][0]


def _group(place: Path) -> int | None:
    for number, group in enumerate(_TOGETHER):
        if any(place.is_relative_to(one) for one in group):
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
