"""`completion`: what a shell offers behind a verb, asked as bash itself asks."""

import subprocess
import sys
from pathlib import Path

import click
import pytest

from statemaint.cli.targets import CheckpointName
from tests.support.paths import ROOT

QUERIES = """\
queries:
  hourly_revenue: {checkpoint: /data/checkpoints/hourly_revenue}
  hourly_users: {checkpoint: /data/checkpoints/hourly_users}
  daily: {checkpoint: /data/checkpoints/daily}
"""
# `compopt` works while bash completes alone; what is asked of it is kept instead.
SCRIPT = """\
compopt() { echo "and $2"; }
eval "$(statemaint completion bash)"
COMP_WORDS=(statemaint "$@"); COMP_CWORD=$#
_statemaint_completion statemaint
printf '%s\\n' "${COMPREPLY[@]}"
"""


def offered(folder: Path, *words: str, **environment: str) -> set[str]:
    """Returns what bash offers for the last of some words, in a folder."""
    done = subprocess.run(
        ["bash", "-c", SCRIPT, "bash", *words],
        cwd=folder,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
        | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return {*done.stdout.split("\n")} - {""}


def test_the_names_of_queries_are_completed_from_the_file_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "statemaint_queries.yaml").write_text(QUERIES)
    names = {one for one in offered(tmp_path, "doctor", "hourly_") if "and " not in one}
    assert names == {"hourly_revenue", "hourly_users"}


def test_where_no_query_begins_so_bash_looks_for_folders(tmp_path: Path) -> None:
    (tmp_path / "statemaint_queries.yaml").write_text(QUERIES)
    assert offered(tmp_path, "doctor", "/data/") == {"and dirnames"}


def test_a_file_named_by_flag_or_variable_has_the_names(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(QUERIES)
    assert "daily" in offered(tmp_path, "scan", "--queries", "other.yaml", "d")
    assert "daily" in offered(tmp_path, "scan", "d", STATEMAINT_QUERIES="other.yaml")
    assert "daily" not in offered(tmp_path, "scan", "d")


@pytest.mark.parametrize("text", [None, "", "queries: [", "\0", "queries: {daily: 5}"])
def test_a_file_that_cannot_be_read_offers_folders_and_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
    text: str | None,
) -> None:  # fmt: skip
    file = tmp_path / "statemaint_queries.yaml"
    if text is None:
        file.mkdir()
    else:
        file.write_text(text)
    monkeypatch.chdir(tmp_path)
    context = click.Context(click.Command("scan"))
    items = CheckpointName().shell_complete(context, click.Argument(["uri"]), "d")
    assert [(one.type, one.value) for one in items] == [("dir", "d")]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "words", [("scan", "--output"), ("scan", "--queries"), ("scan", "--log-file"), ("queries",)]
)
def test_where_a_file_is_wanted_bash_looks_for_files(tmp_path: Path, words: tuple[str]) -> None:
    assert offered(tmp_path, *words, "some") == {"and default"}


def test_verbs_flags_and_choices_are_completed(tmp_path: Path) -> None:
    assert offered(tmp_path, "do") == {"doctor"}
    assert {"--json", "--json-lines"} <= offered(tmp_path, "scan", "--js")
    assert offered(tmp_path, "scan", "--color", "a") == {"auto", "always"}
