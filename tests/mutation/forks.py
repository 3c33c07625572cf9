"""A plugin of pytest that runs the collected tests against one mutant after the other.

Tests are collected once; each mutant has a process of its own, forked from the one that collected
them, so that it costs little more than its tests. A process is limited in memory and time: a change
may make an endless loop or list.

`STATEMAINT_MUTATION` names a folder. `work.json` there says which mutants to try and how;
`calls.json`, which is made where it is missing, which tests call which function; a line of
`results.jsonl` is what was seen of one mutant: its name, an exit code of mutmut's, seconds, and the
test that failed.
"""

import contextlib
import gc
import hashlib
import json
import math
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, NoReturn

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, Phase, settings

from tests.mutation import switch
from tests.mutation.calls import CODE, Calls, Job

# No example is made small: that one failed is all that counts.
settings.register_profile(
    "mutation",
    max_examples=60,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)
switch.install()
SURVIVED, KILLED, NO_TESTS, TIMEOUT = 0, 1, 33, 36
_MEMORY = 3 << 30  # bytes more than are mapped already
_WAIT = 0.005  # seconds
_PATIENCE, _TIMES = 3.0, 5.0  # seconds for a test, and this many times what the real code takes
_IDLE = 5  # times as long as it may compute a process may last
_LOOK = 3600.0  # seconds that one look at all tests may take
Work = Callable[[Path], int]
Result = tuple[str, int, float, str]


@dataclass(slots=True)
class _Process:
    job: Job
    folder: Path
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


def pytest_runtestloop(session: pytest.Session) -> bool:
    """Tries the mutants, instead of running the tests."""
    place = Path(os.environ["STATEMAINT_MUTATION"])
    work = json.loads((place / "work.json").read_text())
    items = {item.nodeid: item for item in session.items}
    calls = _calls(items, place, work["children"])
    _warm([items[name] for name in calls.typical() if name in items])
    gc.collect()
    gc.freeze()
    told = place / "results.jsonl"
    for name, code, _, test in map(
        json.loads, told.read_text().splitlines() if told.exists() else ()
    ):
        if code == KILLED and test in items:
            calls.learn(name, test)
    jobs = (calls.job(name, work["seconds"]) for name in work["mutants"])
    with told.open("a") as results:
        for result in _tried(jobs, items, calls, work["children"]):
            print(json.dumps(result), file=results, flush=True)
    return True


def _tried(
    jobs: Iterable[Job], items: dict[str, pytest.Item], calls: Calls, children: int
) -> Iterator[Result]:
    running: dict[int, _Process] = {}
    for job in jobs:
        if not job.tests:
            yield job.mutant, NO_TESTS, 0.0, ""
            continue
        judge = partial(_judge, [items[one] for one in job.tests], calls.seconds)
        _start(running, job, judge)
        while len(running) >= children:
            yield from _ended(running, calls)
    while running:
        yield from _ended(running, calls)


def _ended(running: dict[int, _Process], calls: Calls) -> Iterator[Result]:
    for process, code in _gone(running):
        told = process.folder / "failed"
        test = told.read_text() if told.exists() else ""
        shutil.rmtree(process.folder, ignore_errors=True)
        if test:
            calls.learn(process.job.mutant, test)
        yield process.job.mutant, code, round(process.seconds, 3), test


def _judge(items: list[pytest.Item], seconds: Mapping[str, float], folder: Path) -> int:
    """Runs tests until one fails, or takes much longer than on the real code."""
    for item, following in zip_longest(items, items[1:]):
        _limit_time(_PATIENCE + _TIMES * seconds[item.nodeid])
        if any(one.failed for one in runtestprotocol(item, log=False, nextitem=following)):
            (folder / "failed").write_text(item.nodeid)
            return KILLED
    return SURVIVED


def _warm(items: list[pytest.Item]) -> None:
    """Runs some tests on the real code: what they load and learn first, all processes have then.

    A forked process has none of the threads of the one that it comes from, and would wait for them
    forever: tests that leave some running, as RocksDB's do, warm nothing.
    """
    for item in items:
        if _leaves_no_thread(item):
            runtestprotocol(item, log=False, nextitem=None)


