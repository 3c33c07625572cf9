"""Planted secrets: whoever shows one is told, wherever it is shown."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from statemaint.errors import ConfigError
from tests.support.marks import long
from tests.support.paths import ROOT
from tests.support.planted import PASSWORD, expected, plant, secret

SHOWN = {
    "printed": "print(PASSWORD)",
    "logged": "logging.getLogger('statemaint').warning('the password is %s', PASSWORD)",
    "raised": "\n    with pytest.raises(ValueError):\n        raise ValueError(PASSWORD)",
    "the cause": (
        "\n    with pytest.raises(KeyError):\n        try:\n            int(PASSWORD)"
        "\n        except ValueError as error:\n            raise KeyError('no') from error"
    ),
    "in what a program said": (
        "subprocess.run([sys.executable, '-c', 'import os; print(os.environ)'], "
        "capture_output=True, check=True)"
    ),
    "encoded": (
        "print(base64.b64encode(f'planted-user:{PASSWORD}'.encode()).decode())"
    ),
}  # fmt: skip
SUITE = """
import base64, logging, os, subprocess, sys
import pytest
from tests.support.planted import PASSWORD, plant
pytest_plugins = ["tests.support.planted"]

def test_it(tmp_path, capsys):
    {body}
"""


def played(tmp_path: Path, body: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Runs a suite of one test, which shows none of its output: that would show the secret."""
    (tmp_path / "test_one.py").write_text(SUITE.format(body=body))
    options = ["-q", "-p", "no:cacheprovider", "--show-capture=no", "--rootdir", str(tmp_path)]
    command = [sys.executable, "-m", "pytest", *options, "-p", "tests.support.planted"]
    command += more
    basetemp = ["--basetemp", str(tmp_path / "base"), str(tmp_path)]
    with expected():
        ran = subprocess.run(
            [*command, *basetemp], cwd=ROOT, capture_output=True, text=True, check=False
        )
    shutil.rmtree(tmp_path / "base")  # where the session of this test would find them as well
    return ran


CASES = [
    pytest.param(body, id=name) if name == "raised" else long(body, id=name)
    for name, body in SHOWN.items()
]


@pytest.mark.parametrize("body", CASES)
def test_a_test_that_shows_one_fails(tmp_path: Path, body: str) -> None:
    ran = played(tmp_path, body)
    assert "a planted secret was shown: " in ran.stdout
    assert ran.returncode == 1


PROCESSES = pytest.mark.parametrize("more", [(), ("-n", "2")], ids=["one process", "two"])


@PROCESSES
def test_a_session_that_leaves_one_in_a_file_fails(tmp_path: Path, more: tuple[str, ...]) -> None:
    ran = played(tmp_path, "(tmp_path / 'run.json').write_text(PASSWORD)", *more)
    assert "a planted secret was left in: " in ran.stdout
    assert ran.returncode == 1


@PROCESSES
def test_a_test_with_one_in_its_id_fails(tmp_path: Path, more: tuple[str, ...]) -> None:
    (tmp_path / "conftest.py").write_text(
        "from tests.support.planted import PASSWORD\n"
        "def pytest_generate_tests(metafunc):\n"
        "    metafunc.fixturenames.append('word')\n"
        "    metafunc.parametrize('word', [PASSWORD])\n"
    )
    ran = played(tmp_path, "(tmp_path / 'a').touch()", *more)
    assert "a planted secret was shown: the id of the test" in ran.stdout
    assert ran.returncode == 1


def test_links_that_lead_in_circles_are_no_files(tmp_path: Path) -> None:
    ran = played(tmp_path, "(tmp_path / 'a').symlink_to('a')")
    assert "1 passed" in ran.stdout
    assert ran.returncode == 0


@PROCESSES
def test_one_that_was_planted_there_does_not(tmp_path: Path, more: tuple[str, ...]) -> None:
    ran = played(tmp_path, "plant(tmp_path / 'queries.yaml', PASSWORD)", *more)
    assert "1 passed" in ran.stdout
    assert ran.returncode == 0


def test_every_secret_is_another_one(tmp_path: Path) -> None:
    assert secret("one") != secret("other")
    assert plant(tmp_path / "a", secret("one")).read_text() == secret("one")
    with expected(), pytest.raises(ConfigError):
        raise ConfigError(PASSWORD)
