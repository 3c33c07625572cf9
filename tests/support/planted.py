"""Secrets that are planted wherever one can be given, and that nothing in the suite may show.

A plugin of pytest, which `tests/conftest.py` loads. It plants them in the environment of the whole
session (keys of S3, a Pushgateway's password, an Airflow connection); tests use them where they
give keys to a server, write a queries file or configure Hadoop. A test fails that shows one: in
what it printed or logged, in what it read of its own output or of a program that it ran, in an
error that it expects, in what a server answered. At the end every file that the session left in its
temporary folders is read.
"""

import base64
import http.client
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

_MARK = "pl4nted"
_PLANTED = "planted"  # what a process of pytest-xdist tells the one that started it
_USER = "planted-user"
_MOST_BYTES = 256 << 20
_PIECE = 1 << 20
# Airflow's own database and configuration, which hold what connections are given.
_NOT_OURS = ("airflow.db", "airflow.db-wal", "airflow.cfg")


def secret(name: str) -> str:
    """Returns a secret, by which whoever shows it can be told."""
    return f"{_MARK}-{name}-k3y"


PASSWORD = secret("gateway")
_ENCODED = base64.b64encode(f"{_USER}:{PASSWORD}".encode())
_SHOWN = (_MARK.encode(), _ENCODED)
_ENVIRON = {
    "AWS_ACCESS_KEY_ID": "AKIAPLANTED",
    "AWS_SECRET_ACCESS_KEY": secret("environment"),
    "AWS_SESSION_TOKEN": secret("token"),
    "STATEMAINT_PUSHGATEWAY_USER": _USER,
    "STATEMAINT_PUSHGATEWAY_PASSWORD": PASSWORD,
    "AIRFLOW_CONN_PLANTED": json.dumps(
        {
            "conn_type": "aws",
            "login": "AKIAPLANTED",
            "password": secret("connection"),
            "extra": {"aws_session_token": secret("extra")},
        }
    ),
}


class _Watch:
    """What was shown since it was last asked."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.planted: set[Path] = set()
        self.suspended = False

    def look(self, text: str | bytes | None, where: str) -> None:
        if text and not self.suspended and self.is_shown(text):
            self.shown.append(where)

    def is_shown(self, text: str | bytes) -> bool:
        content = text.encode(errors="replace") if isinstance(text, str) else text
        return any(one in content for one in _SHOWN)

    def error(self, error: BaseException | None) -> None:
        """Notes an error that shows a secret, by itself or by what a traceback has of its cause."""
        seen = set[int]()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            self.look(f"{error} {error!r}", f"{type(error).__name__}, an error that was expected")
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)

    def taken(self) -> list[str]:
        shown, self.shown = self.shown, []
        return shown


_watch = _Watch()


def plant(path: Path, text: str) -> Path:
    """Writes a file that has a secret in it, and returns its path."""
    path.write_text(text)
    _watch.planted.add(path.absolute())
    return path


@contextmanager
def expected() -> Iterator[None]:
    """Lets a block see secrets: one that tries whether they would be noticed."""
    before, _watch.suspended = _watch.suspended, True
    try:
        yield
    finally:
        _watch.suspended = before


# -- what a test reads


class _Watched:
    """`pytest.raises`, and a look at what was raised."""

    def __init__(self, raises: Any) -> None:
        self._raises = raises

    def __enter__(self) -> Any:
        return self._raises.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> Any:
        _watch.error(error)
        return self._raises.__exit__(kind, error, traceback)


def _install(patch: pytest.MonkeyPatch) -> None:
    raises, completed = pytest.raises, subprocess.CompletedProcess.__init__
    read, readouterr = http.client.HTTPResponse.read, pytest.CaptureFixture.readouterr

    def watched_raises(*args: Any, **options: Any) -> Any:
        found: Any = raises(*args, **options)
        return _Watched(found) if hasattr(found, "__enter__") else found

    def watched_process(
        self: Any, args: Any, returncode: int, stdout: Any = None, stderr: Any = None
    ) -> None:
        completed(self, args, returncode, stdout, stderr)
        for name, said in (("stdout", stdout), ("stderr", stderr)):
            _watch.look(said, f"the {name} of a program")

    def watched_read(self: Any, *args: Any) -> bytes:
        content: bytes = read(self, *args)
        _watch.look(content, "what a server answered")
        return content

    def watched_output(self: Any) -> Any:
        found = readouterr(self)
        for said in found:
            _watch.look(said, "what the test printed")
        return found

    patch.setattr(pytest, "raises", watched_raises)
    patch.setattr(subprocess.CompletedProcess, "__init__", watched_process)
    patch.setattr(http.client.HTTPResponse, "read", watched_read)
    patch.setattr(pytest.CaptureFixture, "readouterr", watched_output)


# -- the plugin

_patch = pytest.MonkeyPatch()


def pytest_configure(config: pytest.Config) -> None:
    """Plants the secrets."""
    del config
    for name, value in _ENVIRON.items():
        _patch.setenv(name, value)
    _install(_patch)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Takes them away again."""
    del config
    _patch.undo()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[pytest.TestReport | None]:
    """Fails a test that has shown a secret, or has one in its id.

    pytest-xdist makes the id of the running test the title of its process, and servers log the
    title of the process that stops them.
    """
    report: pytest.TestReport = yield  # type: ignore[misc, assignment]
    del call
    _watch.look(item.nodeid, "the id of the test")
    for name, said in report.sections:
        _watch.look(said, name)
    if (shown := _watch.taken()) and report.outcome == "passed":
        report.outcome = "failed"
        report.longrepr = f"a planted secret was shown: {'; '.join(dict.fromkeys(shown))}"
    return report  # type: ignore[return-value]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Learns from a process that ran some of the tests where it planted secrets."""
    _watch.planted |= {Path(one) for one in getattr(node, "workeroutput", {}).get(_PLANTED, ())}


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails a session that has left a secret in any of its files.

    Where several processes run the tests, the one that started them looks, below whose folder all
    of theirs lie.
    """
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_PLANTED] = sorted(map(str, _watch.planted))
        return
    factory: Any = getattr(session.config, "_tmp_path_factory", None)
    base: Path | None = getattr(factory, "_basetemp", None)
    left = sorted(_left_below(base)) if base else []
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if left:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if reporter:
            reporter.write_line(f"a planted secret was left in: {', '.join(left)}", red=True)


def _left_below(base: Path) -> Iterator[str]:
    for folder, _, names in os.walk(base):
        for name in names:
            file = Path(folder) / name
            if name not in _NOT_OURS and file.absolute() not in _watch.planted and _has(file):
                yield str(file)


def _has(file: Path) -> bool:
    """Returns whether a file has a secret in it; what is no plain file, or is gone, has not."""
    try:
        if not file.is_file() or file.stat().st_size > _MOST_BYTES:
            return False
        before = b""
        with file.open("rb") as stream:
            while piece := stream.read(_PIECE):
                if _watch.is_shown(before + piece):
                    return True
                before = piece[-128:]
    except OSError:
        pass
    return False