def _leaves_no_thread(item: pytest.Item) -> bool:
    pid = os.fork()
    if pid == 0:
        runtestprotocol(item, log=False, nextitem=None)
        os._exit(len([*Path("/proc/self/task").iterdir()]) > 1)
    return os.waitpid(pid, 0)[1] == 0


# -- processes


def _start(running: dict[int, _Process], job: Job, work: Work) -> None:
    folder = Path(tempfile.mkdtemp(prefix="mutant-"))
    folder.chmod(0o711)  # tests act as other users
    pid = os.fork()
    if pid == 0:
        _run(job, folder, work)
    running[pid] = _Process(job, folder)


def _run(job: Job, folder: Path, work: Work) -> NoReturn:
    code = KILLED
    try:
        os.setsid()  # what it starts ends with it
        _limit_memory()
        _be_apart(folder)
        if job.mutant:
            os.environ["MUTANT_UNDER_TEST"] = job.mutant  # of the programs that tests start
            switch.choose(job.mutant)
        code = work(folder)
    finally:
        os._exit(code)


def _limit_time(seconds: float) -> None:
    """Ends this process when it has computed for some seconds more."""
    most = math.ceil(time.process_time() + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + _MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _be_apart(folder: Path) -> None:
    """Says nothing, and has temporary files of its own."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for one in (0, 1, 2):
        os.dup2(nothing, one)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    factory: Any = _Factory.of_session
    factory._given_basetemp, factory._basetemp = folder / "pytest", None


class _Factory:
    of_session: Any = None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Remembers where pytest's temporary files are decided on."""
    _Factory.of_session = session.config._tmp_path_factory  # type: ignore[attr-defined]


def _gone(running: dict[int, _Process]) -> Iterator[tuple[_Process, int]]:
    time.sleep(_WAIT)
    for pid, process in list(running.items()):
        done, status = os.waitpid(pid, os.WNOHANG)
        late = not done and process.seconds > _IDLE * process.job.seconds
        if done or late:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            if late:
                os.waitpid(pid, 0)
            del running[pid]
            yield process, TIMEOUT if late else os.waitstatus_to_exitcode(status)


# -- which tests call which function


def _calls(items: dict[str, pytest.Item], place: Path, children: int) -> Calls:
    """Returns what is known of the tests, after a look at those that are new."""
    told = place / "calls.json"
    known = Calls.read([told] if told.exists() else [])
    known.keep_unchanged(_digests(items))
    known.write(told)
    new = [item for name, item in items.items() if name not in known.seconds]
    running: dict[int, _Process] = {}
    parts = [place / f"calls-{number}.json" for number in range(children)]
    for number, part in enumerate(parts):
        look = partial(_look, new[number::children], part)
        _start(running, Job("", (), _LOOK), look)
    while running:
        for process, code in _gone(running):
            shutil.rmtree(process.folder, ignore_errors=True)
            if code:
                sys.exit(f"the look at which tests call what ended with {code}")
    whole = Calls.read([*parts, told])
    whole.keep(items)
    whole.write(told)
    return whole


def _digests(tests: Iterable[str]) -> dict[str, str]:
    files = {one.partition("::")[0] for one in tests}
    code = sorted(Path(CODE).glob("**/*.py"))
    return {CODE: _digest(code)} | {one: _digest([Path(one)]) for one in sorted(files)}


def _digest(paths: Iterable[Path]) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def _look(items: list[pytest.Item], part: Path, _: Path) -> int:
    """Runs tests on the real code; those that fail or are skipped will judge nothing."""
    calls = Calls()
    for item, following in zip_longest(items, items[1:]):
        switch.look()
        began = time.process_time()
        reports = runtestprotocol(item, log=False, nextitem=following)
        calls.seconds[item.nodeid] = time.process_time() - began
        if any(one.failed for one in reports):
            calls.failed.append(item.nodeid)
        elif not any(one.skipped for one in reports):
            for function in switch.seen():
                calls.tests[function].append(item.nodeid)
    calls.write(part)
    return 0
